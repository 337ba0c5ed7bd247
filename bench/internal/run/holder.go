package run

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// Holder acquires, keeps and releases the locks of a row, numbered from 0.
// Acquire and Release may be called by many goroutines, each for another lock.
type Holder interface {
	// Acquire acquires lock i. From then on the holder renews it.
	Acquire(ctx context.Context, i int) error
	// Begin is called when all are acquired: Counters counts from there.
	Begin()
	// Counters is what the holder knows of its renewals.
	Counters() Counters
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

// Counters are what a holder knows of its renewals.
type Counters struct {
	Renewals      uint64        // answered since Begin
	Batches       uint64        // round trips of renewals since Begin
	P50, P99, Max time.Duration // how late the renewals since Begin were
	Missed        int           // locks whose trust ended, since they were acquired
}

// NewHolder returns the driver's holder of n locks. It holds none yet.
func NewHolder(d Driver, srv *redistest.Server, name func(i int) string, n int, lease time.Duration) (Holder, error) {
	if d.sweep {
		return newSweep(srv, name, n, lease)
	}
	client, dials, err := newClient(srv, lock.Config{Lease: lease, Renewal: d.renewal})
	if err != nil {
		return nil, err
	}
	return &engine{client: client, dials: dials, name: name, held: make([]*lock.Held, n)}, nil
}
