package lock_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// Make one client for a process, and a Mutex for each use of a name.
func Example() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)

	held, err := client.Mutex("order:42").Lock(ctx) // waits; renewed until Unlock
	if err != nil {
		log.Fatal(err)
	}
	work := held.Context(ctx) // ends if the lock is lost
	fmt.Println("working:", work.Err() == nil)
	if err := held.Unlock(ctx); err != nil {
		log.Println(err) // lock.ErrLost: check what the work has done; or lock.ErrUnknown
	}

	// The same in one call.
	err = client.Mutex("order:42").Do(ctx, func(work context.Context, _ *lock.Held) error { return nil })
	fmt.Println("done:", err)
	// Output:
	// working: true
	// done: <nil>
}

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

// Somebody else changes the password, which is in a file here. Each dial reads it anew. Locks that
// are held stay held when the password changes.
func ExampleEndpoint() {
	client, err := lock.Endpoint{
		URL: "rediss-sentinel://10.0.0.1:26379,10.0.0.2:26379/0?master=mymaster",
		Credentials: func(context.Context) (user, password string, err error) {
			text, err := os.ReadFile("/run/secrets/redis-password")
			return "orders", strings.TrimSpace(string(text)), err
		},
	}.Open(lock.Config{}) // does no I/O
	fmt.Println(err)
	fmt.Println(client.Close(context.Background()))
	// Output:
	// <nil>
	// <nil>
}
