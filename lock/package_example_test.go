package lock_test

import (
	"context"
	"fmt"
	"log"

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
