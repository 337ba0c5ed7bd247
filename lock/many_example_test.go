package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/wheellock/wheellock/lock"
)

// A service that has a lock for each session of its users. It takes them all when it starts, and
// gives them back when it ends, so that its successor need not wait for the leases.
func ExampleClient_TryLockMany() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	ctx := context.Background() // signal.NotifyContext(ctx, syscall.SIGTERM) in a service
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close(ctx)
	other, err := client.Mutex("session:7").Lock(ctx) // another process would have it
	if err != nil {
		log.Fatal(err)
	}
	defer other.Unlock(ctx)

	var names []string
	for i := range 1000 {
		names = append(names, fmt.Sprint("session:", i))
	}
	starting, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	var sessions []*lock.Held
	for i, try := range client.TryLockMany(starting, names) {
		switch {
		case try.Err == nil:
			sessions = append(sessions, try.Held)
		case errors.Is(try.Err, lock.ErrNotAcquired):
			fmt.Println("another process has", names[i])
		default:
			log.Fatal(try.Err)
		}
	}
	fmt.Println("sessions:", len(sessions))

	// It works, until SIGTERM. Hooks.Lost tells of sessions that it loses.

	left := 0
	for _, err := range lock.UnlockMany(context.WithoutCancel(ctx), sessions) {
		if err != nil {
			left++ // they are free when their lease has ended
		}
	}
	fmt.Println("left:", left)
	// Output:
	// another process has session:7
	// sessions: 999
	// left: 0
}
