package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// familyClient returns a client of a Redis in memory. A service makes its own of
// its pool: lock.New(pool, lock.Config{}).
func familyClient() (client *lock.Client, done func()) {
	server, err := redistest.StartMini(redistest.MiniOptions{})
	if err != nil {
		panic(err)
	}
	if client, err = lock.New(server.Pool(0), lock.Config{}); err != nil {
		panic(err)
	}
	return client, func() {
		client.Close(context.Background())
		server.Stop()
	}
}

// Tokens come from the counter that Redisson's RFencedLock uses.
func ExampleClient_FencedMutex() {
	client, done := familyClient()
	defer done()
	ctx := context.Background()

	mu := client.FencedMutex("account:7")
	for range 2 {
		held, err := mu.Lock(ctx)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println("token", held.Token())
		held.Unlock(ctx)
	}
	// Output:
	// token 1
	// token 2
}

func ExampleRWMutex() {
	client, done := familyClient()
	defer done()
	ctx := context.Background()

	mu := client.RWMutex("catalog")
	first, _ := mu.Reader().Lock(ctx)
	second, _ := mu.Reader().Lock(ctx)
	_, err := mu.Writer().TryLock(ctx)
	fmt.Println("two read:", first.Valid() && second.Valid(), "nobody writes:", errors.Is(err, lock.ErrNotAcquired))
	first.Unlock(ctx)
	second.Unlock(ctx)
	fmt.Println(mu.Writer().Do(ctx, func(context.Context, *lock.Held) error { return nil }))
	// Output:
	// two read: true nobody writes: true
	// <nil>
}

// A writer also takes the lock for reading. After its writing it keeps reading,
// and others can read, too.
func ExampleRWMutex_downgrade() {
	client, done := familyClient()
	defer done()
	ctx := context.Background()

	mu := client.RWMutex("catalog")
	writing, _ := mu.Writer().Lock(ctx)
	reading, _ := mu.Reader().Lock(writing.Context(ctx))
	writing.Unlock(ctx)
	other, err := mu.Reader().TryLock(ctx)
	fmt.Println(reading.Valid(), err)
	_, err = mu.Writer().Lock(reading.Context(ctx))
	fmt.Println(errors.Is(err, lock.ErrUpgrade))
	other.Unlock(ctx)
	reading.Unlock(ctx)
	// Output:
	// true <nil>
	// true
}

// Waiters get the lock in the order in which they came, whichever process they
// are in.
func ExampleClient_FairMutex() {
	client, done := familyClient()
	defer done()
	ctx := context.Background()

	mu := client.FairMutex("ticket-counter")
	err := mu.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		// Another owner waits in the queue until its context ends, and then leaves it.
		wait, cancel := context.WithTimeout(lock.WithoutOwner(ctx), 50*time.Millisecond)
		defer cancel()
		_, err := mu.Lock(wait)
		fmt.Println(errors.Is(err, context.DeadlineExceeded))
		return nil
	})
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}
