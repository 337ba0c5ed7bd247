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

// waits are all calls that wait: each takes its object, of that name, and
// returns what gives it back.
func waits(t *testing.T, c *lock.Client) map[string]func(ctx context.Context, name string) (func(), error) {
	bg := bounded.Context(t)
	held := func(x *lock.Held, err error) (func(), error) {
		return func() { require.NoError(t, x.Unlock(bg)) }, err
	}
	multi := func(x *lock.MultiHeld, err error) (func(), error) {
		return func() { require.NoError(t, x.Unlock(bg)) }, err
	}
	return map[string]func(ctx context.Context, name string) (func(), error){
		"Mutex": func(ctx context.Context, name string) (func(), error) { return held(c.Mutex(name).Lock(ctx)) },
		"LockFor": func(ctx context.Context, name string) (func(), error) {
			return held(c.Mutex(name).LockFor(ctx, time.Minute))
		},
		"Fenced": func(ctx context.Context, name string) (func(), error) { return held(c.FencedMutex(name).Lock(ctx)) },
		"Fair":   func(ctx context.Context, name string) (func(), error) { return held(c.FairMutex(name).Lock(ctx)) },
		"writer": func(ctx context.Context, name string) (func(), error) {
			return held(c.RWMutex(name).Writer().Lock(ctx))
		},
		"reader": func(ctx context.Context, name string) (func(), error) {
			return held(c.RWMutex(name).Reader().Lock(ctx))
		},
		"permits": func(ctx context.Context, name string) (func(), error) {
			return held(c.PermitSemaphore(name).Acquire(ctx, 1))
		},
		"MultiLock": func(ctx context.Context, name string) (func(), error) {
			return multi(fixture.MultiLock(t, c.Mutex(name)).Lock(ctx))
		},
		"RedLock": func(ctx context.Context, name string) (func(), error) {
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex(name))
			require.NoError(t, err)
			return multi(r.Lock(ctx))
		},
		"Semaphore": func(ctx context.Context, name string) (func(), error) {
			s := c.Semaphore(name)
			return func() { require.NoError(t, s.Release(bg, 1)) }, s.Acquire(ctx, 1)
		},
	}
}

// TestACallWhoseDeadlineIsOverAsksOnce: as Redisson's tryLock(0) does.
func TestACallWhoseDeadlineIsOverAsksOnce(t *testing.T) {
	s := onRedis(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	others := waits(t, a)
	for kind, take := range waits(t, b) {
		t.Run(kind, func(t *testing.T) {
			name := t.Name()
			switch kind {
			case "permits":
				_, err := a.PermitSemaphore(name).TrySet(bg, 1)
				require.NoError(t, err)
			case "Semaphore":
				_, err := a.Semaphore(name).TrySet(bg, 1)
				require.NoError(t, err)
			}
			giveBack, err := take(over, name)
			require.NoError(t, err, "it is free")
			giveBack()

			other := kind
			if kind == "reader" {
				other = "writer"
			}
			giveBack, err = others[other](bg, name)
			require.NoError(t, err)
			_, err = take(over, name)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NotErrorIs(t, err, lock.ErrUnknown)

			tries := b.Stats().Tries
			_, err = take(cancelled, name)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, tries, b.Stats().Tries, "it asks nothing")
			giveBack()
			require.Zero(t, b.Stats().Held)
		})
	}
	t.Run("latch", func(t *testing.T) {
		latch := b.CountDownLatch(t.Name())
		require.NoError(t, latch.Wait(over), "it is open")
		_, err := latch.TrySet(bg, 1)
		require.NoError(t, err)
		err = latch.Wait(over)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, latch.Wait(cancelled), context.Canceled)
		require.NoError(t, latch.CountDown(bg))
	})
	t.Run("Do", func(t *testing.T) {
		called := false
		err := b.Mutex(t.Name()).Do(over, func(context.Context, *lock.Held) error { called = true; return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, called, "its context has ended")
	})
}

// TestACallWhoseDeadlineIsOverPassesNobodyWhoWaits.
func TestACallWhoseDeadlineIsOverPassesNobodyWhoWaits(t *testing.T) {
	s := onRedis(t)
	bg, name := bounded.Context(t), t.Name()
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	before, err := fixture.ClientOf(t, s, lock.Config{}).Mutex(name).Lock(bg)
	require.NoError(t, err)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	waiter := inLine(t, c, func() (*lock.Held, error) { return c.Mutex(name).Lock(bg) })
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+name+"}", 1)
	fixture.Do(t, s, "DEL", name) // it is free, and the one in line does not know it yet
	_, err = c.Mutex(name).Lock(over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	fixture.Do(t, s, "PUBLISH", "redisson_lock__channel:{"+name+"}", 0)
	held := soon(t, waiter, "the one in line")
	require.NoError(t, held.Unlock(bg))
	require.Error(t, before.Unlock(bg))
}

// TestTheTryOfACallWhoseDeadlineIsOverIsBounded: its outcome is unknown then.
func TestTheTryOfACallWhoseDeadlineIsOverIsBounded(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: 100 * time.Millisecond})
	takes := waits(t, c)
	giveBack, err := takes["Mutex"](bg, "warm")
	require.NoError(t, err)
	giveBack()
	require.NoError(t, s.Pause())
	defer func() { require.NoError(t, s.Resume()) }()
	for kind, take := range takes {
		_, err := take(over, kind)
		require.ErrorIs(t, err, context.DeadlineExceeded, kind)
		require.True(t, fixture.NoAnswer(err), "%s: %v", kind, err)
		require.NotErrorIs(t, err, lock.ErrNotAcquired, kind)
	}
}

// TestARedLockCallWhoseDeadlineIsOverPassesNobodyWhoWaits, though TryLock does.
func TestARedLockCallWhoseDeadlineIsOverPassesNobodyWhoWaits(t *testing.T) {
	s := onRedis(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	other := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex(t.Name()))
	require.NoError(t, err)
	waiting, leave := context.WithCancel(bg)
	left := make(chan error, 1)
	go func() {
		_, err := r.Lock(waiting)
		left <- err
	}()
	// It tries once, and once more when it hears what is published.
	require.Eventually(t, func() bool { return c.Stats().Tries == 2 }, time.Minute, time.Millisecond)
	_, err = r.Lock(over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.EqualValues(t, 2, c.Stats().Tries)
	leave()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	require.NoError(t, other.Unlock(bg))
	held, err := r.Lock(over)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(bg))
}
