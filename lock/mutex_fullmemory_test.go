package lock_test

import (
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
	for kind, lk := range fixture.Sorts(t, c) {
		if kind != "write" { // "read" has the key
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
