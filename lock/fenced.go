package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
)

// FencedMutex is a Mutex whose fencing tokens come from Redisson's counter, so
// that holders in Go and in Java get tokens of one sequence: the format of
// RFencedLock, a counter redisson_lock_token:{name} beside the lock's hash. All
// methods are safe for concurrent use.
//
// The token rises by at least one at each fresh acquisition, never at a
// re-entry; a request that was sent twice leaves a gap. The counter has no TTL:
// tokens must go on rising after a lock was long out of use. Unlike those of a
// Mutex they start again if Redis loses its data.
type FencedMutex struct {
	m Mutex // immutable
}

// FencedMutex returns the fenced lock of that name. It does no I/O and keeps
// nothing. A bad name is reported by the first call that uses it.
func (c *Client) FencedMutex(name string) *FencedMutex {
	return &FencedMutex{m: Mutex{c: c, name: c.key(name), kind: fencedKind}}
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (f *FencedMutex) Name() string { return f.m.Name() }

// Lock is Mutex.Lock; Held.Token is from the lock's own counter. This is
// Redisson's lockAndGetToken().
func (f *FencedMutex) Lock(ctx context.Context) (*Held, error) { return f.m.Lock(ctx) }

// LockFor is Mutex.LockFor: after d the lock is lost unless it was unlocked.
// This is Redisson's lockAndGetToken(leaseTime).
func (f *FencedMutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return f.m.LockFor(ctx, d)
}

// TryLock is Mutex.TryLock. This is Redisson's tryLockAndGetToken().
func (f *FencedMutex) TryLock(ctx context.Context) (*Held, error) { return f.m.TryLock(ctx) }

// TryLockFor is Mutex.TryLockFor.
func (f *FencedMutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return f.m.TryLockFor(ctx, d)
}

// Do is Mutex.Do.
func (f *FencedMutex) Do(ctx context.Context, do func(context.Context) error) error {
	return f.m.Do(ctx, do)
}

// HeldBy is Mutex.HeldBy.
func (f *FencedMutex) HeldBy(ctx context.Context) bool { return f.m.HeldBy(ctx) }

// Inspect is Mutex.Inspect.
func (f *FencedMutex) Inspect(ctx context.Context) (Info, error) { return f.m.Inspect(ctx) }

// IsLocked is Mutex.IsLocked.
func (f *FencedMutex) IsLocked(ctx context.Context) (bool, error) { return f.m.IsLocked(ctx) }

// TTL is Mutex.TTL.
func (f *FencedMutex) TTL(ctx context.Context) (time.Duration, error) { return f.m.TTL(ctx) }

// ForceUnlock is Mutex.ForceUnlock. The counter stays.
func (f *FencedMutex) ForceUnlock(ctx context.Context) (bool, error) { return f.m.ForceUnlock(ctx) }

// Token returns the token of the last fresh acquisition, whoever's it was, 0 if
// there was none. This is Redisson's getToken.
func (f *FencedMutex) Token(ctx context.Context) (int64, error) {
	if err := f.m.c.checkName(f.m.name); err != nil {
		return 0, err
	}
	n, _, err := f.m.c.readCount(ctx, "token", keys.FencedCounter(f.m.name))
	return n, err
}
