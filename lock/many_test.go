package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// requireGivenBack unlocks what tries have taken and makes sure that no lock with that prefix
// stays in Redis, also of tries that brought nothing.
func requireGivenBack(t *testing.T, s *redistest.Server, prefix string, tries []lock.Try) {
	t.Helper()
	left := heldOf(tries)
	require.NoError(t, fixture.RetryUntilKnown(func() error {
		errs := lock.UnlockMany(bounded.Context(t), left)
		var again []*lock.Held
		for i, err := range errs {
			if fixture.IsNoAnswer(err) { // of a busy machine
				again = append(again, left[i])
			} else {
				require.NoError(t, err)
			}
		}
		left = again
		return errors.Join(errs...)
	}))
	require.Eventually(t, func() bool { return len(fixture.Keys(t, s, prefix+"*")) == 0 }, time.Minute, 10*time.Millisecond)
}

// manyWorld is a client with hooks, beside a rival that has some of its names.
type manyWorld struct {
	prefix                     string
	c                          *lock.Client
	acquired, failed, released atomic.Int64
}

func newManyWorld(t *testing.T, s *redistest.Server, prefix string) *manyWorld {
	w := &manyWorld{prefix: prefix}
	count := func(n *atomic.Int64) func(lock.Event) { return func(lock.Event) { n.Add(1) } }
	w.c = fixture.ClientOf(t, s, lock.Config{KeyPrefix: prefix, Hooks: lock.Hooks{
		Acquired: count(&w.acquired), Failed: count(&w.failed), Released: count(&w.released),
	}})
	return w
}

// describe returns the result of a try as a text. Equal results of different worlds have equal texts.
func (w *manyWorld) describe(held *lock.Held, err error) string {
	if err == nil {
		return fmt.Sprintf("held %s %d times, %t", strings.TrimPrefix(held.Name(), w.prefix), held.Count(), held.Valid())
	}
	var refused *lock.HeldError
	if errors.As(err, &refused) { // without the TTL, which differs
		return "refused " + strings.TrimPrefix(refused.Name, w.prefix)
	}
	return strings.ReplaceAll(err.Error(), w.prefix, "")
}

// counts returns, as a text, how many hooks were called and how the calls were counted.
func (w *manyWorld) counts() string {
	s := w.c.Stats()
	return fmt.Sprint(w.acquired.Load(), w.failed.Load(), w.released.Load(), s.Calls, s.Held)
}

// TestManyIsALoopOfTryLock: for distinct names it has the results, hooks and counts of a loop.
func TestManyIsALoopOfTryLock(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t)
	worlds := []*manyWorld{newManyWorld(t, s, "loop:"), newManyWorld(t, s, "many:")}
	rivals := []*lock.Client{fixture.ClientOf(t, s, lock.Config{KeyPrefix: "loop:"}), fixture.ClientOf(t, s, lock.Config{KeyPrefix: "many:"})}
	const free, ofRival, ofOwner, noLock, badName, states = 0, 1, 2, 3, 4, 5
	rapid.Check(t, func(r *rapid.T) {
		kinds := rapid.SliceOfN(rapid.IntRange(0, states-1), 0, 40).Draw(r, "states")
		owned, ended := rapid.Bool().Draw(r, "owner"), rapid.IntRange(0, 9).Draw(r, "ended") == 0
		names := make([]string, len(kinds))
		for i, kind := range kinds {
			if names[i] = fmt.Sprint("n", i); kind == badName {
				names[i] = strings.Repeat("x", 65<<10+i)
			}
		}
		var says [2][]string
		var counts [2]string
		for i, w := range worlds {
			ctx := context.Background()
			if owned {
				ctx = lock.WithOwner(ctx, "owner")
			}
			var before []*lock.Held
			for k, kind := range kinds {
				switch kind {
				case ofRival:
					before = append(before, fixture.Hold(t, rivals[i].Mutex(names[k]).Lock))
				case ofOwner:
					held, err := w.c.Mutex(names[k]).Lock(ctx)
					require.NoError(t, err)
					before = append(before, held)
				case noLock:
					fixture.Do(t, s, "RPUSH", w.prefix+names[k], "x")
				}
			}
			asking, cancel := context.WithCancel(ctx)
			if ended {
				cancel()
			}
			tries := make([]lock.Try, len(names))
			if i == 1 {
				tries = w.c.TryLockMany(asking, names)
			} else {
				for k, name := range names {
					tries[k].Held, tries[k].Err = w.c.Mutex(name).TryLock(asking)
				}
			}
			cancel()
			for _, try := range tries {
				says[i] = append(says[i], w.describe(try.Held, try.Err))
			}
			helds := append(heldOf(tries), before...)
			errs := make([]error, len(helds))
			if i == 1 {
				errs = lock.UnlockMany(ctx, helds)
			} else {
				for k, held := range helds {
					errs[k] = held.Unlock(ctx)
				}
			}
			for _, err := range errs {
				says[i] = append(says[i], fmt.Sprint(err))
			}
			for k, kind := range kinds {
				if kind == noLock {
					fixture.Do(t, s, "DEL", w.prefix+names[k])
				}
			}
			counts[i] = w.counts()
		}
		require.Equal(r, says[0], says[1])
		require.Equal(r, counts[0], counts[1])
		require.Empty(r, fixture.LockKeys(t, s))
	})
}

