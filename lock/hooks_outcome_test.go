package lock_test

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
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
		require.True(t, fixture.NoAnswer(err), "it may need a connection: %v", err)
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
