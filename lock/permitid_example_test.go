package lock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock"
)

// The ids of permits can be kept elsewhere, with a job for instance, and whoever
// finishes the job releases them: another process, Redisson's too.
func ExamplePermitSemaphore_Release() {
	client, done := countersClient()
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
	n, _ := sem.Available(ctx)
	fmt.Println(n)
	fmt.Println(errors.Is(held.Unlock(ctx), lock.ErrLost)) // the process that took it may still be there
	// Output:
	// <nil>
	// true
	// <nil>
	// true
	// 2
	// true
}