// TestANameThatOccursTwiceIsTriedInItsOrder: the first one gets it, and of one owner the second
// re-enters.
func TestANameThatOccursTwiceIsTriedInItsOrder(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	for range 20 {
		prefix := fixture.KeyOf(t)
		// On a busy machine an answer may take longer than the default allows.
		c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: prefix, Lease: 2 * time.Minute, IOTimeout: 10 * time.Second, UnlockTimeout: 10 * time.Second})
		names := slices.Concat(fixture.Names("n", 50), fixture.Names("n", 50))
		tries := c.TryLockMany(t.Context(), names)
		for i, try := range tries {
			require.Equal(t, i >= 50, errors.Is(try.Err, lock.ErrNotAcquired), "%d: %v", i, try.Err)
		}
		requireGivenBack(t, s, prefix+"n", tries)

		tries = c.TryLockMany(lock.WithOwner(t.Context(), "o"), names)
		for i, try := range tries {
			require.NoError(t, try.Err)
			require.Equal(t, 2, try.Held.Count())
			require.Equal(t, tries[i%50].Held.Token(), try.Held.Token())
		}
		require.EqualValues(t, 50, c.Stats().Calls[lock.OutcomeReentered])
		requireGivenBack(t, s, prefix+"n", tries)

		held := fixture.Hold(t, c.Mutex("n").Lock)
		errs := lock.UnlockMany(t.Context(), []*lock.Held{nil, held, nil, held})
		require.NoError(t, errors.Join(errs[:3]...))
		require.ErrorIs(t, errs[3], lock.ErrNotHeld)
	}
}

// TestAtMost512RequestsOfManyAreUnderWay: there are no more goroutines either, and the end of the
// context leaves neither these nor a lock behind.
func TestAtMost512RequestsOfManyAreUnderWay(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		require.NoError(t, fixture.Hold(t, c.Mutex("first").Lock).Unlock(t.Context()))
		before := runtime.NumGoroutine()
		require.NoError(t, s.Pause())
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		done := make(chan []lock.Try)
		go func() { done <- c.TryLockMany(ctx, fixture.Names("n:", 3000)) }()
		synctest.Wait()
		require.InDelta(t, before+512, runtime.NumGoroutine(), 100, "others of this process may come and go")
		cancel()
		unknown := 0
		for _, try := range <-done {
			require.ErrorIs(t, try.Err, context.Canceled)
			if fixture.IsNoAnswer(try.Err) {
				unknown++
			}
		}
		require.Equal(t, 512, unknown, "the others were not sent")
		require.NoError(t, s.Resume())
		require.Eventually(t, func() bool { return len(fixture.Keys(t, s, "n:*")) == 0 }, time.Minute, 100*time.Millisecond)
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Less(t, runtime.NumGoroutine(), before+100, "connections that are dialled again have theirs")
	})
}

