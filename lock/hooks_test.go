package lock_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
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
	"github.com/wheellock/wheellock/renewal"
)

func TestHooksTellTheLifeOfALock(t *testing.T) {
	s := onRedis(t)
	var mu sync.Mutex
	var events []string
	note := func(what string) func(lock.Event) {
		return func(e lock.Event) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf("%s %s %t %v", what, e.Name, e.Token > 0, e.Err))
		}
	}
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second, Hooks: lock.Hooks{
		Acquired: note("acquired"), Waited: note("waited"), Released: note("released"), Lost: note("lost"),
	}})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.Mutex("h").Lock)
	inner, err := c.Mutex("h").Lock(first.Context(ctx)) // no event: it is the same hold
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	wg := fixture.LockInTurn(t, c, "h", 1, func(*lock.Held) {})
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	require.NoError(t, first.Unlock(ctx))
	bounded.Wait(t, wg)
	lost := fixture.Hold(t, c.Mutex("h").Lock)
	fixture.Do(t, s, "DEL", "h")
	bounded.Receive(t, lost.Done())
	fixture.CloseNow(c) // the last event has come
	mu.Lock()
	defer mu.Unlock()
	require.ElementsMatch(t, []string{
		"acquired h true <nil>", "released h true <nil>",
		"waited h true <nil>", "acquired h true <nil>", "released h true <nil>",
		"acquired h true <nil>", `lost h true lock: "h" is lost: not the owner any more: stop the work that needs the lock, because another owner may have it`,
	}, events)
}

// TestAcquiredIsToldOfEachHoldOnce: also when another call of its owner is faster than the
// one that has taken it.
func TestAcquiredIsToldOfEachHoldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		told, proceed := make(chan lock.Event, 10), make(chan struct{})
		c, err := lock.New(s.Pool(0), lock.Config{Hooks: lock.Hooks{
			Acquired: func(e lock.Event) { told <- e },
			Waited:   func(lock.Event) { <-proceed }, // it comes first
		}})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		m, ctx := c.Mutex("m"), lock.WithOwner(context.Background(), "owner")
		first := fixture.Hold(t, m.Lock)
		require.Equal(t, first.Token(), (<-told).Token)
		outer := make(chan *lock.Held, 1)
		go func() {
			held, err := m.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			outer <- held
		}()
		synctest.Wait()
		require.NoError(t, first.Unlock(ctx))
		synctest.Wait() // it has the lock, and does not know yet
		inner, err := m.TryLock(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, inner.Count())
		close(proceed)
		held := <-outer
		require.Len(t, told, 1)
		require.Equal(t, held.Token(), (<-told).Token)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, inner.Unlock(ctx))
		require.Empty(t, told)
	})
}

func TestTheRenewedHookIsToldOfEachBatch(t *testing.T) {
	s := onRedis(t)
	var renewed atomic.Int64
	c := fixture.ClientOf(t, s, lock.Config{
		Lease: 300 * time.Millisecond,
		Hooks: lock.Hooks{Renewed: func(r renewal.BatchReport) {
			renewed.Add(int64(r.Renewed))
			panic("not to be felt by the next one")
		}},
		Logger: slog.New(slog.DiscardHandler),
	})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	bounded.Until(t, func() bool { return renewed.Load() >= 3 })
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestAHookThatPanicsIsLogged(t *testing.T) {
	s := onRedis(t)
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{
		Logger: log.Logger(),
		Hooks:  lock.Hooks{Acquired: func(lock.Event) { panic("at the disco") }},
	})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	fixture.CloseNow(c)
	require.Contains(t, log.String(), "at the disco")
}

// told collects what hooks are told.
type told struct {
	mu     sync.Mutex
	events []toldEvent
}

type toldEvent struct {
	hook string
	lock.Event
}

func (o *told) note(hook string) func(lock.Event) {
	return func(e lock.Event) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.events = append(o.events, toldEvent{hook, e})
	}
}

func (o *told) hooks() lock.Hooks {
	return lock.Hooks{
		Acquired: o.note("acquired"), Failed: o.note("failed"), Waited: o.note("waited"),
		Released: o.note("released"), Lost: o.note("lost"),
	}
}

