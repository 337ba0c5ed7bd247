package world_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAnInnerUnlockNeedsNoMemory: it only makes a count smaller.
func TestAnInnerUnlockNeedsNoMemory(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	for name, mu := range map[string]*lock.Mutex{
		"mutex": c.Mutex("m"), "fair": c.FairMutex("f"), "read": c.RWMutex("r").Reader(), "write": c.RWMutex("w").Writer(),
	} {
		as := lock.WithOwner(ctx, name)
		outer, err := mu.Lock(as)
		require.NoError(t, err, name)
		inner, err := mu.Lock(as)
		require.NoError(t, err, name)
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
		require.NoError(t, inner.Unlock(ctx), name)
		require.True(t, outer.Valid(), name)
		require.NoError(t, outer.Unlock(ctx), name)
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	}
}

// TestReleasesAndExtensionsNeedNoMemory: permits that cannot be given back are lost for all.
func TestReleasesAndExtensionsNeedNoMemory(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	helds := map[string]*lock.Held{"writer": fixture.Hold(t, c.RWMutex("w").Writer().Lock)}
	for kind, lk := range fixture.LockKinds(t, c) {
		if kind != "write" { // "read" has the same key; "writer" has another one
			helds[kind] = fixture.Hold(t, lk.Lock)
		}
	}
	sem, latch := c.Semaphore("s"), c.CountDownLatch("l")
	_, err := sem.TrySet(ctx, 3)
	require.NoError(t, err)
	require.NoError(t, sem.Acquire(ctx, 3))
	_, err = latch.TrySet(ctx, 2)
	require.NoError(t, err)
	fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
	_, err = c.Mutex("another").TryLock(ctx)
	require.ErrorContains(t, err, "OOM")
	for kind, held := range helds {
		require.NoError(t, held.Extend(ctx, time.Minute), kind)
		require.NoError(t, held.Unlock(ctx), kind)
	}
	require.NoError(t, sem.Release(ctx, 2))
	there, err := sem.ReleaseIfExists(ctx, 1)
	require.NoError(t, err)
	require.True(t, there)
	for range 3 { // the last time it is open
		require.NoError(t, latch.CountDown(ctx))
	}
	free, err := sem.Available(ctx)
	require.NoError(t, err)
	require.Equal(t, int64(3), free)
}

func TestHeldLocksOutliveFullMemoryAndCanBeReleased(t *testing.T) {
	fixture.SkipSlow(t)
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 6 * time.Second})
	ctx := bounded.Context(t)
	locks := 100_000
	if fixture.IsBrief() {
		locks = 10_000
	}
	helds := make([]*lock.Held, locks)
	byMany(t, locks, func(i int) (err error) {
		helds[i], err = c.Mutex(fmt.Sprint("m", i)).Lock(ctx)
		return err
	})
	fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
	before := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool {
		require.Empty(t, c.Stats().Renewal.Lost)
		return c.Stats().Renewal.Renewed >= before+uint64(locks)
	}, 60*time.Second, 5*time.Millisecond)
	require.Equal(t, locks, c.Stats().Held)
	byMany(t, locks, func(i int) error { return helds[i].Unlock(ctx) })
	require.Zero(t, c.Stats().Held)
	info, err := s.Info("keyspace")
	require.NoError(t, err)
	require.Regexp(t, "^keys=1,", info["db0"], "the token counter is left")
}

// byMany calls f for 0 to n-1 from many goroutines.
func byMany(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	const goroutines = 64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	bounded.Wait(t, &wg)
	require.False(t, t.Failed())
}

func TestHeldPermitsOutliveFullMemoryAndCanBeReleased(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Second})
	sem, ctx := c.PermitSemaphore("s"), bounded.Context(t)
	require.NoError(t, sem.Set(ctx, 500))
	var helds []*lock.Held
	for range 100 {
		held, err := sem.Acquire(ctx, 3)
		require.NoError(t, err)
		reader := fixture.Hold(t, c.RWMutex("rw").Reader().Lock)
		helds = append(helds, held, reader)
	}
	fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
	before := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= before+3*200 }, time.Minute, time.Millisecond)
	for _, held := range helds {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
	require.Equal(t, []byte("500"), fixture.Do(t, s, "GET", "s"))
	require.False(t, fixture.Exists(t, s, "rw"))
}

// TestPermitsComeBackByIDOutOfFullMemory: the first write of a release frees memory.
func TestPermitsComeBackByIDOutOfFullMemory(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem, ctx := c.PermitSemaphore("s"), context.Background()
	require.NoError(t, sem.Set(ctx, 3))
	held, err := sem.AcquireFor(ctx, 3, time.Hour)
	require.NoError(t, err)
	fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
	require.NoError(t, sem.Release(ctx, held.Permits()...))
	require.Equal(t, []byte("3"), fixture.Do(t, s, "GET", "s"))
	_ = held.Unlock(ctx)
}
