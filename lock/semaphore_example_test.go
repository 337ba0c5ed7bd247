package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock"
)

func ExampleSemaphore() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	sem := client.Semaphore("downloads")
	sem.TrySet(ctx, 3) // every process calls it; the first one sets the number
	if err := sem.Acquire(ctx, 2); err != nil {
		fmt.Println(err)
		return
	}
	err := sem.TryAcquire(ctx, 2)
	var few *lock.PermitsError
	fmt.Println(errors.Is(err, lock.ErrNotAcquired), errors.As(err, &few), few.Free)
	fmt.Println(sem.Release(ctx, 2))
	n, _ := sem.Available(ctx)
	fmt.Println(n)
	// Output:
	// true true 1
	// <nil>
	// 3
}

func ExampleCountDownLatch() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	latch := client.CountDownLatch("warmed-up")
	latch.TrySet(ctx, 3)
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() {
			latch.CountDown(ctx) // in whatever process
		})
	}
	fmt.Println(latch.Wait(ctx))
	left, _ := latch.Count(ctx)
	fmt.Println(left)
	workers.Wait()
	// Output:
	// <nil>
	// 0
}

// Permits have a holder, like a lock. The client renews them, and tells the holder when
// they are lost.
func ExamplePermitSemaphore() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	sem := client.PermitSemaphore("gpu")
	sem.TrySet(ctx, 4)
	held, err := sem.Acquire(ctx, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	work := held.Context(ctx) // ends if the permits are lost
	_, err = sem.TryAcquire(ctx, 2)
	fmt.Println(work.Err(), errors.Is(err, lock.ErrNotAcquired))
	fmt.Println(held.Unlock(ctx))
	info, _ := sem.Inspect(ctx)
	fmt.Println(info.Available)
	// Output:
	// <nil> true
	// <nil>
	// 4
}

// The ids of permits can be kept elsewhere, for example with a job. The process that
// finishes the job releases the permits. It may be another process, even one with
// Redisson.
func ExamplePermitSemaphore_Release() {
	client, done := exampleClient()
	defer done()
	ctx := context.Background()

	sem := client.PermitSemaphore("licences")
	sem.TrySet(ctx, 2)
	held, err := sem.AcquireFor(ctx, 1, time.Hour) // not renewed: the job may outlive this process
	if err != nil {
		fmt.Println(err)
		return
	}
	id := held.Permits()[0]

	fmt.Println(sem.SetLease(ctx, id, 2*time.Hour)) // elsewhere, the job takes longer
	left, _ := sem.Lease(ctx, id)
	fmt.Println(left > time.Hour)
	fmt.Println(sem.Release(ctx, id))
	fmt.Println(errors.Is(sem.Release(ctx, id), lock.ErrNotHeld))
	info, _ := sem.Inspect(ctx)
	fmt.Println(info.Available)
	fmt.Println(errors.Is(held.Unlock(ctx), lock.ErrLost)) // the process that took it may still be there
	// Output:
	// <nil>
	// true
	// <nil>
	// true
	// 2
	// true
}
