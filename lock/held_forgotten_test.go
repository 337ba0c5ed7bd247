package lock_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestAForgottenHeldIsNotRenewedIfSoConfigured(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 1500 * time.Millisecond, DropForgotten: true})
	lockAndForget := func(name string, ctx context.Context) <-chan struct{} {
		held, err := c.Mutex(name).Lock(ctx)
		require.NoError(t, err)
		return held.Done()
	}
	done := lockAndForget("forgotten", ctx)
	kept, err := c.Mutex("kept").Lock(ctx)
	require.NoError(t, err)
	lockAndForget("kept", kept.Context(ctx)) // a re-entry: the other Held still wants it
	unlocked, err := c.Mutex("unlocked").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, unlocked.Unlock(ctx))
	require.Eventually(t, func() bool {
		runtime.GC()
		return fixture.IsClosed(done)
	}, time.Minute, 10*time.Millisecond)
	held, err := c.Mutex("forgotten").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.True(t, kept.Valid())
	require.Equal(t, 2, kept.Count())
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+5 }, time.Minute, time.Millisecond)
	require.True(t, kept.Valid())
	require.NoError(t, kept.Unlock(ctx))
	runtime.KeepAlive(kept)
}

func TestAForgottenHeldIsRenewedByDefault(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 1500 * time.Millisecond})
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t)) // another test has a name of its own
	require.NoError(t, err)
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool {
		require.Equal(t, 1, c.Stats().Held, "it was lost, and is not renewed any more")
		runtime.GC()
		return c.Stats().Renewal.Renewed >= renewed+4
	})
	require.Equal(t, 1, c.Stats().Held)
}

// TestAForgottenMultiHeldIsNotRenewedIfSoConfigured: of a MultiLock, and of a RedLock.
func TestAForgottenMultiHeldIsNotRenewedIfSoConfigured(t *testing.T) {
	t.Parallel()
	ctx := bounded.Context(t)
	cfg := fixture.RedConfig()
	cfg.DropForgotten = true
	fleet := fixture.NewRedFleet(t, fiveMasters(t), t.Name()+"red", cfg)
	multi, err := lock.NewMultiLock(fleet.Clients[0].Mutex(t.Name()+"a"), fleet.Clients[1].Mutex(t.Name()+"b"))
	require.NoError(t, err)
	for name, take := range map[string]func(context.Context) (*lock.MultiHeld, error){"MultiLock": multi.Lock, "RedLock": fleet.Lock.Lock} {
		lockAndForget := func() <-chan struct{} {
			held, err := take(ctx)
			require.NoError(t, err)
			return held.Done()
		}
		done := lockAndForget()
		require.Eventually(t, func() bool {
			runtime.GC()
			return fixture.IsClosed(done)
		}, time.Minute, 10*time.Millisecond, name)
		held, err := take(ctx)
		require.NoError(t, err, name)
		for range 3 { // it is used, and so not forgotten
			runtime.GC()
			require.True(t, held.Valid(), name)
		}
		require.NoError(t, held.Unlock(ctx), name)
	}
}
