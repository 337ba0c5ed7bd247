package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// deadReaders puts fields there that a killed process has left, and no timeouts.
func deadReaders(t *testing.T, s *redistest.Server, key string, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		args := []any{key, "mode", "read"}
		for i := from; i < min(from+1000, n); i++ {
			args = append(args, fmt.Sprintf("11111111-2222-4333-8444-555555555555:%d:%d", i, i), 1)
		}
		fixture.Do(t, s, "HSET", args...)
	}
}

// TestAWriterGetsTheLockOfADeadCrowd: though the last reader that lived had the lock for an
// hour, and its Unlock looked at a thousand of the others at most.
func TestAWriterGetsTheLockOfADeadCrowd(t *testing.T) {
	for _, n := range []int{40, 1000, 3000} {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			c := fixture.ClientOf(t, s, lock.Config{})
			other := fixture.ClientOf(t, s, lock.Config{})
			ctx := context.Background()
			deadReaders(t, s, "m", n)
			r, err := c.RWMutex("m").Reader().LockFor(ctx, time.Hour)
			require.NoError(t, err)
			begun := time.Now()
			got := make(chan *lock.Held, 1)
			go func() {
				held, err := other.RWMutex("m").Writer().Lock(ctx)
				require.NoError(t, err)
				got <- held
			}()
			synctest.Wait() // it has tried once
			require.NoError(t, r.Unlock(ctx))
			held := <-got
			require.LessOrEqual(t, time.Since(begun), time.Duration(1+n/1000)*lock.DefaultMaxPoll, "%d dead", n)
			require.NoError(t, held.Unlock(ctx))
			require.False(t, fixture.Exists(t, s, "m"))
		})
	}
}

// TestManyReadersThatLeaveAtOnceHarmNoOtherLock: what one of them costs does not grow with
// their number, so the locks of others are renewed meanwhile.
func TestManyReadersThatLeaveAtOnceHarmNoOtherLock(t *testing.T) {
	n := 10_000
	if fixture.Briefly() {
		n = 2_000
	}
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	other := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	ctx := bounded.Context(t)
	mu := c.RWMutex(t.Name())
	helds := make([]*lock.Held, n)
	each := func(do func(i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make(chan error, n)
		for i := range n {
			wg.Go(func() { errs <- do(i) })
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
	}
	each(func(i int) (err error) {
		helds[i], err = mu.Reader().Lock(lock.WithOwner(ctx, fmt.Sprint("reader", i)))
		return err
	})
	locks := fixture.LockAll(t, other, fixture.Names("other", 200))
	fixture.AwaitRenewed(t, other, 200)
	begun := time.Now()
	each(func(i int) error { // a busy machine may not answer the last ones in time
		return fixture.Known(func() error { return helds[i].Unlock(ctx) })
	})
	t.Logf("%d readers left in %v", n, time.Since(begun))
	fixture.AwaitRenewed(t, other, 200)
	require.Empty(t, other.Stats().Renewal.Lost)
	for name, held := range locks {
		require.True(t, held.Valid(), name)
	}
	require.False(t, fixture.Exists(t, s, mu.Name()))
}

// TestACrowdIsInspectedInPartAndForcedWhole: no call looks at more than a thousand.
func TestACrowdIsInspectedInPartAndForcedWhole(t *testing.T) {
	for name, s := range miniAndRedis(t) {
		t.Run(name, func(t *testing.T) {
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			for _, n := range []int{1023, 1024, 3000} {
				mu := c.RWMutex(fixture.KeyOf(t))
				held, err := mu.Reader().LockFor(ctx, time.Hour)
				require.NoError(t, err)
				deadReaders(t, s, mu.Name(), n-1)
				info, err := mu.Reader().Inspect(ctx)
				require.NoError(t, err)
				require.True(t, info.Locked)
				require.False(t, info.Writing)
				require.InDelta(t, min(n, 1024), len(info.Holders), 1)
				require.Greater(t, info.TTL, 50*time.Minute)
				locked, err := mu.Reader().IsLocked(ctx)
				require.NoError(t, err)
				require.True(t, locked)
				require.NoError(t, fixture.Known(func() error {
					_, err := mu.Writer().ForceUnlock(ctx)
					return err
				}))
				require.False(t, fixture.Exists(t, s, mu.Name()))
				require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			}
		})
	}
}
