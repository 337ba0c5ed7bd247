package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// unlockLimit is Config.UnlockTimeout where a request of the hold takes longer.
const unlockLimit = time.Second

var shortUnlock = lock.Config{IOTimeout: unlockLimit, UnlockTimeout: unlockLimit, Connections: 1, Logger: slog.New(slog.DiscardHandler)}

// untilMet calls f until the machine was fast enough to meet the moment.
func untilMet(t *testing.T, f func() bool) {
	t.Helper()
	for range 300 {
		if f() {
			return
		}
	}
	t.Fatal("no Unlock ended while another request of its hold was on its way")
}

// TestAnUnlockThatCannotGetTheHoldsTurnReleasesTheLock: an Extend of the same
// hold is not answered for as long as Unlock waits, and longer.
func TestAnUnlockThatCannotGetTheHoldsTurnReleasesTheLock(t *testing.T) {
	s := onRedis(t)
	for _, sort := range []string{"mutex", "fenced", "fair", "write", "read", "permits"} {
		t.Run(sort, func(t *testing.T) {
			t.Parallel()
			st := fixture.Stall(t, s)
			c := fixture.ClientOver(t, st, shortUnlock)
			ctx, lk := bounded.Context(t), fixture.LockKinds(t, c)[sort]
			untilMet(t, func() bool {
				held, err := lk.Lock(ctx)
				require.NoError(t, err)
				require.True(t, fixture.Exists(t, s, lk.Key))
				st.HoldBack(lk.Extends)
				st.HangUp(unlockLimit / 2)
				extended, begun := make(chan error, 1), make(chan struct{})
				go func() {
					close(begun)
					extended <- held.Extend(ctx, time.Minute)
				}()
				bounded.Receive(t, begun)
				for range 20 { // on a busy machine Unlock would nearly always come first
					if st.Arrived(lk.Extends) > 0 {
						break
					}
					time.Sleep(100 * time.Microsecond)
				}
				err = held.Unlock(ctx)
				met := errors.Is(err, lock.ErrUnknown) && st.Arrived(lk.Extends) > 0
				if met {
					require.ErrorIs(t, err, context.DeadlineExceeded)
					require.False(t, held.Valid())
					require.ErrorIs(t, held.Err(), lock.ErrNotHeld)
					bounded.Receive(t, held.Done())
					require.Zero(t, c.Stats().Held, "Close does not wait for it")
					fixture.AwaitGone(t, s, lk.Key)
					require.ErrorIs(t, bounded.Receive(t, extended), lock.ErrNotHeld)
					// A request that arrives after the release does no harm:
					// the next holder has the lock alone.
					next, err := lk.Lock(ctx)
					require.NoError(t, err)
					st.LetThrough()
					require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }))
					require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
					require.True(t, next.Valid())
					held = next
				}
				st.LetThrough()
				if err := fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }); !errors.Is(err, lock.ErrNotHeld) {
					require.NoError(t, err)
				}
				fixture.AwaitGone(t, s, lk.Key)
				return met
			})
		})
	}
}

func TestAnInnerUnlockThatCannotGetTheHoldsTurnIsOffTheCount(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, lock.Config{IOTimeout: 300 * time.Millisecond, UnlockTimeout: 300 * time.Millisecond})
	ctx := bounded.Context(t)
	outer := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	inner, err := c.Mutex(t.Name()).Lock(outer.Context(ctx))
	require.NoError(t, err)

	st.HoldBack("reenter")
	extended := make(chan error, 1)
	go func() { extended <- outer.Extend(ctx, time.Minute) }()
	fixture.AwaitArrived(t, st, "reenter", 1)
	require.ErrorIs(t, inner.Unlock(ctx), lock.ErrUnknown)
	require.ErrorIs(t, inner.Err(), lock.ErrNotHeld)
	bounded.Receive(t, inner.Done())
	require.Equal(t, 1, outer.Count())
	require.True(t, outer.Valid())
	st.LetThrough()
	require.NoError(t, bounded.Receive(t, extended))
	require.True(t, outer.Valid())
	require.NoError(t, outer.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()))
	require.NoError(t, inner.Unlock(ctx))
	require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
	require.Zero(t, c.Stats().Held)
}

