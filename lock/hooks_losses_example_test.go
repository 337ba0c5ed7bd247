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

// A service that holds very many locks, 50,000 for instance. One hook is called for every loss,
// so no lock needs a goroutine, a channel or a context. The hook must not block, because it is
// called for one loss after the other and Close waits for it. At the end Close releases all locks
// that are held, in batches.
func ExampleHooks_manyLocks() {
	server, err := miniredis.Run() // a service has a Redis
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	ctx := context.Background()
	var devices sync.Map // name of the lock: *lock.Held
	var mu sync.Mutex
	var lost []string              // guarded by mu; has all devices if Redis fails
	wake := make(chan struct{}, 1) // tells that lost is not empty
	client, err := lock.Open("redis://"+server.Addr(), lock.Config{
		ReleaseOnClose: true,
		Hooks: lock.Hooks{Lost: func(e lock.Event) {
			if errors.Is(e.Err, lock.ErrClosed) {
				return // Close calls the hook for the locks that are still held
			}
			held, ok := devices.Load(e.Name)
			if ok && held.(*lock.Held).Token() == e.Token && devices.CompareAndDelete(e.Name, held) {
				mu.Lock()
				lost = append(lost, e.Name)
				mu.Unlock()
				select {
				case wake <- struct{}{}:
				default:
				}
			}
		}},
	})
	if err != nil {
		log.Fatal(err)
	}
	for i := range 1000 {
		held, err := client.Mutex(fmt.Sprint("device:", i)).TryLock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		devices.Store(held.Name(), held)
		if !held.Valid() { // lost before it was stored
			devices.CompareAndDelete(held.Name(), held)
		}
	}
	short, err := client.Mutex("short").LockFor(ctx, 200*time.Millisecond)
	if err != nil {
		log.Fatal(err)
	}
	devices.Store(short.Name(), short)
	<-wake // the goroutine that gives up the work of lost devices waits here
	mu.Lock()
	fmt.Println("lost:", lost)
	lost = nil
	mu.Unlock()

	// The work has ended. A ctx that has ended makes Close release the locks at once.
	now, cancel := context.WithCancel(ctx)
	cancel()
	fmt.Println(client.Close(now))
	// Output:
	// lost: [short]
	// lock: closed with 1000 locks held: 1000 were released, 0 are left to their TTL: context canceled: unlock when Held.Done is closed, or give Close more time
}
