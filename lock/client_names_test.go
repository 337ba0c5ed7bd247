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

// TestANameThatIsAKeyOfAnotherLockIsRefused: it used to take a lock away, or to be taken
// away, without anybody being told.
func TestANameThatIsAKeyOfAnotherLockIsRefused(t *testing.T) {
	s, ctx := fixture.Server(t), bounded.Context(t)
	cfg := lock.Config{KeyPrefix: "{t}:"}
	a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	permits := b.PermitSemaphore("p")
	for name, use := range map[string]func() error{
		"a:wheellock_writers": func() error { // one who waits to write is a field of a hash
			reader := fixture.Hold(t, b.RWMutex("a").Reader().Lock)
			wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err := b.RWMutex("a").Writer().Lock(wait)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return reader.Unlock(ctx)
		},
		"f:wheellock_waiters": func() error {
			return b.FairMutex("f").Do(ctx, func(context.Context, *lock.Held) error { return nil })
		},
		"p:timeout": func() error {
			if err := permits.Set(ctx, 1); err != nil {
				return err
			}
			_, err := permits.Delete(ctx)
			return err
		},
	} {
		held, err := a.Mutex(name).TryLock(ctx)
		if err == nil { // two would have it in the end
			require.NoError(t, use(), name)
			other, err := b.Mutex(name).TryLock(ctx)
			require.Error(t, err, name)
			require.False(t, held.Valid() && other.Valid(), "two holders of %s", name)
		}
		require.ErrorContains(t, err, "is that of a key of another lock: use one that does not end in", name)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		require.NoError(t, use(), name)
	}
	for what, err := range map[string]error{
		"mutex":     second(a.Mutex("x:timeout").Lock(ctx)),
		"fair":      second(a.FairMutex("x:timeout").Lock(ctx)),
		"fenced":    second(a.FencedMutex("x:timeout").Lock(ctx)),
		"reader":    second(a.RWMutex("x:timeout").Reader().Lock(ctx)),
		"writer":    second(a.RWMutex("x:timeout").Writer().TryLock(ctx)),
		"permits":   second(a.PermitSemaphore("x:timeout").Acquire(ctx, 1)),
		"semaphore": a.Semaphore("x:timeout").Acquire(ctx, 1),
		"latch":     a.CountDownLatch("x:timeout").Wait(ctx),
		"inspect":   second(a.Mutex("x:timeout").Inspect(ctx)),
		"force":     second(a.Mutex("x:timeout").ForceUnlock(ctx)),
	} {
		require.ErrorContains(t, err, "is that of a key of another lock", what)
	}
	require.Empty(t, fixture.Keys(t, s, "*x:timeout*"))
}

func second[T any](_ T, err error) error { return err }
