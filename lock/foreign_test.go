package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// locker is what all kinds of a lock that other libraries know as SET NX PX have.
type locker struct {
	lock    func(context.Context) (*lock.Held, error)
	try     func(context.Context) (*lock.Held, error)
	inspect func(context.Context) (foreign bool, ttl time.Duration, err error)
	force   func(context.Context) (bool, error)
}

// lockers are the kinds of locks of one name.
func lockers(c *lock.Client, name string) map[string]locker {
	mutex, fenced, fair, rw := c.Mutex(name), c.FencedMutex(name), c.FairMutex(name), c.RWMutex(name)
	info := func(f func(context.Context) (lock.Info, error)) func(context.Context) (bool, time.Duration, error) {
		return func(ctx context.Context) (bool, time.Duration, error) {
			i, err := f(ctx)
			return i.Foreign && i.Locked, i.TTL, err
		}
	}
	rwInfo := func(ctx context.Context) (bool, time.Duration, error) {
		i, err := rw.Writer().Inspect(ctx)
		return i.Foreign, i.TTL, err
	}
	return map[string]locker{
		"mutex":  {mutex.Lock, mutex.TryLock, info(mutex.Inspect), mutex.ForceUnlock},
		"fenced": {fenced.Lock, fenced.TryLock, info(fenced.Inspect), fenced.ForceUnlock},
		"fair":   {fair.Lock, fair.TryLock, info(fair.Inspect), fair.ForceUnlock},
		"writer": {rw.Writer().Lock, rw.Writer().TryLock, rwInfo, rw.Writer().ForceUnlock},
		"reader": {rw.Reader().Lock, rw.Reader().TryLock, rwInfo, rw.Writer().ForceUnlock},
	}
}

// TestAStringWithATTLIsAnothersLock: what redsync, redislock and SET NX PX make is
// waited for, refused with its TTL, shown as foreign, and never deleted.
func TestAStringWithATTLIsAnothersLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // no message comes when it ends
	ctx := context.Background()
	for kind, l := range lockers(c, t.Name()) {
		t.Run(kind, func(t *testing.T) {
			name := "TestAStringWithATTLIsAnothersLock"
			fixture.Do(t, s, "SET", name, "theirs", "NX", "PX", 60_000)
			_, err := l.try(ctx)
			var held *lock.HeldError
			require.ErrorAs(t, err, &held)
			require.Greater(t, held.TTL, 30*time.Second)
			require.LessOrEqual(t, held.TTL, time.Minute)
			require.True(t, held.Foreign)
			require.ErrorContains(t, err, "another library")
			foreign, ttl, err := l.inspect(ctx)
			require.NoError(t, err)
			require.True(t, foreign)
			require.Greater(t, ttl, 30*time.Second)
			_, err = l.force(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock)
			require.ErrorContains(t, err, "another library")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))

			brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err = l.lock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)

			got := make(chan error, 1)
			go func() {
				h, err := l.lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				got <- err
			}()
			tries := c.Stats().Tries
			require.Eventually(t, func() bool { return c.Stats().Tries > tries+1 }, time.Minute, time.Millisecond, "it looks again")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))
			fixture.Do(t, s, "DEL", name)
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("it waits although the other's lock is gone")
			}
			require.Nil(t, fixture.Do(t, s, "GET", name))
		})
	}
}

// TestAStringWithoutATTLIsNoLock: a semaphore is one.
func TestAStringWithoutATTLIsNoLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := context.Background()
	for kind, l := range lockers(c, t.Name()) {
		for _, other := range []struct{ key []any }{{[]any{"SET", t.Name(), "7"}}, {[]any{"RPUSH", t.Name(), "7"}}} {
			fixture.Do(t, s, other.key[0].(string), other.key[1:]...)
			if other.key[0] == "RPUSH" {
				fixture.Do(t, s, "PEXPIRE", t.Name(), 60_000)
			}
			_, err := l.try(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = l.lock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, _, err = l.inspect(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = l.force(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}

// TestAHoldWhoseKeyIsAStringIsLost, whichever script finds it.
func TestAHoldWhoseKeyIsAStringIsLost(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute}) // no renewal finds it first
	ctx := bounded.Context(t)
	finds := map[string]func(l locker, h *lock.Held) error{
		"unlock":         func(_ locker, h *lock.Held) error { return h.Unlock(ctx) },
		"extend":         func(_ locker, h *lock.Held) error { return h.Extend(ctx, 2*time.Minute) },
		"guard":          func(_ locker, h *lock.Held) error { _, err := h.Guard(ctx, "PING", nil); return err },
		"partial unlock": nil,
	}
	for kind, l := range lockers(c, t.Name()) {
		for name, find := range finds {
			held, err := l.lock(ctx)
			require.NoError(t, err)
			again, err := l.lock(held.Context(ctx))
			require.NoError(t, err)
			if find == nil {
				find = func(_ locker, _ *lock.Held) error { return again.Unlock(ctx) }
			} else {
				require.NoError(t, again.Unlock(ctx))
			}
			fixture.Do(t, s, "SET", t.Name(), "theirs", "PX", 60_000)
			require.ErrorIs(t, find(l, held), lock.ErrLost, "%s of a %s", name, kind)
			bounded.Receive(t, held.Done())
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", t.Name()))
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}