// all returns the events since the last call.
func (o *told) all() []toldEvent {
	o.mu.Lock()
	defer o.mu.Unlock()
	events := o.events
	o.events = nil
	return events
}

// one returns the only event since the last call.
func (o *told) one(t *testing.T, hook string) lock.Event {
	t.Helper()
	events := o.all()
	require.Len(t, events, 1)
	require.Equal(t, hook, events[0].hook)
	return events[0].Event
}

func TestEveryOutcomeIsToldAndCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		var seen told
		c := srv.Client(lock.Config{Hooks: seen.hooks()})
		type key struct{}
		ctx := context.WithValue(t.Context(), key{}, "the caller's")
		failed := func(o lock.Outcome, err error) time.Duration {
			t.Helper()
			e := seen.one(t, "failed")
			require.Equal(t, o, e.Outcome)
			require.Equal(t, "the caller's", e.Context.Value(key{}))
			require.Equal(t, c.ID(), e.Client)
			require.Equal(t, err, e.Err)
			require.Zero(t, e.Hold)
			return e.Waited
		}
		mu := c.Mutex("m")
		held, err := mu.Lock(ctx)
		require.NoError(t, err)
		e := seen.one(t, "acquired")
		require.Equal(t, lock.OutcomeAcquired, e.Outcome)
		require.Equal(t, ctx, e.Context)
		require.Equal(t, held.Token(), e.Token)

		again, err := mu.Lock(held.Context(ctx))
		require.NoError(t, err)
		require.NoError(t, again.Unlock(ctx))
		require.Empty(t, seen.all(), "it is the same hold")

		_, err = srv.Client(lock.Config{Hooks: seen.hooks()}).Mutex("m").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, lock.OutcomeRefused, seen.one(t, "failed").Outcome, "no wait, and another client's")
		_, err = mu.TryLock(ctx)
		failed(lock.OutcomeRefused, err)

		soon, cancel := context.WithTimeout(ctx, 3*time.Second)
		_, err = mu.Lock(soon)
		cancel()
		waited := seen.all()
		require.Len(t, waited, 2)
		for i, hook := range []string{"waited", "failed"} {
			require.Equal(t, hook, waited[i].hook)
			require.Equal(t, lock.OutcomeEnded, waited[i].Outcome)
			require.Equal(t, 3*time.Second, waited[i].Waited)
			require.Equal(t, err, waited[i].Err)
		}
		over, cancel := context.WithDeadline(ctx, time.Now())
		defer cancel()
		_, err = mu.Lock(over)
		failed(lock.OutcomeEnded, err)

		srv.Pause()
		_, err = c.Mutex("other").TryLock(ctx)
		require.True(t, fixture.IsNoAnswer(err), "it may need a connection: %v", err)
		require.GreaterOrEqual(t, failed(lock.OutcomeUnknown, err), time.Second)
		srv.Resume()

		_, err = srv.Do("SET", "text", "no lock")
		require.NoError(t, err)
		_, err = c.Mutex("text").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrNotALock)
		failed(lock.OutcomeError, err)
		_, err = c.PermitSemaphore("none").TryAcquire(ctx, 1)
		failed(lock.OutcomeRefused, err)
		_, err = c.PermitSemaphore("none").TryAcquire(ctx, 0)
		failed(lock.OutcomeError, err)

		require.NoError(t, held.Unlock(ctx))
		e = seen.one(t, "released")
		require.Equal(t, "the caller's", e.Context.Value(key{}))
		require.Zero(t, e.Outcome)
		fixture.CloseNow(c)
		_, err = mu.Lock(ctx)
		failed(lock.OutcomeClosed, err)

		st := c.Stats()
		require.Equal(t, map[lock.Outcome]uint64{
			lock.OutcomeAcquired: 1, lock.OutcomeReentered: 1, lock.OutcomeRefused: 2, lock.OutcomeEnded: 2,
			lock.OutcomeUnknown: 1, lock.OutcomeError: 2, lock.OutcomeClosed: 1,
		}, st.Calls)
		require.EqualValues(t, 1, st.Waited.Count)
		require.EqualValues(t, 1, st.Released)
		require.Positive(t, st.Unanswered)
		require.Zero(t, st.Unreleased)
		text, err := json.Marshal(st)
		require.NoError(t, err)
		require.Contains(t, string(text), `"refused":2`)
	})
}

