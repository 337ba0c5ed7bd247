package lock_test

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestACallWhoseContextHasEndedChangesNothing, and says so. If its request were sent, the caller would
// leave before or after the answer, by chance. So each call is made many times. Unlock, Release and
// CountDown are no such calls, because their contexts only carry values.
func TestACallWhoseContextHasEndedChangesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{Lease: time.Hour})
		// Takes of the same names would be refused without a request, so what takes and what changes have their own.
		held, err := c.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		other, err := srv.Client(lock.Config{Lease: time.Hour}).Mutex("another's").Lock(t.Context())
		require.NoError(t, err)
		sem, full, permits := c.Semaphore("semaphore"), c.Semaphore("full"), c.PermitSemaphore("permits")
		latch, shut := c.CountDownLatch("latch"), c.CountDownLatch("shut")
		for _, set := range []func(context.Context, int64) (bool, error){full.TrySet, permits.TrySet, shut.TrySet} {
			done, err := set(t.Context(), 5)
			require.NoError(t, err)
			require.True(t, done)
		}
		taken, err := permits.Acquire(t.Context(), 1)
		require.NoError(t, err)
		id := taken.Permits()[0]
		again := held.Context(context.Background())
		multi, err := lock.NewMultiLock(c.Mutex("m1"), c.Mutex("m2"))
		require.NoError(t, err)
		red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex("r"),
			locktest.NewServer(t).Client(lock.Config{Lease: time.Hour}).Mutex("r"), locktest.NewServer(t).Client(lock.Config{Lease: time.Hour}).Mutex("r"))
		require.NoError(t, err)

		calls := map[string]func(ctx context.Context) error{
			"Lock":        func(ctx context.Context) error { _, err := c.Mutex("free").Lock(ctx); return err },
			"LockFor":     func(ctx context.Context) error { _, err := c.Mutex("free").LockFor(ctx, time.Hour); return err },
			"TryLock":     func(ctx context.Context) error { _, err := c.Mutex("free").TryLock(ctx); return err },
			"TryLockFor":  func(ctx context.Context) error { _, err := c.Mutex("free").TryLockFor(ctx, time.Hour); return err },
			"within":      func(ctx context.Context) error { _, err := c.Mutex("free").TryLockWithin(ctx, time.Hour); return err },
			"within 0":    func(ctx context.Context) error { _, err := c.Mutex("free").TryLockWithin(ctx, 0); return err },
			"fair":        func(ctx context.Context) error { _, err := c.FairMutex("fair").Lock(ctx); return err },
			"fenced":      func(ctx context.Context) error { _, err := c.FencedMutex("fenced").Lock(ctx); return err },
			"read":        func(ctx context.Context) error { _, err := c.RWMutex("rw").Reader().Lock(ctx); return err },
			"write":       func(ctx context.Context) error { _, err := c.RWMutex("rw").Writer().Lock(ctx); return err },
			"many":        func(ctx context.Context) error { return c.TryLockMany(ctx, []string{"free"})[0].Err },
			"multi":       func(ctx context.Context) error { _, err := multi.Lock(ctx); return err },
			"multi try":   func(ctx context.Context) error { _, err := multi.TryLock(ctx); return err },
			"red":         func(ctx context.Context) error { _, err := red.Lock(ctx); return err },
			"red try":     func(ctx context.Context) error { _, err := red.TryLock(ctx); return err },
			"ForceUnlock": func(ctx context.Context) error { _, err := c.Mutex(other.Name()).ForceUnlock(ctx); return err },
			"Extend":      func(ctx context.Context) error { return held.Extend(ctx, 2*time.Hour) },
			"Guard":       func(ctx context.Context) error { _, err := held.Guard(ctx, "INCR", []string{"guarded"}); return err },
			"re-entry": func(context.Context) error {
				ctx, cancel := context.WithCancel(again)
				cancel()
				_, err := c.Mutex("held").Lock(ctx)
				return err
			},

			"Semaphore.TrySet":     func(ctx context.Context) error { _, err := sem.TrySet(ctx, 5); return err },
			"Semaphore.Add":        func(ctx context.Context) error { return full.Add(ctx, 1) },
			"Semaphore.Acquire":    func(ctx context.Context) error { return full.Acquire(ctx, 1) },
			"Semaphore.TryAcquire": func(ctx context.Context) error { return full.TryAcquire(ctx, 1) },
			"Semaphore.Drain":      func(ctx context.Context) error { _, err := full.Drain(ctx); return err },
			"Semaphore.Expire":     func(ctx context.Context) error { _, err := full.Expire(ctx, time.Hour); return err },
			"Semaphore.Delete":     func(ctx context.Context) error { _, err := full.Delete(ctx); return err },

			"PermitSemaphore.TrySet":     func(ctx context.Context) error { _, err := c.PermitSemaphore("none").TrySet(ctx, 5); return err },
			"PermitSemaphore.Set":        func(ctx context.Context) error { return permits.Set(ctx, 6) },
			"PermitSemaphore.Add":        func(ctx context.Context) error { return permits.Add(ctx, 1) },
			"PermitSemaphore.Acquire":    func(ctx context.Context) error { _, err := permits.Acquire(ctx, 1); return err },
			"PermitSemaphore.TryAcquire": func(ctx context.Context) error { _, err := permits.TryAcquire(ctx, 1); return err },
			"PermitSemaphore.Drain":      func(ctx context.Context) error { _, _, err := permits.Drain(ctx); return err },
			"PermitSemaphore.SetLease":   func(ctx context.Context) error { return permits.SetLease(ctx, id, time.Minute) },
			"PermitSemaphore.Expire":     func(ctx context.Context) error { _, err := permits.Expire(ctx, time.Hour); return err },
			"PermitSemaphore.Delete":     func(ctx context.Context) error { _, err := permits.Delete(ctx); return err },

			"CountDownLatch.TrySet": func(ctx context.Context) error { _, err := latch.TrySet(ctx, 1); return err },
			"CountDownLatch.Reset":  func(ctx context.Context) error { _, err := shut.Reset(ctx); return err },
			"Check":                 c.Check,
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		synctest.Wait()
		for _, name := range slices.Sorted(maps.Keys(calls)) {
			before := srv.Calls()
			for range 100 {
				err := calls[name](ended)
				require.ErrorIs(t, err, context.Canceled, name)
				require.NotErrorIs(t, err, lock.ErrUnknown, name)
			}
			synctest.Wait()
			require.Equal(t, before, srv.Calls(), name)
		}
		require.NoError(t, held.Extend(t.Context(), 2*time.Hour), "the hold is as before")
	})
}

// endedBy is a context that has ended when has returns true. It has no Done.
type endedBy struct {
	context.Context
	has func() bool
}

func (c endedBy) Err() error {
	if c.has() {
		return context.Canceled
	}
	return nil
}

// TestAForceUnlockWhoseContextEndsAfterItHasReadDeletesNothing: it has seen the holder, and leaves it.
func TestAForceUnlockWhoseContextEndsAfterItHasReadDeletesNothing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		held, err := srv.Client(lock.Config{}).Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		ctx := endedBy{context.Background(), func() bool { return srv.Calls()["inspect"] > 0 }}
		deleted, err := srv.Client(lock.Config{}).Mutex("m").ForceUnlock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		require.False(t, deleted)
		require.Zero(t, srv.Calls()["force"])
		require.NoError(t, held.Unlock(t.Context()))
	})
}