// TestManyUnlocksThatCannotGetTheHoldsTurnReleaseTheLock: the last of them does.
func TestManyUnlocksThatCannotGetTheHoldsTurnReleaseTheLock(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, shortUnlock)
	ctx := lock.WithOwner(bounded.Context(t), "o")
	untilMet(t, func() bool {
		var helds []*lock.Held
		for range 8 {
			held, err := c.Mutex(t.Name()).Lock(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		st.HoldBack("reenter", "release")
		st.HangUp(unlockLimit / 2)
		extended, begun := make(chan error, 1), make(chan struct{})
		go func() {
			close(begun)
			extended <- helds[0].Extend(ctx, time.Minute)
		}()
		bounded.Receive(t, begun)
		var wg sync.WaitGroup
		for _, held := range helds {
			wg.Go(func() {
				if err := held.Unlock(ctx); !errors.Is(err, lock.ErrUnknown) {
					t.Errorf("unlock: %v", err)
				}
			})
		}
		bounded.Wait(t, &wg)
		met := st.Arrived("reenter") > 0 && st.Arrived("release") == 0
		require.Zero(t, c.Stats().Held)
		st.LetThrough()
		require.ErrorIs(t, bounded.Receive(t, extended), lock.ErrNotHeld)
		fixture.AwaitGone(t, s, t.Name())
		for _, held := range helds {
			require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }))
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
		}
		return met
	})
}

// TestAReentryThatIsAnsweredAfterTheLastUnlockBringsAHoldOfItsOwn: the Unlock
// has waited as long as it may.
func TestAReentryThatIsAnsweredAfterTheLastUnlockBringsAHoldOfItsOwn(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	lost := make(chan lock.Event, 1)
	cfg := shortUnlock
	cfg.Hooks.Lost = func(e lock.Event) { lost <- e }
	c := fixture.ClientOver(t, st, cfg)
	ctx := lock.WithOwner(bounded.Context(t), "o")
	untilMet(t, func() bool {
		first, err := c.Mutex(t.Name()).Lock(ctx)
		require.NoError(t, err)
		st.HoldBack("reenter")
		st.HangUp(unlockLimit / 2)
		type result struct {
			held *lock.Held
			err  error
		}
		reentered, begun := make(chan result, 1), make(chan struct{})
		go func() {
			close(begun)
			held, err := c.Mutex(t.Name()).Lock(ctx)
			reentered <- result{held, err}
		}()
		bounded.Receive(t, begun)
		err = first.Unlock(ctx)
		met := errors.Is(err, lock.ErrUnknown) && st.Arrived("reenter") == 1
		st.LetThrough()
		second := bounded.Receive(t, reentered)
		require.NoError(t, second.err)
		if met {
			require.Equal(t, 1, second.held.Count())
			require.Greater(t, second.held.Token(), first.Token())
			require.NoError(t, fixture.RetryUntilKnown(func() error { return first.Unlock(ctx) }))
			require.True(t, second.held.Valid())
			require.Len(t, fixture.Hash(t, s, t.Name()), 1)
		}
		for _, held := range []*lock.Held{first, second.held} {
			if err := fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }); !errors.Is(err, lock.ErrNotHeld) {
				require.NoError(t, err)
			}
		}
		fixture.AwaitGone(t, s, t.Name())
		return met
	})
	fixture.CloseNow(c)
	require.Empty(t, lost)
}

