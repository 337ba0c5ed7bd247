package holders

import "context"

// Holder acquires, keeps and releases the locks of a row, numbered from 0.
// Acquire and Release may be called by many goroutines, each for another lock.
type Holder interface {
	// Acquire acquires lock i. From then on the holder renews it.
	Acquire(ctx context.Context, i int) error
	// CountHeld is how many locks the holder believes to hold now; it is cheap.
	CountHeld() int
	// Owns says whether a field that stands in lock i's hash is the holder's.
	Owns(i int, field string) bool
	// Release releases lock i if it was acquired; lock.ErrLost if it had been
	// lost.
	Release(ctx context.Context, i int) error
	// Close ends the renewals. Locks that are held are left to their lease.
	Close()
}

// Holding is a holder, and the meter on its connections.
type Holding struct {
	Holder
	*Meter
}
