package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/wheellock/wheellock/lock"
)

// A transfer needs both accounts. The order in which they are named does not
// matter. A transfer the other way at the same time does not cause a deadlock.
func ExampleMultiLock() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	both, err := lock.NewMultiLock(client.Mutex("account:7"), client.Mutex("account:3"))
	if err != nil {
		log.Fatal(err)
	}
	err = both.Do(ctx, func(ctx context.Context, _ *lock.MultiHeld) error { // ctx ends if one of them is lost
		_, err := client.Mutex("account:3").TryLock(context.Background())
		fmt.Println("another:", err != nil)
		return nil
	})
	fmt.Println(err)
	// Output:
	// another: true
	// <nil>
}

// Three masters know nothing of each other. The owner that has a majority of them
// holds the lock.
func ExampleRedLock() {
	var members []*lock.Mutex
	for range 3 {
		client, done := exampleClient() // of a server of its own
		defer done()
		members = append(members, client.Mutex("ledger"))
	}
	// A server that was just started may not vote for as long as the longest lease,
	// because it may have forgotten a lock. The servers of this example have just
	// been started. Durable says that they forget nothing, so they may vote at once.
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	held, err := red.Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = red.TryLock(ctx) // without held.Context(ctx) it is another owner
	var no *lock.QuorumError
	fmt.Println(errors.As(err, &no), errors.Is(err, lock.ErrNotAcquired), "quorum:", no.Quorum, "of", no.Members)
	fmt.Println("members:", held.Members(), "unlocked:", held.Unlock(ctx) == nil)
	// Output:
	// true true quorum: 2 of 3
	// members: 3 unlocked: true
}
