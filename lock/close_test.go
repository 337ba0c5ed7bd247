package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestCloseTellsHoldersAndWaitsForTheirUnlocks(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 500 * time.Millisecond, MaxPoll: 5 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	work := held.Context(ctx)
	waiter := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(ctx)
		waiter <- err
	}()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(ctx) }()

	bounded.Receive(t, work.Done())
	require.ErrorIs(t, context.Cause(work), lock.ErrClosed)
	require.ErrorIs(t, context.Cause(work), lock.ErrLost)
	bounded.Receive(t, held.Done())
	require.ErrorIs(t, held.Err(), lock.ErrClosed)
	require.ErrorIs(t, bounded.Receive(t, waiter), lock.ErrClosed)
	_, err := c.Mutex("another").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool {
		require.True(t, held.Valid(), "it is renewed while Close waits")
		return c.Stats().Renewal.Renewed >= renewed+3
	})
	select {
	case err := <-closed:
		t.Fatal("Close did not wait:", err)
	default:
	}
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, closed))
	require.False(t, fixture.Exists(t, s, t.Name()))
	require.NoError(t, c.Close(ctx), "twice")
}

func TestCloseLeavesHeldLocksToTheirTTL(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	cancel()
	err = c.Close(ctx)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorContains(t, err, "1 locks held")
	require.True(t, fixture.Exists(t, s, t.Name()))
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrClosed)
}

func TestReleaseOnCloseDeletesWhatIsHeld(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{ReleaseOnClose: true})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	for _, name := range []string{"a", "b", "c"} {
		_, err := c.Mutex(t.Name() + name).Lock(ctx)
		require.NoError(t, err)
	}
	cancel()
	require.ErrorIs(t, c.Close(ctx), context.Canceled)
	for _, name := range []string{"a", "b", "c"} {
		require.False(t, fixture.Exists(t, s, t.Name()+name))
	}
}

func TestCloseAtOnceFromManyGoroutines(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				held, err := c.Mutex(t.Name()).Lock(ctx)
				if err != nil {
					require.ErrorIs(t, err, lock.ErrClosed)
					return
				}
				if err := held.Unlock(ctx); err != nil {
					require.ErrorIs(t, err, lock.ErrClosed)
					return
				}
			}
		})
	}
	for range 4 {
		wg.Go(func() { require.NoError(t, c.Close(ctx)) })
	}
	bounded.Wait(t, &wg)
}

func TestMutualExclusionUnderContention(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	counter, turns := 0, 0 // guarded by the lock alone; the race detector watches
	var wg sync.WaitGroup
	for range 4 {
		c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Millisecond})
		for range 4 {
			wg.Go(func() {
				for range 10 {
					held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
					counter++
					require.Equal(t, 1, counter)
					turns++
					counter--
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	require.Equal(t, 160, turns)
}

// TestAWaiterThatIsHandedTheLockWhileCloseBeginsDoesNotTakeItUntold: it had
// looked whether the client closes just before.
func TestAWaiterThatIsHandedTheLockWhileCloseBeginsDoesNotTakeItUntold(t *testing.T) {
	s := onRedis(t)
	for _, tc := range []struct {
		name  string
		close func(*lock.Client)
		taken bool
	}{
		{"Close begins before the hand-over is through", closeBegun, false},
		{"Close does not begin", func(*lock.Client) {}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := fixture.ClientOf(t, s, lock.Config{Lease: time.Second})
			held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
			taken, told := lock.GrantWhileClosing(held, func() { tc.close(c) })
			require.Equal(t, tc.taken, taken)
			require.Equal(t, !tc.taken, told, "another call of the owner may have re-entered it")
		})
	}
}

// closeBegun makes c close, and returns when that has begun.
func closeBegun(c *lock.Client) { fixture.CloseNow(c) }
