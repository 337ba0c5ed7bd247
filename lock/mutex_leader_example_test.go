package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// campaign waits until this process is the leader, calls lead, and begins again when lead has
// returned. It returns when ctx ends.
func campaign(ctx context.Context, client *lock.Client, lead func(context.Context, *lock.Held) error) {
	for ctx.Err() == nil {
		err := client.Mutex("leader").Do(ctx, lead)
		if err != nil && ctx.Err() == nil && !errors.Is(err, lock.ErrLost) {
			log.Println(err)
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}
}

// Leader election. The leader is the process that runs a function in Do. The context of that
// function ends when the lock is lost, before another process can be the leader. The function
// asks Valid before each piece of work, because Valid is exact even right after the whole process
// was stopped.
func ExampleMutex_Do_leaderElection() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	leads := make(chan string)
	var processes sync.WaitGroup
	start := func(name string) (end func()) {
		ctx, cancel := context.WithCancel(context.Background())
		client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
		if err != nil {
			log.Fatal(err)
		}
		processes.Go(func() {
			campaign(ctx, client, func(leading context.Context, held *lock.Held) error {
				leads <- name
				for leading.Err() == nil && held.Valid() {
					select {
					case <-time.After(10 * time.Millisecond): // a piece of the leader's work
					case <-leading.Done():
					}
				}
				return nil
			})
			client.Close(ctx)
		})
		return cancel
	}

	endA := start("a")
	fmt.Println(<-leads, "leads")
	endB := start("b")
	endA() // a new version is rolled out
	fmt.Println(<-leads, "leads")
	endB()
	processes.Wait()
	// Output:
	// a leads
	// b leads
}
