package lock_test

import (
	"context"
	"fmt"
	"log"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// Kubernetes ends a pod with SIGTERM, and with SIGKILL when terminationGracePeriodSeconds have
// passed. Here the work ends at SIGTERM. Each lock is unlocked when its own work has ended, and
// Close waits for these Unlocks. A new pod gets a lock when it is unlocked. A lock that is not
// unlocked in time is free when its lease ends.
func ExampleClient_Close() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}

	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	var jobs sync.WaitGroup
	for i := range 3 {
		held, err := client.Mutex(fmt.Sprint("job:", i)).Lock(running) // SIGTERM ends the waiting
		if err != nil {
			log.Fatal(err)
		}
		jobs.Go(func() {
			work := held.Context(running) // ends at SIGTERM, and when the lock is lost
			<-work.Done()
			if err := held.Unlock(work); err != nil { // works although its context has ended
				log.Println(err)
			}
		})
	}

	stop() // what SIGTERM does
	<-running.Done()
	// Less than terminationGracePeriodSeconds, which is 30 s by default.
	closing, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	fmt.Println("closed:", client.Close(closing))
	jobs.Wait()
	fmt.Println("left in Redis:", server.Exists("job:0") || server.Exists("job:1") || server.Exists("job:2"))
	// Output:
	// closed: <nil>
	// left in Redis: false
}
