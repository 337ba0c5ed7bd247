package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// maxPermitsAtOnce limits the permits of one hold, because each permit is a member of
// its own in Redis.
const maxPermitsAtOnce = 1000

// PermitSemaphore is a semaphore in Redis whose permits have holders. The
// watchdog renews permits like locks, and the permits of a process that has died
// become free by themselves. The semaphore has the format of Redisson's
// RPermitExpirableSemaphore: a number of free permits under the semaphore's
// name, and a sorted set {id: deadline} of the permits that are taken. All
// methods are safe for concurrent use.
//
// Permits have ids. By an id, another process can release the permit (Release),
// set its lease (SetLease) and read its lease (Lease). Held.Token is 0, and a
// Held of permits cannot be re-entered.
//
// The format has deadlines that are times of day. Clients of this package use
// the server's clock for them, so a holder is told before another process can
// have its permit. Java processes use their own clocks, and so does a client
// whose user has no right to TIME. With such clocks the following holds:
//
//   - A holder is told first as long as no such clock is ahead of the holder's
//     clock by more than the margin. Config.Margin is by default 600 ms for a
//     lease of 30 s, and 25 ms for a lease of 1 s. If a clock is further ahead
//     and a permit ends without Unlock, another process can have it before its
//     holder is told, by the rest of the difference.
//   - A permit that is renewed in time is safe until a clock is ahead by more
//     than about 2/3 of the lease. Then the permit is taken from a live holder,
//     and the holder is told (reason NotOwner) at its next renewal.
//   - A clock that is behind only makes the permits of dead processes become
//     free later.
//
// Redisson has the same limits, but does not tell the holder.
type PermitSemaphore struct {
	s Semaphore // immutable: the counter of free permits, which has the format of a Semaphore
}

// PermitSemaphore returns the semaphore of that name. It does no I/O and keeps
// nothing. The first call that uses a bad name returns an error. A semaphore
// that was never set has no permits.
func (c *Client) PermitSemaphore(name string) *PermitSemaphore {
	return &PermitSemaphore{s: Semaphore{c: c, name: c.key(name)}}
}

// Name returns the semaphore's key in Redis: Config.KeyPrefix and the name.
func (p *PermitSemaphore) Name() string { return p.s.name }

// TrySet gives the semaphore n permits if it does not exist, and reports
// whether it did that. This is Redisson's trySetPermits. Errors are those of
// Semaphore.Release.
func (p *PermitSemaphore) TrySet(ctx context.Context, n int64) (bool, error) {
	return p.s.TrySet(ctx, n)
}

// Set makes n the number of all permits, free and taken. If more than n permits
// are taken, the surplus does not become free when it is released. This is
// Redisson's setPermits. Errors are those of Semaphore.Release.
func (p *PermitSemaphore) Set(ctx context.Context, n int64) error {
	if err := errors.Join(p.s.c.checkName(p.s.name), checkPermits(p.s.name, "permits", n, 0)); err != nil {
		return err
	}
	d := newRecorded(p.s.c, "set permits", p.s.name, wire.Once{
		Script: script.PermitSet, Keys: []string{keys.PermitsTaken(p.s.name)}, Args: []any{n, keys.SemaphoreChannel(p.s.name)},
	})
	_, err := d.runForNumber(ctx, true)
	return err
}

// Add changes the number of permits by n; see Semaphore.Add. This is Redisson's
// addPermits.
func (p *PermitSemaphore) Add(ctx context.Context, n int64) error { return p.s.Add(ctx, n) }

// Acquire takes n permits at once, from 1 to 1000, and keeps them renewed until
// Unlock. It waits until they are free or ctx ends. Waiters of one client are
// served in the order in which they came. Errors are those of Mutex.Lock, with
// a *PermitsError instead of a *HeldError. This is Redisson's acquire(permits),
// with a lease that is renewed.
//
// An n of 0 is an error, unlike in Semaphore.Acquire. A Held without permits
// would stay valid whatever happens to the semaphore, and would have no id to
// release.
func (p *PermitSemaphore) Acquire(ctx context.Context, n int64) (*Held, error) {
	return p.acquire(ctx, n, hold.Terms{Renewed: true, Wait: true})
}

// AcquireFor is Acquire with a lease of d that is not renewed. After d the
// permits are free (reason Expired) unless they were unlocked. d is whole
// milliseconds from 100 ms to 30 days. This is Redisson's acquire(permits,
// leaseTime). No renewal asks Redis whether the permits are still there. If
// somebody deletes the semaphore, the holder is told by Extend or Unlock, or
// when d is over.
func (p *PermitSemaphore) AcquireFor(ctx context.Context, n int64, d time.Duration) (*Held, error) {
	return p.acquire(ctx, n, hold.Terms{Lease: d, Wait: true})
}

// TryAcquire takes n permits if they are free and no waiter of this client came
// before. Otherwise it returns a *PermitsError at once. ErrUnknown: Redis did
// not answer. If Redis took the permits, the client gives them back. ErrNotSent:
// there was no connection to Redis.
func (p *PermitSemaphore) TryAcquire(ctx context.Context, n int64) (*Held, error) {
	return p.acquire(ctx, n, hold.Terms{Renewed: true})
}

// TryAcquireFor is TryAcquire with a lease of d that is not renewed.
func (p *PermitSemaphore) TryAcquireFor(ctx context.Context, n int64, d time.Duration) (*Held, error) {
	return p.acquire(ctx, n, hold.Terms{Lease: d})
}

// Drain takes all free permits, at most 1000, keeps them renewed until Unlock,
// and returns their number. If none is free it returns a *PermitsError.
func (p *PermitSemaphore) Drain(ctx context.Context) (*Held, int64, error) {
	held, err := p.acquire(ctx, maxPermitsAtOnce, hold.Terms{Renewed: true, Fewer: true})
	if err != nil {
		return nil, 0, err
	}
	return held, int64(held.in().Hold().Weight()), nil
}

// acquire is the common part of all functions that take permits.
func (p *PermitSemaphore) acquire(ctx context.Context, n int64, t hold.Terms) (*Held, error) {
	return p.s.c.take(ctx, hold.Wanted{Kind: hold.Permits, Name: p.s.name, Permits: n, Terms: t})
}

func checkPermitsAtOnce(name string, n int64) error {
	if n < 1 || n > maxPermitsAtOnce {
		return fmt.Errorf("lock: %q: the number of permits is %d: it must be from 1 to %d", name, n, maxPermitsAtOnce)
	}
	return nil
}

// PermitInfo describes a PermitSemaphore as Redis has it.
type PermitInfo struct {
	Exists    bool  // the semaphore was set
	Available int64 // free permits, including those whose deadline has passed; negative if more are taken than Set or Add left
	Taken     int64 // permits that are taken and whose deadline has not passed by this client's clock
}

// Inspect reads the semaphore from Redis. The answer may be out of date when
// Inspect returns. ErrUnknown: Redis did not answer. This is Redisson's
// availablePermits and acquiredPermits.
func (p *PermitSemaphore) Inspect(ctx context.Context) (PermitInfo, error) {
	reply, err := p.s.c.read(ctx, "inspect", p.s.name, wire.PermitInspect(p.s.name, time.Now()))
	if err != nil {
		return PermitInfo{}, err
	}
	exists, free, taken, ok := wire.ReadPermitInfo(reply)
	if !ok {
		return PermitInfo{}, badReply("inspect", p.s.name, reply)
	}
	return PermitInfo{Exists: exists, Available: free, Taken: taken}, nil
}