// TestAContextThatEndsAmongManyLeavesNothing: Redis has exactly the locks whose tries succeeded
// before.
func TestAContextThatEndsAmongManyLeavesNothing(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var taken atomic.Int64
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Minute, Hooks: lock.Hooks{Acquired: func(lock.Event) {
		if taken.Add(1) == 1000 {
			cancel()
		}
	}}})
	tries := c.TryLockMany(ctx, fixture.Names("n:", 5000))
	helds := heldOf(tries)
	require.GreaterOrEqual(t, len(helds), 1000)
	require.Less(t, len(helds), 1000+512)
	require.EqualValues(t, len(helds), taken.Load())
	for _, try := range tries {
		require.True(t, try.Held != nil && try.Held.Valid() || errors.Is(try.Err, context.Canceled), "%v", try.Err)
	}
	require.Eventually(t, func() bool { return len(fixture.Keys(t, s, "n:*")) == len(helds) }, time.Minute, 10*time.Millisecond)
	requireGivenBack(t, s, "n:", tries)
}

// TestUnknownOutcomesAmongManyAreOfTheirNamesAlone: they are given back by the client.
func TestUnknownOutcomesAmongManyAreOfTheirNamesAlone(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	var calls atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "acquire" && calls.Add(1)%100 == 0 {
			return faultproxy.LoseReply
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{Lease: 10 * time.Second, IOTimeout: 500 * time.Millisecond})
	tries := c.TryLockMany(t.Context(), fixture.Names("n:", 2000))
	unknown, notSent := 0, 0
	for i, try := range tries {
		if try.Err == nil {
			require.Equal(t, fmt.Sprint("n:", i), try.Held.Name())
			continue
		}
		if errors.Is(try.Err, lock.ErrNotSent) { // a dial took too long
			notSent++
			continue
		}
		require.ErrorIs(t, try.Err, lock.ErrUnknown)
		var err *lock.UnknownError
		require.ErrorAs(t, try.Err, &err)
		require.Equal(t, fmt.Sprint("n:", i), err.Name)
		unknown++
	}
	require.Positive(t, unknown)
	require.EqualValues(t, unknown+notSent, c.Stats().Calls[lock.OutcomeUnknown])
	requireGivenBack(t, s, "n:", tries)
}

// TestAServerThatIsPausedAmongManyMakesOutcomesUnknown, of every try and every Unlock. Nothing is
// left when the server goes on.
func TestAServerThatIsPausedAmongManyMakesOutcomesUnknown(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		tries := c.TryLockMany(t.Context(), fixture.Names("n:", 700))
		require.Len(t, heldOf(tries), 700)
		require.NoError(t, s.Pause())
		for _, try := range c.TryLockMany(t.Context(), fixture.Names("other:", 700)) {
			require.True(t, fixture.IsNoAnswer(try.Err), try.Err)
		}
		began := time.Now()
		errs := lock.UnlockMany(t.Context(), heldOf(tries))
		for _, err := range errs {
			require.ErrorIs(t, err, lock.ErrUnknown)
		}
		require.LessOrEqual(t, time.Since(began), 2*lock.DefaultUnlockTimeout)
		require.NoError(t, s.Resume())
		require.Eventually(t, func() bool { return len(fixture.Keys(t, s, "*:*")) == 0 }, time.Minute, 100*time.Millisecond)
	})
}

// TestCloseAmongManyRefusesWhatIsNotTakenYet, and waits until the locks that were taken
// are unlocked.
func TestCloseAmongManyRefusesWhatIsNotTakenYet(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	var c *lock.Client
	var taken atomic.Int64
	closed := make(chan error, 1)
	c = fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Minute, Hooks: lock.Hooks{Acquired: func(lock.Event) {
		if taken.Add(1) == 1000 {
			go func() { closed <- c.Close(bounded.Context(t)) }()
		}
	}}})
	tries := c.TryLockMany(t.Context(), fixture.Names("n:", 20000))
	helds := heldOf(tries)
	require.GreaterOrEqual(t, len(helds), 1000)
	require.Less(t, len(helds), 20000)
	for _, try := range tries {
		require.True(t, try.Held != nil || errors.Is(try.Err, lock.ErrClosed), "%v", try.Err)
	}
	require.NoError(t, errors.Join(lock.UnlockMany(t.Context(), helds)...))
	require.NoError(t, bounded.Receive(t, closed))
	require.Empty(t, fixture.Keys(t, s, "n:*"))
}
