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

// TestAnErrorNamesItsLock and its package, each once, and is its sentinel.
func TestAnErrorNamesItsLock(t *testing.T) {
	s := onRedis(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	name := t.Name()
	says := func(err error, target error) {
		t.Helper()
		if target != nil {
			require.ErrorIs(t, err, target)
		}
		require.Regexp(t, `^lock: .*"`+name, err.Error())
		require.NotContains(t, err.Error(), ": lock: ")
	}
	held := fixture.Hold(t, c.Mutex(name).Lock)
	_, err := other.Mutex(name).TryLock(ctx)
	says(err, lock.ErrNotAcquired)
	_, err = c.FairMutex(name).Lock(held.Context(ctx))
	says(err, nil)
	_, err = c.Mutex(name).Token(ctx)
	says(err, nil)
	_, err = c.Mutex(name).TryLockFor(ctx, time.Microsecond)
	says(err, nil)
	says(c.Semaphore(name).Release(ctx, -1), nil)
	brief, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err = other.Mutex(name).Lock(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, held.Unlock(ctx))
	says(held.Unlock(ctx), lock.ErrNotHeld)

	reading := fixture.Hold(t, c.RWMutex(name).Reader().Lock)
	_, err = c.RWMutex(name).Writer().Lock(reading.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.ErrorContains(t, err, name)
	_, err = c.Mutex(name).Inspect(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
	require.ErrorContains(t, err, name)
	fixture.Do(t, s, "DEL", name)
	says(reading.Unlock(ctx), lock.ErrLost)
	fixture.Do(t, s, "SET", name, "many")
	_, err = c.Semaphore(name).Available(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)

	require.NoError(t, c.Close(ctx))
	for _, call := range []func() error{
		func() error { _, err := c.Mutex(name).Lock(ctx); return err },
		func() error { _, err := c.FairMutex(name).TryLock(ctx); return err },
		func() error { _, err := c.RWMutex(name).Reader().Lock(ctx); return err },
		func() error { _, err := c.Mutex(name).Inspect(ctx); return err },
		func() error { return c.Semaphore(name).Acquire(ctx, 1) },
		func() error { return c.Semaphore(name).Release(ctx, 1) },
		func() error { _, err := c.PermitSemaphore(name).Acquire(ctx, 1); return err },
		func() error { return c.CountDownLatch(name).Wait(ctx) },
		func() error { _, err := c.CountDownLatch(name).Count(ctx); return err },
	} {
		says(call(), lock.ErrClosed)
	}
}
