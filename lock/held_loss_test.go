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
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestAHolderIsToldOfItsLossWhateverTheTablesAreUsedFor: 50,000 waiters that
// leave, say. A hold may end by its time, and by what Redis says of it.
func TestAHolderIsToldOfItsLossWhateverTheTablesAreUsedFor(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	hook := make(chan lock.Event, 3)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Second, Hooks: lock.Hooks{Lost: func(e lock.Event) { hook <- e }}})
	fixed, err := c.Mutex(t.Name()+"fixed").LockFor(ctx, 300*time.Millisecond)
	require.NoError(t, err)
	renewed := fixture.Hold(t, c.Mutex(t.Name()+"renewed").Lock)
	reading, err := c.RWMutex(t.Name()+"reading").Reader().LockFor(ctx, 300*time.Millisecond)
	require.NoError(t, err)
	work := fixed.Context(ctx)
	fixture.Do(t, s, "DEL", t.Name()+"renewed")
	free := lock.Table(c).Freeze()
	freed := sync.OnceFunc(free)
	defer freed()
	for what, done := range map[string]<-chan struct{}{
		"its time": fixed.Done(), "what Redis says": renewed.Done(), "a reader's time": reading.Done(), "the context": work.Done(),
	} {
		select {
		case <-done:
		case <-time.After(time.Minute):
			require.Fail(t, "not told: "+what)
		}
	}
	require.ErrorIs(t, context.Cause(work), lock.ErrLost)
	require.ErrorIs(t, renewed.Err(), lock.ErrLost)
	require.Empty(t, hook, "it is told when the tables are right")
	freed()
	for range cap(hook) {
		require.ErrorIs(t, bounded.Receive(t, hook).Err, lock.ErrLost)
	}
	require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, time.Millisecond)
}

// TestALostHoldIsNoHoldThoughTheTablesStillHaveIt: its owner takes the lock anew.
func TestALostHoldIsNoHoldThoughTheTablesStillHaveIt(t *testing.T) {
	s := onRedis(t)
	for _, tc := range []struct {
		name string
		take locking
		try  func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error)
	}{
		{"Mutex", lockMutex, func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).TryLockFor(ctx, 200*time.Millisecond)
		}},
		{"FairMutex", lockFair, func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.FairMutex(name).TryLockFor(ctx, 200*time.Millisecond)
		}},
		{"writer", lockWriting, func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.RWMutex(name).Writer().TryLockFor(ctx, 200*time.Millisecond)
		}},
		{"writer after reader", lockWriting, func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.RWMutex(name).Reader().TryLockFor(ctx, 200*time.Millisecond)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, name := lock.WithOwner(bounded.Context(t), "the same"), t.Name()
			c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 20 * time.Millisecond})
			lost, err := tc.try(ctx, c, name)
			require.NoError(t, err)
			resume := lock.Holds(c).FreezeLosses()
			bounded.Receive(t, lost.Done())
			require.ErrorIs(t, lost.Err(), lock.ErrLost)
			require.False(t, c.Mutex(name).HeldBy(ctx))
			again, err := tc.take(ctx, c, name)
			require.NoError(t, err)
			require.Equal(t, 1, again.Count(), "no re-entry of what was lost")
			inner, err := tc.take(ctx, c, name)
			require.NoError(t, err)
			require.Equal(t, 2, inner.Count())
			resume()
			w := inLine(t, c, func() (*lock.Held, error) { return tc.take(bounded.Context(t), c, name) })
			require.NoError(t, inner.Unlock(ctx))
			require.NoError(t, again.Unlock(ctx))
			other := soon(t, w, "another's turn")
			require.NoError(t, other.Unlock(ctx))
			require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, time.Millisecond)
		})
	}
}

// BenchmarkWaitersLeave is how long it takes n waiters of one lock to leave when
// their common context ends, and how late another holder of the client then hears
// that its lease is over.
func BenchmarkWaitersLeave(b *testing.B) {
	for _, n := range []int{1000, 20_000, 50_000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
			held, err := c.Mutex("held").Lock(ctx)
			require.NoError(b, err)
			var late, leaving time.Duration
			for b.Loop() {
				b.StopTimer()
				waiting, cancel := context.WithCancel(ctx)
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { _, _ = c.Mutex("held").Lock(waiting) })
				}
				for c.Stats().Waiting < n {
					time.Sleep(time.Millisecond)
				}
				other, err := c.Mutex("other").LockFor(ctx, 200*time.Millisecond)
				require.NoError(b, err)
				told := make(chan time.Duration, 1)
				go func() {
					<-other.Done()
					told <- time.Since(other.Deadline())
				}()
				time.Sleep(time.Until(other.Deadline()) - 20*time.Millisecond)
				b.StartTimer()
				began := time.Now()
				cancel()
				wg.Wait()
				leaving += time.Since(began)
				late = max(late, <-told)
				_ = other.Unlock(ctx)
			}
			b.ReportMetric(float64(late.Microseconds())/1000, "late-max-ms")
			b.ReportMetric(float64(leaving.Nanoseconds())/float64(b.N*n), "ns/waiter")
			require.NoError(b, held.Unlock(ctx))
		})
	}
}

// TestALockThatWasToldToBeLostIsNotCounted: the tables may have it for a moment yet.
func TestALockThatWasToldToBeLostIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		for i := range 100 {
			held, err := c.Mutex(fmt.Sprint("m", i)).LockFor(t.Context(), time.Second)
			require.NoError(t, err)
			<-held.Done()
			require.Zero(t, c.Stats().Held)
		}
	})
}
