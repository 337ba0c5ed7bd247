package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// anyHeld is a Held or a MultiHeld.
type anyHeld interface {
	Err() error
	Done() <-chan struct{}
	Valid() bool
	Deadline() time.Time
	Context(context.Context) context.Context
	Unlock(context.Context) error
}

// late is a hold at the moment at which its trust ends, before the watchdog has come to it: it
// looks at its next tick.
type late struct {
	held    anyHeld
	done    <-chan struct{} // of held, asked for before
	ctx     context.Context
	child   context.Context
	clients []*lock.Client
	told    *atomic.Int64 // calls of Hooks.Lost
}

// holds are the ways in which one can come to hold something whose trust ends.
var holds = map[string]func(clients []*lock.Client) (anyHeld, error){
	"Mutex.Lock": func(c []*lock.Client) (anyHeld, error) {
		return c[0].Mutex("m").Lock(context.Background())
	},
	"Mutex.LockFor": func(c []*lock.Client) (anyHeld, error) {
		return c[0].Mutex("m").LockFor(context.Background(), 10*time.Second)
	},
	"MultiLock.Lock": func(c []*lock.Client) (anyHeld, error) {
		return must(lock.NewMultiLock(c[0].Mutex("m"), c[1].Mutex("m"))).Lock(context.Background())
	},
	"MultiLock.LockFor": func(c []*lock.Client) (anyHeld, error) {
		return must(lock.NewMultiLock(c[0].Mutex("m"), c[1].Mutex("m"))).LockFor(context.Background(), 10*time.Second)
	},
	"RedLock.Lock": func(c []*lock.Client) (anyHeld, error) {
		return redOf(c).Lock(context.Background())
	},
	"RedLock.LockFor": func(c []*lock.Client) (anyHeld, error) {
		return redOf(c).LockFor(context.Background(), 10*time.Second)
	},
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

func redOf(c []*lock.Client) *lock.RedLock {
	return must(lock.NewRedLock(lock.RedLockConfig{Durable: true}, c[0].Mutex("m"), c[1].Mutex("m"), c[2].Mutex("m")))
}

// eachLate runs f with each kind of hold.
func eachLate(t *testing.T, f func(t *testing.T, l *late)) {
	for name, take := range holds {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := &late{told: new(atomic.Int64)}
				for range 3 {
					s := fixture.Virtual(t)
					c, err := lock.New(s.Pool(0), lock.Config{MaxHold: 45 * time.Second, Hooks: lock.Hooks{Lost: func(lock.Event) { l.told.Add(1) }}})
					require.NoError(t, err)
					defer fixture.CloseNow(c)
					l.clients = append(l.clients, c)
				}
				time.Sleep(1_237 * time.Microsecond) // off the watchdog's ticks
				var err error
				l.held, err = take(l.clients)
				require.NoError(t, err)
				l.done, l.ctx = l.held.Done(), l.held.Context(t.Context())
				var cancel context.CancelFunc
				l.child, cancel = context.WithCancel(l.ctx)
				defer cancel()
				if x, ok := l.held.(*lock.MultiHeld); ok {
					lock.StopTimer(x) // a RedLock has one of its own
				}
				for l.held.Valid() { // renewals have moved it
					time.Sleep(time.Until(l.held.Deadline()))
				}
				select {
				case <-l.done:
					t.Error("the watchdog was first: the test shows nothing")
				default:
				}
				f(t, l)
				synctest.Wait()
				require.ErrorIs(t, l.held.Unlock(context.Background()), lock.ErrLost)
			})
		})
	}
}