// TestEventsOfOneHoldHaveItsNumber: of every kind, and of holds that are handed on
// inside the client.
func TestEventsOfOneHoldHaveItsNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		var seen told
		c, ctx := srv.Client(lock.Config{Hooks: seen.hooks()}), t.Context()
		_, err := c.PermitSemaphore("permits").TrySet(ctx, 4)
		require.NoError(t, err)
		take := map[string]func() (*lock.Held, error){
			"mutex":   func() (*lock.Held, error) { return c.Mutex("mutex").Lock(ctx) },
			"fenced":  func() (*lock.Held, error) { return c.FencedMutex("fenced").Lock(ctx) },
			"fair":    func() (*lock.Held, error) { return c.FairMutex("fair").Lock(ctx) },
			"reader":  func() (*lock.Held, error) { return c.RWMutex("rw").Reader().Lock(ctx) },
			"writer":  func() (*lock.Held, error) { return c.RWMutex("w").Writer().Lock(ctx) },
			"permits": func() (*lock.Held, error) { return c.PermitSemaphore("permits").Acquire(ctx, 2) },
		}
		var wg sync.WaitGroup
		for _, lockIt := range take {
			for range 5 {
				wg.Go(func() {
					held, err := lockIt()
					if err == nil {
						time.Sleep(time.Millisecond)
						err = held.Unlock(ctx)
					}
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
		wg.Wait()
		open, names := map[uint64]string{}, map[uint64]bool{}
		for _, e := range seen.all() {
			require.NotZero(t, e.Hold)
			switch e.hook {
			case "acquired":
				require.False(t, names[e.Hold], "%d is another hold's", e.Hold)
				names[e.Hold], open[e.Hold] = true, e.Name
			case "released":
				require.Equal(t, open[e.Hold], e.Name)
				delete(open, e.Hold)
			}
		}
		require.Empty(t, open)
		require.Len(t, names, 5*len(take))
		st := c.Stats()
		require.EqualValues(t, 5*len(take), st.Calls[lock.OutcomeAcquired])
		require.EqualValues(t, 5*len(take), st.Released)
	})
}

// TestLostIsToldBehindAcquired though the hold ends while Acquired runs.
func TestLostIsToldBehindAcquired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		var seen told
		hooks := seen.hooks()
		c := srv.Client(lock.Config{Hooks: lock.Hooks{Acquired: func(lock.Event) { time.Sleep(time.Second) }}.With(hooks)})
		held, err := c.Mutex("m").LockFor(t.Context(), 200*time.Millisecond)
		require.NoError(t, err)
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		events := seen.all()
		require.Len(t, events, 2)
		require.Equal(t, "acquired", events[0].hook)
		require.Equal(t, "lost", events[1].hook)
		require.Equal(t, events[0].Hold, events[1].Hold)
		require.Equal(t, context.Background(), events[1].Context)
		require.ErrorIs(t, events[1].Err, lock.ErrLost)
		require.Equal(t, map[lock.Reason]uint64{lock.Expired: 1}, c.Stats().Lost)
	})
}

// TestAnUnlockThatIsNotAnsweredIsToldOnce until it is.
func TestAnUnlockThatIsNotAnsweredIsToldOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		var seen told
		c, ctx := srv.Client(lock.Config{Hooks: seen.hooks()}), t.Context()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		hold := seen.one(t, "acquired").Hold
		srv.Pause()
		for range 2 {
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrUnknown)
		}
		e := seen.one(t, "released")
		require.ErrorIs(t, e.Err, lock.ErrUnknown)
		require.Equal(t, hold, e.Hold)
		st := c.Stats()
		require.EqualValues(t, 2, st.Unreleased)
		require.Positive(t, st.Unanswered)
		require.Zero(t, st.Released)
		srv.Resume()
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, seen.one(t, "released").Err)
		require.EqualValues(t, 1, c.Stats().Released)
	})
}

