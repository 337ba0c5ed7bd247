package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os/signal"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// serveSessions takes the lock of each session that no other process has, serves these sessions until
// ctx ends, and gives their locks back, so that a successor need not wait for the leases. It returns
// how many sessions it served, and how many of their locks are free only when their lease has ended.
func serveSessions(ctx context.Context, client *lock.Client, names []string, serve func(context.Context, []*lock.Held)) (served, left int, err error) {
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var mine []*lock.Held
	for _, try := range client.TryLockMany(starting, names) {
		switch {
		case try.Err == nil:
			mine = append(mine, try.Held)
		case !errors.Is(try.Err, lock.ErrNotAcquired):
			err = try.Err // Redis did not answer in time, or SIGTERM came first; the locks that were taken are given back
		}
	}
	if err == nil {
		serve(ctx, mine) // lock.Hooks.Lost reports sessions that are lost meanwhile
	}
	for _, e := range lock.UnlockMany(ctx, mine) { // works although ctx has ended
		if errors.Is(e, lock.ErrUnknown) { // Redis did not answer; the others are released, or were lost
			left++
		}
	}
	return len(mine), left, err
}

// A service has a lock for each session of its users. It takes all locks that are free when it
// starts, and gives them back at SIGTERM. A test runs serveSessions with 50,000 sessions.
func ExampleClient_TryLockMany() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(context.Background())
	other, err := client.Mutex("session:7").Lock(context.Background()) // another process would have it
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock(context.Background())

	var names []string
	for i := range 100 {
		names = append(names, fmt.Sprint("session:", i))
	}
	running, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	served, left, err := serveSessions(running, client, names, func(ctx context.Context, mine []*lock.Held) {
		fmt.Println("sessions:", len(mine))
		stop() // what SIGTERM does
		<-ctx.Done()
	})
	fmt.Println("served:", served, "left:", left, err)
	// Output:
	// sessions: 99
	// served: 99 left: 0 <nil>
}