// requireEnded: everything that the hold has given out says so at once.
func (l *late) requireEnded(t *testing.T) {
	t.Helper()
	var lost *lock.LostError
	require.ErrorAs(t, l.held.Err(), &lost)
	require.Contains(t, []lock.Reason{lock.TrustEnded, lock.Expired, lock.MaxHold}, lost.Reason)
	for name, done := range map[string]<-chan struct{}{
		"Done before": l.done, "Done": l.held.Done(), "Context": l.ctx.Done(), "what is derived from it": l.child.Done(),
	} {
		select {
		case <-done:
		default:
			t.Errorf("%s is not closed", name)
		}
	}
	require.ErrorIs(t, l.ctx.Err(), context.Canceled)
	require.ErrorIs(t, l.child.Err(), context.Canceled)
	require.ErrorAs(t, context.Cause(l.ctx), &lost)
	require.ErrorAs(t, context.Cause(l.child), &lost)
	again := l.held.Context(context.Background())
	require.Error(t, again.Err())
}

// TestWhoeverAsksAHoldIsToldByTheClock, though the watchdog has not come to it: so it is after
// the process was stopped and goes on.
func TestWhoeverAsksAHoldIsToldByTheClock(t *testing.T) {
	for name, ask := range map[string]func(l *late) bool{
		"Err":  func(l *late) bool { return l.held.Err() != nil },
		"Done": func(l *late) bool { return fixture.IsClosed(l.held.Done()) },
		"the context's Err": func(l *late) bool {
			return l.ctx.Err() != nil && fixture.IsClosed(l.done)
		},
		"the context's Done":  func(l *late) bool { return fixture.IsClosed(l.ctx.Done()) && l.ctx.Err() != nil },
		"the context's Cause": func(l *late) bool { return context.Cause(l.ctx) != nil },
		"a new context":       func(l *late) bool { return l.held.Context(context.Background()).Err() != nil },
	} {
		t.Run(name, func(t *testing.T) {
			eachLate(t, func(t *testing.T, l *late) {
				require.True(t, ask(l))
				l.requireEnded(t)
			})
		})
	}
}

// TestALossThatWasAskedForIsCountedAndToldOnce, however many ask and the watchdog beside them.
func TestALossThatWasAskedForIsCountedAndToldOnce(t *testing.T) {
	eachLate(t, func(t *testing.T, l *late) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() { _ = l.held.Err() })
			wg.Go(func() { _ = l.ctx.Err() })
			wg.Go(func() { <-l.ctx.Done() })
		}
		wg.Wait()
		l.requireEnded(t)
		time.Sleep(time.Second) // the watchdog has come by
		synctest.Wait()
		lost, held := uint64(0), 0
		for _, c := range l.clients {
			s := c.Stats()
			for _, n := range s.Lost {
				lost += n
			}
			held += s.Held
		}
		require.Equal(t, int64(lost), l.told.Load())
		require.Zero(t, held)
	})
}

// TestAskingAHoldWorksUnderTheUsersMutex, which Hooks.Lost takes too, and in the hook.
func TestAskingAHoldWorksUnderTheUsersMutex(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var mu sync.Mutex
		var held *lock.Held
		var inHook error
		c, err := lock.New(s.Pool(0), lock.Config{Hooks: lock.Hooks{Lost: func(lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			inHook = held.Err()
		}}})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		time.Sleep(1_237 * time.Microsecond)
		held, err = c.Mutex("m").LockFor(t.Context(), 10*time.Second)
		require.NoError(t, err)
		ctx := held.Context(t.Context())
		time.Sleep(time.Until(held.Deadline()))
		mu.Lock()
		require.Error(t, ctx.Err())
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		mu.Unlock()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		require.ErrorIs(t, inHook, lock.ErrLost)
	})
}

// TestTheContextOfALostHoldTakesNoOtherLock: it is the ctx of Lock.
func TestTheContextOfALostHoldTakesNoOtherLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		time.Sleep(1_237 * time.Microsecond)
		held, err := c.Mutex("m").LockFor(t.Context(), 10*time.Second)
		require.NoError(t, err)
		ctx := held.Context(t.Context())
		time.Sleep(time.Until(held.Deadline()))
		_, err = c.Mutex("other").Lock(ctx)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, lock.ErrLost)
		var ran bool
		err = c.Mutex("other").Do(ctx, func(context.Context, *lock.Held) error { ran = true; return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, ran)
	})
}