func TestALossThatAScriptFindsIsCountedToo(t *testing.T) {
	s := onRedis(t)
	c, ctx := fixture.ClientOf(t, s, lock.Config{}), bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "DEL", t.Name())
	require.ErrorIs(t, held.Extend(ctx, time.Minute), lock.ErrLost)
	require.Equal(t, map[lock.Reason]uint64{lock.NotOwner: 1}, c.Stats().Lost)
	text, err := json.Marshal(c.Stats())
	require.NoError(t, err)
	require.Contains(t, string(text), `"Lost":{"not the owner any more":1}`)
}

// TestStatsSayHowLongLocksAreHeldAndWaitedFor since the start, and between two snapshots.
func TestStatsSayHowLongLocksAreHeldAndWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, ctx := srv.Client(lock.Config{}), t.Context()
		time.Sleep(time.Hour) // nothing is held
		a, err := c.Mutex("a").Lock(ctx)
		require.NoError(t, err)
		b, err := c.RWMutex("b").Reader().Lock(ctx)
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		before := c.Stats()
		require.InDelta(t, 20, before.HeldSeconds, 1e-6)
		var wg sync.WaitGroup
		wg.Go(func() { // it is handed over
			next, err := c.Mutex("a").Lock(ctx)
			if err == nil {
				time.Sleep(5 * time.Second)
				err = next.Unlock(ctx)
			}
			if err != nil {
				t.Error(err)
			}
		})
		time.Sleep(3 * time.Second)
		require.NoError(t, a.Unlock(ctx))
		wg.Wait()
		require.NoError(t, b.Unlock(ctx))
		time.Sleep(time.Hour)
		st := c.Stats()
		require.InDelta(t, 20+8+8, st.HeldSeconds, 1e-6)
		require.EqualValues(t, 3, st.Released)
		require.EqualValues(t, 3, st.Waited.Count)
		require.Equal(t, 3*time.Second, st.Waited.Sum)
		require.Equal(t, 3*time.Second, st.Waited.Max)

		st = st.Since(before)
		require.InDelta(t, 16, st.HeldSeconds, 1e-6)
		require.Equal(t, map[lock.Outcome]uint64{lock.OutcomeAcquired: 1}, st.Calls)
		require.EqualValues(t, 3, st.Released)
		buckets := st.Waited.Buckets()
		require.Len(t, buckets, 1)
		require.InEpsilon(t, 3*time.Second, buckets[0].UpTo, 1./16)
		require.Empty(t, st.Since(st).Calls)
		require.Empty(t, st.Since(st).Waited.Buckets())
	})
}

func TestHooksWithOthersCallBoth(t *testing.T) {
	var calls []string
	note := func(s string) func(lock.Event) { return func(lock.Event) { calls = append(calls, s) } }
	h := lock.Hooks{Acquired: note("first"), Failed: note("first alone")}.With(lock.Hooks{Acquired: note("second"), Lost: note("second alone")})
	require.Nil(t, h.Released)
	h.Failed(lock.Event{})
	h.Lost(lock.Event{})
	h.Acquired(lock.Event{})
	require.Equal(t, []string{"first alone", "second alone", "first", "second"}, calls)
	h = lock.Hooks{Acquired: func(lock.Event) { panic("first") }}.With(lock.Hooks{Acquired: note("all the same")})
	require.Panics(t, func() { h.Acquired(lock.Event{}) })
	require.Equal(t, "all the same", calls[len(calls)-1])
}

func TestEveryOutcomeHasAName(t *testing.T) {
	names := map[string]bool{}
	for o := lock.OutcomeAcquired; o <= lock.OutcomeError; o++ {
		names[o.String()] = true
	}
	require.Len(t, slices.Collect(maps.Keys(names)), int(lock.OutcomeError))
	require.NotContains(t, names, "Outcome(7)")
	require.Equal(t, "Outcome(0)", lock.Outcome(0).String())
}