// TestTheLastUnlockOfALeaseLongerThanTheDefaultIsTriedUntilItsEnd: the
// client knows how long Redis may keep this hold.
func TestTheLastUnlockOfALeaseLongerThanTheDefaultIsTriedUntilItsEnd(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	st := fixture.Stall(t, s)
	c := fixture.ClientOver(t, st, lock.Config{Lease: 200 * time.Millisecond, IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := bounded.Context(t)
	held, err := c.Mutex(t.Name()).LockFor(ctx, time.Hour)
	require.NoError(t, err)
	st.HoldBack("release")
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrUnknown)
	// Each is given up after IOTimeout, and the next sent after a pause of
	// 100 ms or more: these take longer than the lease.
	fixture.AwaitArrived(t, st, "release", st.Arrived("release")+5)
	st.LetThrough()
	fixture.AwaitGone(t, s, t.Name())
}

// slowContext is a context whose Err can be made to wait.
type slowContext struct {
	context.Context
	slow  chan struct{} // once it is closed, Err waits for free
	asked chan struct{} // gets a token when Err waits
	free  chan struct{} // closed when Err may return
}

func (s *slowContext) Err() error {
	select {
	case <-s.slow:
		select {
		case s.asked <- struct{}{}:
		default:
		}
		<-s.free
		return context.Canceled
	default:
		return nil
	}
}

// TestAGrantThatIsPassedOnLeavesThoseWhoReenteredTheirHold: after the grant, and before
// the waiter leaves, another goroutine of the same owner has re-entered.
func TestAGrantThatIsPassedOnLeavesThoseWhoReenteredTheirHold(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var mu sync.Mutex
	var events []string
	note := func(what string) func(lock.Event) {
		return func(lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, what)
		}
	}
	c := fixture.ClientOf(t, s, lock.Config{Hooks: lock.Hooks{Acquired: note("acquired"), Lost: note("lost"), Released: note("released")}})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	owned := lock.WithOwner(ctx, "o")
	slow := &slowContext{Context: owned, slow: make(chan struct{}), asked: make(chan struct{}, 1), free: make(chan struct{})}
	left := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).Lock(slow)
		left <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	close(slow.slow)
	require.NoError(t, held.Unlock(ctx)) // it is handed to the one that waits, and that is slow to see it
	bounded.Receive(t, slow.asked)
	again, err := c.Mutex(t.Name()).TryLock(owned)
	require.NoError(t, err)
	require.Equal(t, 2, again.Count())
	close(slow.free)
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	require.Eventually(t, func() bool { return again.Count() == 1 }, time.Minute, time.Millisecond)
	require.True(t, again.Valid())
	require.NoError(t, again.Err())
	fields := fixture.Strings(t, s, "HVALS", t.Name())
	require.Len(t, fields, 1)
	require.NoError(t, again.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()))
	mu.Lock()
	defer mu.Unlock()
	require.Equal(t, []string{"acquired", "released", "acquired", "released"}, events, "the re-entry is the first call that returned with the grant")
}

// TestAReentryThatWasNotSentIsNotUnknown: its context ends while another request of the
// hold is not answered.
func TestAReentryThatWasNotSentIsNotUnknown(t *testing.T) {
	s := onRedis(t)
	for name, kind := range map[string]func(c *lock.Client, name string) *lock.Mutex{
		"mutex":  (*lock.Client).Mutex,
		"fair":   (*lock.Client).FairMutex,
		"writer": func(c *lock.Client, name string) *lock.Mutex { return c.RWMutex(name).Writer() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			st := fixture.Stall(t, s)
			c := fixture.ClientOver(t, st, lock.Config{IOTimeout: time.Minute, Lease: time.Hour})
			ctx, mu := bounded.Context(t), kind(c, t.Name())
			held := fixture.Hold(t, mu.Lock)
			st.HoldBack("reenter")
			extended := make(chan error, 1)
			go func() { extended <- held.Extend(ctx, 2*time.Hour) }()
			fixture.AwaitArrived(t, st, "reenter", 1)
			for _, again := range []func(context.Context) (*lock.Held, error){mu.TryLock, mu.Lock} {
				short, cancel := context.WithTimeout(held.Context(ctx), 50*time.Millisecond)
				_, err := again(short)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "was not sent")
				require.NotErrorIs(t, err, lock.ErrUnknown)
			}
			require.Equal(t, 1, st.Arrived("reenter"))
			st.LetThrough()
			require.NoError(t, bounded.Receive(t, extended))
			require.Equal(t, 1, held.Count())
			require.NoError(t, held.Unlock(ctx))
		})
	}
}
