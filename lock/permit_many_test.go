package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestHoldsOfManyPermitsHarmNoOtherLock: a hold of a thousand permits is a thousand members
// of a sorted set, and all of them are renewed.
func TestHoldsOfManyPermitsHarmNoOtherLock(t *testing.T) {
	fixture.Slow(t)
	n := 200
	if fixture.Briefly() {
		n = 50
	}
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	other := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	locks := fixture.LockAll(t, other, fixture.Names("other", 200))
	c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second})
	sem := c.PermitSemaphore(t.Name())
	require.NoError(t, sem.Set(ctx, int64(n)*1000))
	helds := make([]*lock.Held, n)
	for i := range helds {
		held, err := sem.Acquire(ctx, 1000)
		require.NoError(t, err, i)
		helds[i] = held
	}
	fixture.AwaitRenewed(t, c, 2*n)
	require.Empty(t, other.Stats().Renewal.Lost)
	require.Empty(t, c.Stats().Renewal.Lost)
	for name, held := range locks {
		require.True(t, held.Valid(), name)
	}
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Taken: int64(n) * 1000}, info)
	for _, held := range helds {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
}