// gate is a slog.Handler whose Handle and Enabled wait until the gate is open.
type gate struct {
	slog.Handler
	open    chan struct{}
	enabled bool // Enabled waits, too
}

func (g *gate) Enabled(ctx context.Context, level slog.Level) bool {
	if g.enabled {
		<-g.open
	}
	return g.Handler.Enabled(ctx, level)
}

func (g *gate) Handle(ctx context.Context, r slog.Record) error {
	<-g.open
	return g.Handler.Handle(ctx, r)
}

// TestALoggerThatBlocksDelaysNothing: a full pipe, or a log driver that hangs. Close waits for it
// until its context ends, and says so.
func TestALoggerThatBlocksDelaysNothing(t *testing.T) {
	for name, enabled := range map[string]bool{"Handle": false, "Enabled": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var log fixture.Log
				g := &gate{Handler: log.Logger().Handler(), open: make(chan struct{}), enabled: enabled}
				c, err := lock.New(s.Pool(0), lock.Config{Lease: 30 * time.Second, Logger: slog.New(g)})
				require.NoError(t, err)
				held, err := c.Mutex("m").Lock(t.Context())
				require.NoError(t, err)
				lost, err := c.Mutex("lost").Lock(t.Context())
				require.NoError(t, err)

				// Redis hangs when renewals are due, which is logged, and comes back.
				require.NoError(t, s.Pause())
				time.Sleep(12 * time.Second)
				require.NoError(t, s.Resume())
				time.Sleep(5 * time.Minute)
				require.True(t, held.Valid(), "it was renewed")
				require.NoError(t, held.Unlock(t.Context()))
				fixture.Do(t, s, "DEL", "lost")
				<-lost.Done()

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				began := time.Now()
				err = c.Close(ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorContains(t, err, "lock: closed, but Config.Logger has not returned")
				require.Equal(t, time.Minute, time.Since(began), "it waits until its context ends")
				require.Empty(t, log.String())

				// The records come in order when it takes them, and nothing is left of the client.
				close(g.open)
				require.NoError(t, c.Close(t.Context()))
				said := log.String()
				require.Less(t, strings.Index(said, "Redis did not answer in time"), strings.Index(said, "Redis answers again"), said)
			})
		})
	}
}

// TestAHookThatBlocksDelaysOnlyItsOwnCall. Lost and Renewed have goroutines of their own, and Close
// waits for these until its context ends, and says so.
func TestAHookThatBlocksDelaysOnlyItsOwnCall(t *testing.T) {
	for name, hooks := range map[string]func(block func()) lock.Hooks{
		"Acquired": func(block func()) lock.Hooks { return lock.Hooks{Acquired: func(lock.Event) { block() }} },
		"Failed":   func(block func()) lock.Hooks { return lock.Hooks{Failed: func(lock.Event) { block() }} },
		"Waited":   func(block func()) lock.Hooks { return lock.Hooks{Waited: func(lock.Event) { block() }} },
		"Released": func(block func()) lock.Hooks { return lock.Hooks{Released: func(lock.Event) { block() }} },
		"Lost":     func(block func()) lock.Hooks { return lock.Hooks{Lost: func(lock.Event) { block() }} },
		"Renewed":  func(block func()) lock.Hooks { return lock.Hooks{Renewed: func(renewal.BatchReport) { block() }} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				var armed atomic.Bool
				open, blocked := make(chan struct{}), make(chan struct{}, 100)
				c, err := lock.New(s.Pool(0), lock.Config{Hooks: hooks(func() {
					if armed.Load() {
						blocked <- struct{}{}
						<-open
					}
				})})
				require.NoError(t, err)
				ctx := context.Background()
				take := func(name string) *lock.Held {
					held, err := c.Mutex(name).Lock(ctx)
					require.NoError(t, err)
					return held
				}
				kept, released, lost, others := take("kept"), take("released"), take("lost"), take("other's loss")

				// Each hook is called once, and does not return.
				armed.Store(true)
				ended := make(chan struct{}, 4)
				for _, call := range []func(){
					func() { _, _ = c.Mutex("acquired").Lock(ctx) },
					func() { _, _ = c.Mutex("kept").TryLock(ctx) },
					func() { _, _ = c.Mutex("released").Lock(ctx) },
					func() { _ = released.Unlock(ctx) },
				} {
					go func() {
						call()
						ended <- struct{}{}
					}()
					synctest.Wait()
				}
				fixture.Do(t, s, "DEL", "lost")
				<-lost.Done()
				<-blocked
				if name == "Failed" || name == "Released" {
					require.Len(t, ended, 3, "the other calls have ended")
				}

				// Renewals, the losses of others, and requests of others go on.
				time.Sleep(5 * time.Minute)
				require.True(t, kept.Valid())
				fixture.Do(t, s, "DEL", "other's loss")
				<-others.Done()
				require.True(t, fixture.Exists(t, s, "kept"))
				done := make(chan error, 1)
				go func() { done <- kept.Unlock(ctx) }()
				synctest.Wait()
				require.False(t, fixture.Exists(t, s, "kept"), "it was released")

				short, cancel := context.WithTimeout(ctx, time.Minute)
				defer cancel()
				began := time.Now()
				err = c.Close(short)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, time.Since(began), time.Minute+3*time.Second)
				if name == "Lost" || name == "Renewed" {
					require.ErrorContains(t, err, "lock: closed, but Hooks."+name+" has not returned")
				}
				close(open)
				require.NoError(t, <-done)
			})
		})
	}
}

