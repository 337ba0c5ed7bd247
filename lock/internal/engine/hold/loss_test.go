package hold_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// TestErrAndDoneAgreeWhileAnotherFindsTheLoss: the goroutine that found the loss is stopped half-way.
func TestErrAndDoneAgreeWhileAnotherFindsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		held, err := c.Mutex("m").LockFor(t.Context(), time.Minute)
		require.NoError(t, err)
		done, ctx := held.Done(), held.Context(t.Context())
		hold.BeginLoss(in(held))
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		select {
		case <-done:
		default:
			require.Fail(t, "Err says that it is lost, and Done does not")
		}
		require.Error(t, ctx.Err())
		held, err = c.Mutex("other").LockFor(t.Context(), time.Minute)
		require.NoError(t, err)
		ctx = held.Context(t.Context())
		hold.BeginLoss(in(held))
		require.Error(t, ctx.Err())
	})
}

// TestALossEndsWhatAllHeldsGaveOut: the channels and contexts of all Helds end with one error, except the
// contexts that an earlier Unlock has ended.
func TestALossEndsWhatAllHeldsGaveOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		first, err := c.Mutex("m").LockFor(t.Context(), time.Minute)
		require.NoError(t, err)
		ctx := first.Context(t.Context())
		helds, ends, dones := []*lock.Held{}, []context.Context{}, []<-chan struct{}{}
		for range 3 {
			again, err := c.Mutex("m").LockFor(ctx, time.Minute)
			require.NoError(t, err)
			helds, ends, dones = append(helds, again), append(ends, again.Context(context.Background())), append(dones, again.Done())
		}
		require.NoError(t, first.Unlock(t.Context()))
		require.NoError(t, helds[1].Unlock(t.Context()))
		time.Sleep(2 * time.Minute)
		for _, done := range dones { // before a call of Err, which would end the contexts by itself
			require.True(t, fixture.IsClosed(done))
		}
		require.ErrorIs(t, context.Cause(ctx), lock.ErrNotHeld)
		require.ErrorIs(t, context.Cause(ends[1]), lock.ErrNotHeld)
		lost := helds[0].Err()
		require.ErrorIs(t, lost, lock.ErrLost)
		for _, i := range []int{0, 2} {
			require.Same(t, lost, context.Cause(ends[i]))
			require.Same(t, lost, helds[i].Err())
		}
	})
}

// TestALossDoesNotEndWhatAnUnlockIsAboutToEnd: the goroutine of the Unlock is stopped half-way. The
// contexts of its Held still end as unlocked.
func TestALossDoesNotEndWhatAnUnlockIsAboutToEnd(t *testing.T) {
	for _, i := range []int{0, 1, 2} {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			c, err := lock.New(s.Pool(0), lock.Config{})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			held, err := c.Mutex("m").LockFor(t.Context(), time.Minute)
			require.NoError(t, err)
			owner := held.Context(t.Context())
			var helds []*lock.Held
			var ends []context.Context
			for range 3 {
				helds, ends = append(helds, held), append(ends, held.Context(context.Background()))
				held, err = c.Mutex("m").LockFor(owner, time.Minute)
				require.NoError(t, err)
			}
			unlisted := hold.BeginUnlock(in(helds[i]))
			time.Sleep(2 * time.Minute)
			unlisted()
			for j, ctx := range ends {
				want := lock.ErrLost
				if j == i {
					want = lock.ErrNotHeld
				}
				require.ErrorIs(t, context.Cause(ctx), want)
			}
		})
	}
}

// TestALossThatAnAnswerFindsFirstHasItsReason: the answer to an Extend comes when the lease has just ended,
// and the watchdog has not looked yet.
func TestALossThatAnAnswerFindsFirstHasItsReason(t *testing.T) {
	withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
		ctx := context.Background()
		fixture.Do(b, b.s, "SCRIPT", "LOAD", script.Reenter.Text()) // otherwise the request is sent twice
		held, err := b.m.LockFor(ctx, time.Second)
		require.NoError(b, err)
		b.wire.Delay(time.Until(held.Deadline()))
		require.ErrorIs(b, held.Extend(ctx, time.Hour), lock.ErrLost)
		b.wire.Delay(0)
		fixture.RequireLost(b, held, lock.Expired)
	})
}

// TestCloseWaitsForWorkInTheBackground. A MultiHeld unlocks its members in the background.
func TestCloseWaitsForWorkInTheBackground(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		held, err := b.m.Lock(ctx)
		require.NoError(b, err)
		end, closed := make(chan struct{}), make(chan error, 1)
		in(held).InBackground(func() { <-end })
		require.NoError(b, held.Unlock(ctx))
		go func() { closed <- b.c.Close(ctx) }()
		synctest.Wait()
		require.Empty(b, closed)
		close(end)
		require.NoError(b, <-closed)
	})
}

// TestALockThatCloseLeavesIsNotReleased, although a request of its hold went unanswered once. The holder
// may still work.
func TestALockThatCloseLeavesIsNotReleased(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		hold.AnsweredLate(in(held))
		cancel()
		require.ErrorContains(t, c.Close(ctx), "left to their TTL")
		require.True(t, fixture.Exists(t, s, "m"))
	})
}

// TestCloseSendsTheReleaseThatALossOwes, though the loss is looked after only when Close has begun.
func TestCloseSendsTheReleaseThatALossOwes(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := context.Background()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		hold.AnsweredLate(in(held))
		free := hold.FreezeLosses(in(held))
		hold.Lose(in(held), renewal.TrustEnded)
		unanswered := make(chan int, 1)
		go func() { unanswered <- hold.CloseEngine(ctx, in(held)) }()
		synctest.Wait()
		free()
		require.Zero(t, <-unanswered)
		require.False(t, fixture.Exists(t, s, "m"))
	})
}

// TestAWriterThatReadForLongerIsGivenBackAfterASuspension: the key keeps the lease of a read hold that the
// writer has given back.
func TestAWriterThatReadForLongerIsGivenBackAfterASuspension(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		rw := b.c.RWMutex("rw")
		writing, err := rw.Writer().Lock(ctx)
		require.NoError(b, err)
		reading, err := rw.Reader().LockFor(writing.Context(ctx), time.Hour)
		require.NoError(b, err)
		require.NoError(b, reading.Unlock(ctx))
		require.Greater(b, fixture.PTTL(b, b.s, "rw"), int64(1_000_000))
		hold.EndLease(in(writing))
		hold.Lose(in(writing), renewal.Suspended)
		time.Sleep(time.Minute)
		require.False(b, fixture.Exists(b, b.s, "rw"))
	})
}
