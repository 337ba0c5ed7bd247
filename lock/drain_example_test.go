package lock_test

import (
	"context"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// A service that holds very many locks. One hook is told of every loss, so no lock
// needs a goroutine. At the end some goroutines unlock, because each Unlock is a
// round trip.
func ExampleClient_Close() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	var jobs sync.Map // key: *lock.Held
	dropped := make(chan string, 1)
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{Hooks: lock.Hooks{
		Lost: func(e lock.Event) { // must be short: losses are told one by one
			if held, ok := jobs.Load(e.Name); ok && held.(*lock.Held).Token() == e.Token {
				jobs.Delete(e.Name)
				dropped <- e.Name
			}
		},
	}})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		held, err := client.Mutex(fmt.Sprint("job:", i)).TryLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		jobs.Store(held.Name(), held)
		if !held.Valid() { // lost before it was stored
			jobs.Delete(held.Name())
		}
	}
	short, err := client.Mutex("short").LockFor(ctx, 200*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	jobs.Store(short.Name(), short)
	fmt.Println("lost:", <-dropped)

	// The service gets SIGTERM. One deadline ends all of it, because each Unlock takes
	// Config.UnlockTimeout while Redis is down.
	bounded, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	leaving := make(chan *lock.Held)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for held := range leaving {
				if err := held.Unlock(ctx); err != nil {
					log.Println(err)
				}
			}
		})
	}
	for _, held := range jobs.Range {
		select {
		case leaving <- held.(*lock.Held):
		case <-bounded.Done(): // the rest is left to its TTL
		}
	}
	close(leaving)
	wg.Wait()
	fmt.Println("held:", client.Stats().Held, "closed:", client.Close(bounded))
	// Output:
	// lost: short
	// held: 0 closed: <nil>
}