// TestTheContextOfAHoldWithinALostOneEnds: the inner one is held yet.
func TestTheContextOfAHoldWithinALostOneEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		time.Sleep(1_237 * time.Microsecond)
		outer, err := c.Mutex("m").LockFor(t.Context(), 10*time.Second)
		require.NoError(t, err)
		again, err := c.Mutex("m").LockFor(outer.Context(t.Context()), 10*time.Second)
		require.NoError(t, err)
		within, cancel := context.WithCancel(again.Context(outer.Context(t.Context())))
		defer cancel()
		inner, err := c.Mutex("inner").Lock(within)
		require.NoError(t, err)
		ctx := inner.Context(within)
		require.NoError(t, ctx.Err())
		time.Sleep(time.Until(outer.Deadline()))
		require.True(t, inner.Valid())
		require.Error(t, ctx.Err())
		require.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
		require.Error(t, within.Err())
		require.NoError(t, inner.Err())
	})
}

// TestDoGivesItsFunctionTheHold, which says more than its context.
func TestDoGivesItsFunctionTheHold(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	other := fixture.ClientOf(t, onRedis(t), lock.Config{})
	failed := errors.New("failed")
	require.ErrorIs(t, c.FencedMutex(t.Name()+"f").Do(t.Context(), func(ctx context.Context, held *lock.Held) error {
		require.True(t, held.Valid())
		require.Positive(t, held.Token())
		require.Equal(t, t.Name()+"f", held.Name())
		require.NoError(t, ctx.Err())
		return failed
	}), failed)
	both, err := lock.NewMultiLock(c.Mutex(t.Name()+"1"), other.Mutex(t.Name()+"2"))
	require.NoError(t, err)
	require.NoError(t, both.Do(t.Context(), func(_ context.Context, held *lock.MultiHeld) error {
		require.False(t, lock.LoseOfOtherParts(held), "a member was taken again meanwhile")
		require.True(t, held.Valid())
		require.NoError(t, held.Err())
		require.Equal(t, 2, held.Members())
		return nil
	}))
}

// TestDoReportsALossOnce: its function returns what ended its context, and Unlock says the same.
func TestDoReportsALossOnce(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{Lease: time.Second})
	ctx := bounded.Context(t)
	lost := func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("the job has stopped: %w", context.Cause(ctx))
	}
	name := t.Name()
	err := c.Mutex(name).Do(ctx, func(inner context.Context, held *lock.Held) error {
		_, err := c.Mutex(name).ForceUnlock(ctx)
		require.NoError(t, err)
		return lost(inner)
	})
	require.ErrorIs(t, err, lock.ErrLost)
	require.Equal(t, 1, strings.Count(err.Error(), "is lost"), "%v", err)
	require.ErrorContains(t, err, "the job has stopped")

	// The loss of another lock is another one.
	other, err := c.Mutex(name + " too").Lock(ctx)
	require.NoError(t, err)
	_, err = c.Mutex(name + " too").ForceUnlock(ctx)
	require.NoError(t, err)
	<-other.Done()
	err = c.Mutex(name).Do(ctx, func(inner context.Context, held *lock.Held) error {
		_, err := c.Mutex(name).ForceUnlock(ctx)
		require.NoError(t, err)
		<-inner.Done()
		return other.Err()
	})
	require.Equal(t, 2, strings.Count(err.Error(), "is lost"), "%v", err)

	both, err := lock.NewMultiLock(c.Mutex(name+"1"), c.Mutex(name+"2"))
	require.NoError(t, err)
	err = both.Do(ctx, func(inner context.Context, _ *lock.MultiHeld) error {
		_, err := c.Mutex(name + "1").ForceUnlock(ctx)
		require.NoError(t, err)
		return lost(inner)
	})
	require.Equal(t, 1, strings.Count(err.Error(), "is lost"), "%v", err)
}
