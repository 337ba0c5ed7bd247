package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/wheellock/wheellock/lock/locktest"
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

// late is a hold whose trust ends now. The watchdog has not noticed that yet, because it looks at its
// next tick.
type late struct {
	held    anyHeld
	done    <-chan struct{} // of held, asked for before
	ctx     context.Context
	child   context.Context
	clients []*lock.Client
	told    *atomic.Int64 // calls of Hooks.Lost
}

// holds has the ways to take a hold whose trust ends.
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
	var members []*lock.Mutex
	for _, member := range c {
		members = append(members, member.Mutex("m"))
	}
	return must(lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...))
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

// TestWhoeverAsksAHoldIsToldByTheClock, even if the watchdog has not noticed the loss yet, as after a
// stop of the process.
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

// TestALossThatWasAskedForIsCountedAndToldOnce, however many callers ask while the watchdog looks too.
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

// TestTheContextOfAHoldWithinALostOneEnds, although the inner lock is still held.
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
	c := fixture.ClientOf(t, onRedis(t), lock.Config{Lease: 3 * time.Second})
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

// TestAHolderIsToldOfItsLossWhateverTheTablesAreUsedFor, for example while 50,000
// waiters leave. A hold may end by its time, and by an answer of Redis.
func TestAHolderIsToldOfItsLossWhateverTheTablesAreUsedFor(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	hook := make(chan lock.Event, 3)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second, Hooks: lock.Hooks{Lost: func(e lock.Event) { hook <- e }}})
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
			w := startWaiting(t, c, func() (*lock.Held, error) { return tc.take(bounded.Context(t), c, name) })
			require.NoError(t, inner.Unlock(ctx))
			require.NoError(t, again.Unlock(ctx))
			other := receiveHeld(t, w, "another's turn")
			require.NoError(t, other.Unlock(ctx))
			require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, time.Millisecond)
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

// Very many holders are told of their loss without a goroutine for each: by one hook, or, where
// a context has to end, by context.AfterFunc. The last row is for comparison.
func TestFiftyThousandHoldersAreToldWithoutAGoroutineEach(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	locks := 50_000
	if fixture.IsBrief() {
		locks = 10_000
	}
	none := func(*lock.Held, func()) {}
	for name, row := range map[string]struct {
		hook  bool
		watch func(held *lock.Held, told func())
	}{
		"Hooks.Lost": {true, none},
		"context.AfterFunc": {false, func(held *lock.Held, told func()) {
			context.AfterFunc(held.Context(context.Background()), told)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := fixture.Server(t)
			var told atomic.Int64
			tell := func() { told.Add(1) }
			var hooks lock.Hooks
			if row.hook {
				hooks.Lost = func(lock.Event) { tell() }
			}
			c := fixture.ClientOf(t, server, lock.Config{Lease: 3 * time.Second, Hooks: hooks})
			holds := fixture.LockAll(t, c, fixture.Names("lock:", locks))
			before, goroutines := memory(), runtime.NumGoroutine()
			for _, held := range holds {
				row.watch(held, tell)
			}
			require.Less(t, runtime.NumGoroutine()-goroutines, 100)
			t.Logf("%d bytes per lock", (memory()-before)/int64(locks))
			fixture.Do(t, server, "FLUSHALL")
			require.Eventually(t, func() bool { return told.Load() == int64(locks) }, time.Minute, time.Millisecond)
			for _, held := range holds {
				require.ErrorIs(t, held.Err(), lock.ErrLost)
			}
		})
	}
}

// memory is what live objects and stacks take.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// TestAHoldWhoseKeyIsSomethingElseNowIsLostWhoeverFindsIt: renewal, or another
// request of the hold.
func TestAHoldWhoseKeyIsSomethingElseNowIsLostWhoeverFindsIt(t *testing.T) {
	ctx := bounded.Context(t)
	finds := map[string]func(*lock.Held, fixture.LockKind) error{
		"unlock":  func(held *lock.Held, _ fixture.LockKind) error { return held.Unlock(ctx) },
		"extend":  func(held *lock.Held, _ fixture.LockKind) error { return held.Extend(ctx, time.Minute) },
		"reentry": func(held *lock.Held, lk fixture.LockKind) error { _, err := lk.Lock(held.Context(ctx)); return err },
		"guard": func(held *lock.Held, _ fixture.LockKind) error {
			_, err := held.Guard(ctx, "GET", nil)
			return err
		},
		"renewal": func(held *lock.Held, _ fixture.LockKind) error { bounded.Receive(t, held.Done()); return held.Err() },
	}
	for where, s := range shared.MiniAndServer(t) {
		for _, kind := range []string{"mutex", "fenced", "fair", "write", "read", "permits"} {
			for by, find := range finds {
				if kind == "permits" && (by == "reentry" || by == "guard") {
					continue
				}
				t.Run(where+"/"+kind+"/"+by, func(t *testing.T) {
					t.Parallel()
					lease := 30 * time.Second
					if by == "renewal" {
						lease = 6 * time.Second
					}
					c := fixture.ClientOf(t, s, lock.Config{Lease: lease})
					lk := fixture.LockKinds(t, c)[kind]
					held, err := lk.Lock(ctx)
					require.NoError(t, err)
					fixture.Do(t, s, "SET", lk.Key, "something else")
					err = find(held, lk)
					var lost *lock.LostError
					require.ErrorAs(t, err, &lost)
					require.Equal(t, lock.NotOwner, lost.Reason)
					require.NotErrorIs(t, err, lock.ErrNotALock)
					require.False(t, held.Valid())
					require.Equal(t, []byte("something else"), fixture.Do(t, s, "GET", lk.Key))
				})
			}
			if kind == "permits" {
				continue
			}
			t.Run(where+"/"+kind+"/inner unlock", func(t *testing.T) {
				t.Parallel()
				c := fixture.ClientOf(t, s, lock.Config{})
				lk := fixture.LockKinds(t, c)[kind]
				outer, err := lk.Lock(ctx)
				require.NoError(t, err)
				inner, err := lk.Lock(outer.Context(ctx))
				require.NoError(t, err)
				fixture.Do(t, s, "SET", lk.Key, "something else")
				require.ErrorIs(t, inner.Unlock(ctx), lock.ErrLost)
				require.False(t, outer.Valid())
			})
		}
		t.Run(where+"/handed over", func(t *testing.T) {
			t.Parallel()
			c := fixture.ClientOf(t, s, lock.Config{})
			held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
			refused := make(chan error, 1)
			go func() {
				_, err := c.Mutex(t.Name()).Lock(ctx)
				refused <- err
			}()
			require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
			fixture.Do(t, s, "SET", t.Name(), "something else")
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			require.ErrorIs(t, bounded.Receive(t, refused), lock.ErrNotALock)
		})
	}
}

// TestAGuardedCommandOfAnotherTypeIsNoLoss: it is the command's key, not the
// lock's.
func TestAGuardedCommandOfAnotherTypeIsNoLoss(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "SET", t.Name()+":list", "no list")
	_, err := held.Guard(ctx, "LPUSH", []string{t.Name() + ":list"}, "x")
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, lock.ErrNotALock)
	require.NotErrorIs(t, err, lock.ErrLost)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
}
