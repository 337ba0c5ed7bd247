package run

import (
	"context"
	"fmt"
	"time"
)

// Holder acquires, keeps and releases the locks of a row, numbered from 0.
// Acquire and Release may be called by many goroutines, each for another lock.
type Holder interface {
	// Acquire acquires lock i. From then on the holder renews it.
	Acquire(ctx context.Context, i int) error
	// Live is how many locks the holder believes to hold now; it is cheap.
	Live() int
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

// Hold returns the driver's holder of n locks, named prefix and their number. It
// holds none yet.
func Hold(d Driver, t *Target, prefix string, n int, lease time.Duration) (*Holding, error) {
	m, err := newMeter(prefix, n, len(t.servers), lease)
	if err != nil {
		return nil, err
	}
	var h Holder
	if d.keep == nil {
		h, err = newLibrary(t, m, prefix, n, lease)
	} else {
		h, err = d.keep(newKeeper(t, m, prefix, n, lease))
	}
	if err != nil {
		return nil, fmt.Errorf("bench: %w", err)
	}
	return &Holding{h, m}, nil
}
