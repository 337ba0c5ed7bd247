package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAnAcquireThatRedisMayHaveForgottenEndsUnknown: a result is remembered for
// 30 s, so a request is not sent again for longer than that.
func TestAnAcquireThatRedisMayHaveForgottenEndsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		sem := c.Semaphore("s")
		_, err = sem.TrySet(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, s.Pause())
		began := time.Now()
		err = sem.Acquire(ctx, 1)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
		require.Less(t, time.Since(began), 25*time.Second)
		require.NoError(t, s.Resume())
		require.NoError(t, c.Close(ctx))
	})
}

// TestALongOutageAndASemaphoreReleasedInIt: the release's error is unknown, and
// it takes place when Redis is back.
func TestALongOutageAndASemaphoreReleasedInIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		sem := c.Semaphore("s")
		_, err = sem.TrySet(ctx, 5)
		require.NoError(t, err)
		require.NoError(t, s.Pause())
		require.ErrorIs(t, sem.Release(ctx, 2), lock.ErrUnknown)
		time.Sleep(10 * time.Second)
		require.NoError(t, s.Resume())
		time.Sleep(5 * time.Second)
		n, err := sem.Available(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		time.Sleep(time.Minute)
		n, err = sem.Available(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		require.NoError(t, c.Close(ctx))
	})
}
