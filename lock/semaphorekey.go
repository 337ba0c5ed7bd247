package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// Delete deletes the semaphore and reports whether there was one. It wakes no
// waiter, because no permit becomes free. Waiters keep waiting for a semaphore of
// that name. Permits that are taken are gone, too. A process that has such
// permits must not call Release, because Release would make a new semaphore.
// ReleaseIfExists does not. This is Redisson's delete.
//
// A request that is sent again takes effect once; see Semaphore. For 30 s after
// the first copy of a request was carried out, no other copy deletes a semaphore
// that was set since. The client sends no copy after 20 s. So only a copy that
// stays in the network for longer than the 30 s could delete such a semaphore.
// An Acquire whose ctx ended before the answer came is undone. If the semaphore was
// deleted and set again in between, which is 20 s at most, the undo adds its
// permits to the new semaphore. Errors are those of Release.
func (s *Semaphore) Delete(ctx context.Context) (bool, error) {
	return s.deleteWith(ctx)
}

// Expire makes the semaphore end by itself after d, in whole milliseconds, and
// reports whether there is one. It replaces an earlier Expire. The new end may
// be earlier or later, up to 292 years away. This is Redisson's expire. Errors
// are those of Release.
func (s *Semaphore) Expire(ctx context.Context, d time.Duration) (bool, error) {
	return s.expireWith(ctx, d)
}

// TTL returns how long the semaphore still lives. It is 0 if there is no
// semaphore, and -1 if the semaphore does not end by itself; see Expire. It is
// at most 291 years, also for a semaphore that lives longer.
// ErrUnknown: Redis did not answer. This is Redisson's remainTimeToLive.
func (s *Semaphore) TTL(ctx context.Context) (time.Duration, error) {
	reply, err := s.c.read(ctx, "ttl", s.name, wire.SemaphoreTTL(s.name))
	if err != nil {
		return 0, err
	}
	switch left, ok := reply.(int64); {
	case !ok, left < -2:
		return 0, badReply("ttl", s.name, reply)
	case left == -2:
		return 0, nil
	default:
		return wire.TTL(left), nil
	}
}

// Delete deletes the semaphore with all its permits, and reports whether there
// was one. It wakes no waiter. Holders of its permits are told (NotOwner) at
// their next renewal. If somebody sets the semaphore again before that renewal,
// its permits may go to others first. This is Redisson's delete. For errors, and
// for a request that is sent again, see Semaphore.Delete.
func (p *PermitSemaphore) Delete(ctx context.Context) (bool, error) {
	return p.s.deleteWith(ctx, keys.PermitsTaken(p.s.name))
}

// Expire makes the semaphore with all its permits end by itself after d; see
// Semaphore.Expire. Renewal prolongs permits but not the semaphore. Holders of
// permits are told (NotOwner) at their first renewal after the semaphore's end.
// This is Redisson's expire.
func (p *PermitSemaphore) Expire(ctx context.Context, d time.Duration) (bool, error) {
	return p.s.expireWith(ctx, d, keys.PermitsTaken(p.s.name))
}

// TTL returns how long the semaphore still lives; see Semaphore.TTL. For the rest
// of one permit's lease, see Lease.
func (p *PermitSemaphore) TTL(ctx context.Context) (time.Duration, error) {
	return p.s.TTL(ctx)
}

// deleteWith is Delete with keys that belong to the semaphore.
func (s *Semaphore) deleteWith(ctx context.Context, beside ...string) (bool, error) {
	d := newRecorded(s.c, "delete", s.name, wire.Once{Script: script.SemaphoreDelete, Keys: beside})
	n, err := d.runForNumber(ctx, true)
	return n == 1, err
}

// expireWith is Expire with keys that belong to the semaphore.
func (s *Semaphore) expireWith(ctx context.Context, ttl time.Duration, beside ...string) (bool, error) {
	if ttl < time.Millisecond || ttl%time.Millisecond != 0 {
		return false, errors.Join(s.c.checkName(s.name),
			fmt.Errorf("lock: expire of %q: the time is %v: it must be whole milliseconds, at least 1 ms", s.name, ttl))
	}
	d := newRecorded(s.c, "expire", s.name, wire.Once{Script: script.SemaphoreExpire, Keys: beside, Args: []any{wire.Milliseconds(ttl)}})
	n, err := d.runForNumber(ctx, true)
	return n == 1, err
}