// TestCloseWaitsAMomentForHooksAndTheLogger, although its context has ended. It has caused the last
// calls itself.
func TestCloseWaitsAMomentForHooksAndTheLogger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		var told atomic.Int32
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger(), Hooks: lock.Hooks{Lost: func(lock.Event) {
			time.Sleep(time.Second)
			told.Add(1)
			panic("at the disco")
		}}})
		require.NoError(t, err)
		for _, name := range []string{"a", "b"} {
			_, err := c.Mutex(name).Lock(t.Context())
			require.NoError(t, err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		err = c.Close(ended)
		require.ErrorContains(t, err, "closed with 2 locks held")
		require.NotContains(t, err.Error(), "has not returned")
		require.EqualValues(t, 2, told.Load())
		require.Equal(t, 2, strings.Count(log.String(), "a hook panicked"))
	})
}

// TestReportsThatASlowHookMissesAreCounted: each batch is in a report, or in Skipped of the next one.
func TestReportsThatASlowHookMissesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		open := make(chan struct{})
		reports, batches, skipped := 0, 0, 0
		c, err := lock.New(s.Pool(0), lock.Config{Lease: time.Second, Hooks: lock.Hooks{Renewed: func(r renewal.BatchReport) {
			<-open
			reports++
			batches += 1 + int(r.Skipped)
			skipped += int(r.Skipped)
		}}})
		require.NoError(t, err)
		held, err := c.Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(20 * time.Minute) // 3,600 batches and more, one by one
		require.True(t, held.Valid())
		close(open)
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, c.Close(t.Context()))
		require.Positive(t, skipped)
		require.Less(t, reports, 3_000, "the queue is bounded")
		require.EqualValues(t, c.Stats().Renewal.Batches, batches)
	})
}

// TestRequestsThatRedisRefusesAreCounted: calls, and each batch of renewals once.
func TestRequestsThatRedisRefusesAreCounted(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientWithout(t, s, "locker", lock.Config{Lease: 600 * time.Millisecond})
	fixture.Hold(t, c.Mutex("a").Lock)
	fixture.Hold(t, c.Mutex("b").Lock)
	require.Zero(t, c.Stats().Refused)
	fixture.SetUserWithout(t, s, "locker", "-hexists", "-hset")
	bounded.Until(t, func() bool { return c.Stats().Refused > 0 })
	bounded.Until(t, func() bool { return c.Stats().Held == 0 }) // and both are lost
	// A last renewal may be refused beside the first call.
	bounded.Until(t, func() bool {
		before := c.Stats()
		_, err := c.Mutex("c").TryLock(bounded.Context(t))
		require.Error(t, err)
		return c.Stats().Since(before).Refused == 1
	})
}
