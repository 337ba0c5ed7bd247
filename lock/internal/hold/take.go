package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/renewal"
)

// Terms has what the caller of a lock function asks for.
type Terms struct {
	Lease   time.Duration
	Renewed bool
	Wait    bool
	Fewer   bool // of permits: fewer will do

	MaxHoldEnd time.Time // when Config.MaxHold is over; zero: so long after the acquisition
}

// Wanted says what a call takes, and for which owner.
type Wanted struct {
	Kind    Kind
	Name    string
	Owner   owner.Owner
	Shared  bool  // the owner came with the context, so others may have it too
	Permits int64 // how many, which have no owner
	Terms
	Began waitqueue.Instant // the call
}

// Take takes the lock or permits. It waits for them if the caller waits.
func (k *Keeper) Take(ctx context.Context, w Wanted) (*Held, error) {
	a := attempt{k: k, Wanted: w, seq: k.seqs.Add(1)}
	switch w.Kind {
	case Fair:
		return (&fairPlace{attempt: a}).take(ctx)
	case Read, Write:
		return (&rwAcquire{attempt: a}).take(ctx)
	case Permits:
		a.Owner = newPermits(w.Permits).asOwner()
		return (&permitAcquire{a: a}).take(ctx)
	}
	return (&mutexAcquire{attempt: a}).take(ctx)
}

// CheckLease refuses a lease that Redis or the watchdog cannot keep.
func CheckLease(name string, d time.Duration) error {
	if d < renewal.MinTTL || d > renewal.MaxTTL || d%time.Millisecond != 0 {
		return fmt.Errorf("lock: %q: the lease is %v: it must be whole milliseconds from %v to %v", name, d, renewal.MinTTL, renewal.MaxTTL)
	}
	return nil
}
