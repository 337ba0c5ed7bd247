package world_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
	"github.com/wheellock/wheellock/lock/script"
)

// withAndWithoutLimits runs f twice. Without limits, the user has no right to TIME, so requests carry no
// time limit, and the test must see the fault that the limits prevent.
func withAndWithoutLimits(t *testing.T, f func(t *testing.T, limits bool)) {
	t.Run("limits", func(t *testing.T) { t.Parallel(); f(t, true) })
	t.Run("no limits", func(t *testing.T) { t.Parallel(); f(t, false) })
}

// lateClient returns a client whose connections lead through a proxy. The first calls of the
// script code arrive after d; calls is their number. Calls of the scripts in never do not arrive.
// seen counts the calls of code. Without limits, the client may not send TIME.
func lateClient(t *testing.T, s *redistest.Server, limits bool, code string, calls int64, d time.Duration, never ...string) (c *lock.Client, seen *atomic.Int64) {
	seen = new(atomic.Int64)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Args[0] == "TIME" && !limits:
			return faultproxy.Answer(redis.Error("NOPERM no"))
		case c.Script == code && seen.Add(1) <= calls:
			return faultproxy.Late(d)
		case slices.Contains(never, c.Script):
			return faultproxy.LoseRequest
		}
		return faultproxy.Pass
	})
	return fixture.ClientOver(t, p, lock.Config{Lease: 30 * time.Second, IOTimeout: 800 * time.Millisecond}), seen
}

// requireLate requires that a late request changes nothing until a time, or without limits that it takes
// effect, later on a busy machine. get reads what is there. It is same before the late request, and changed after it.
func requireLate[T any](t *testing.T, limits bool, until time.Time, same, changed T, get func() T) {
	t.Helper()
	if limits {
		time.Sleep(time.Until(until))
		require.Equal(t, same, get())
		return
	}
	for end := time.Now().Add(time.Minute); !reflect.DeepEqual(get(), changed) && time.Now().Before(end); {
		time.Sleep(5 * time.Millisecond)
	}
	require.Equal(t, changed, get())
}

// TestALateAcquisitionLeavesNoLock: the caller has given up, so the late request must take
// nothing.
func TestALateAcquisitionLeavesNoLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for name, kind := range map[string]struct {
		script string
		of     func(c *lock.Client, name string) *lock.Mutex
	}{
		"mutex":  {"acquire", (*lock.Client).Mutex},
		"fenced": {"acquire", (*lock.Client).FencedMutex},
		"fair":   {"fair_take", (*lock.Client).FairMutex},
		"reader": {"rw_read", func(c *lock.Client, name string) *lock.Mutex { return c.RWMutex(name).Reader() }},
		"writer": {"rw_write", func(c *lock.Client, name string) *lock.Mutex { return c.RWMutex(name).Writer() }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withAndWithoutLimits(t, func(t *testing.T, limits bool) {
				// The server has the script, so the very first call would be carried out.
				key := fixture.KeyOf(t)
				held, err := kind.of(fixture.ClientOf(t, s, lock.Config{}), key).Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, held.Unlock(t.Context()))

				// Releases never arrive, so the lock stays, and a slow test sees it too.
				c, seen := lateClient(t, s, limits, kind.script, 1, 2*time.Second, "release", "fair_release", "rw_read_release", "rw_write_release")
				begun := time.Now()
				for seen.Load() == 0 { // on a busy machine the request may not have been sent in time
					ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
					begun = time.Now()
					_, err = kind.of(c, key).TryLock(ctx)
					cancel()
					require.Error(t, err)
				}
				ghost, limit := false, 4*time.Second
				if !limits { // the lock appears, later on a busy machine
					limit = time.Minute
				}
				for !ghost && time.Since(begun) < limit {
					ghost = fixture.Exists(t, s, key)
					time.Sleep(5 * time.Millisecond)
				}
				require.Equal(t, !limits, ghost)
			})
		})
	}
}

// TestALateGuardChangesNothing: the value of a later Guard stays.
func TestALateGuardChangesNothing(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	withAndWithoutLimits(t, func(t *testing.T, limits bool) {
		key := fixture.KeyOf(t)
		c, _ := lateClient(t, s, limits, "guard", 1, 2*time.Second)
		held, err := c.Mutex(key).Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		_, err = held.Guard(t.Context(), "SET", []string{key + ":value"}, "first")
		require.ErrorIs(t, err, lock.ErrUnknown)
		_, err = held.Guard(t.Context(), "SET", []string{key + ":value"}, "second")
		require.NoError(t, err)
		requireLate(t, limits, begun.Add(3*time.Second), "second", "first", func() string {
			value, err := redis.String(fixture.Do(t, s, "GET", key+":value"), nil)
			require.NoError(t, err)
			return value
		})
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// TestALateReentryBringsNoCountBack: a late re-entry must not make the count larger than the number of
// Helds.
func TestALateReentryBringsNoCountBack(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	withAndWithoutLimits(t, func(t *testing.T, limits bool) {
		key := fixture.KeyOf(t)
		c, _ := lateClient(t, s, limits, "reenter", 1, 2*time.Second)
		held, err := c.Mutex(key).Lock(t.Context())
		require.NoError(t, err)
		begun := time.Now()
		ctx := held.Context(t.Context())
		short, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		_, err = c.Mutex(key).TryLock(short)
		require.Error(t, err)
		require.NoError(t, held.Extend(t.Context(), time.Minute)) // sets the count to 1
		requireLate(t, limits, begun.Add(3*time.Second), []string{"1"}, []string{"2"}, func() []string {
			return slices.Collect(maps.Values(fixture.Hash(t, s, key)))
		})
		require.NoError(t, held.Unlock(t.Context()))
		require.False(t, fixture.Exists(t, s, key))
	})
}

// TestALateCopyIsNotCarriedOutAgain: Redis remembers requests to semaphores and latches for
// 30 s, and this copy arrives later.
func TestALateCopyIsNotCarriedOutAgain(t *testing.T) {
	if fixture.IsBrief() {
		t.Skip("WHEELLOCK_FAULTS=all, for it takes half a minute")
	}
	t.Parallel()
	s := onRedis(t)
	const after = 32 * time.Second
	t.Run("semaphore", func(t *testing.T) {
		t.Parallel()
		withAndWithoutLimits(t, func(t *testing.T, limits bool) {
			c, _ := lateClient(t, s, limits, "semaphore_take", 1, after)
			sem := c.Semaphore(fixture.KeyOf(t))
			_, err := sem.TrySet(t.Context(), 10)
			require.NoError(t, err)
			begun := time.Now()
			require.NoError(t, sem.Acquire(t.Context(), 3))
			requireLate(t, limits, begun.Add(after+time.Second), 7, 4, func() int64 {
				free, err := sem.Available(t.Context())
				require.NoError(t, err)
				return free
			})
		})
	})
	t.Run("latch", func(t *testing.T) {
		t.Parallel()
		withAndWithoutLimits(t, func(t *testing.T, limits bool) {
			c, _ := lateClient(t, s, limits, "latch_down", 1, after)
			latch := c.CountDownLatch(fixture.KeyOf(t))
			_, err := latch.TrySet(t.Context(), 2)
			require.NoError(t, err)
			begun := time.Now()
			require.NoError(t, latch.CountDown(t.Context()))
			requireLate(t, limits, begun.Add(after+time.Second), 1, 0, func() int64 {
				left, err := latch.Count(t.Context())
				require.NoError(t, err)
				return left
			})
		})
	})
}

// TestAnExtensionWhoseAnswerIsLostEndsWithItsHold: Redis keeps the key for the
// extended lease, but the client does not know, so the holder loses the lock at the end of the old lease.
func TestAnExtensionWhoseAnswerIsLostEndsWithItsHold(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for _, code := range []*script.Script{script.Reenter, script.RwReadReenter, script.PermitExtend} {
		fixture.Do(t, s, "SCRIPT", "LOAD", code.Text()) // so that the lost answer is not NOSCRIPT
	}
	for name, lockFor := range map[string]func(c *lock.Client, key string) (*lock.Held, error){
		"mutex": func(c *lock.Client, key string) (*lock.Held, error) {
			return c.Mutex(key).LockFor(context.Background(), time.Second)
		},
		"fair": func(c *lock.Client, key string) (*lock.Held, error) {
			return c.FairMutex(key).LockFor(context.Background(), time.Second)
		},
		"writer": func(c *lock.Client, key string) (*lock.Held, error) {
			return c.RWMutex(key).Writer().LockFor(context.Background(), time.Second)
		},
		"reader": func(c *lock.Client, key string) (*lock.Held, error) {
			return c.RWMutex(key).Reader().LockFor(context.Background(), time.Second)
		},
		"permit": func(c *lock.Client, key string) (*lock.Held, error) {
			if _, err := c.PermitSemaphore(key).TrySet(context.Background(), 1); err != nil {
				return nil, err
			}
			return c.PermitSemaphore(key).AcquireFor(context.Background(), 1, time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := fixture.KeyOf(t)
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				switch c.Script {
				case "reenter", "rw_read_reenter", "permit_extend":
					return faultproxy.LoseReply
				}
				return faultproxy.Pass
			})
			c := fixture.ClientOver(t, p, lock.Config{IOTimeout: time.Second})
			held, err := lockFor(c, key)
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			defer cancel()
			require.ErrorIs(t, held.Extend(ctx, time.Hour), lock.ErrUnknown)
			<-held.Done()
			require.Eventually(t, func() bool {
				if name == "permit" { // the key of an expired permit may still exist
					info, err := c.PermitSemaphore(key).Inspect(t.Context())
					return err == nil && info.Taken == 0
				}
				return !fixture.Exists(t, s, key)
			}, 10*time.Second, time.Millisecond)
		})
	}
}

// TestAHandOverWhoseAnswerIsLostLeavesNoLock, although the server then cannot be reached until
// Unlock gives up.
func TestAHandOverWhoseAnswerIsLostLeavesNoLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	fixture.Do(t, s, "SCRIPT", "LOAD", script.Handoff.Text())
	key := fixture.KeyOf(t)
	var down atomic.Bool
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Script == "handoff":
			down.Store(true)
			return faultproxy.LoseReply
		case down.Load():
			return faultproxy.LoseRequest
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{Lease: 30 * time.Second, IOTimeout: 250 * time.Millisecond, UnlockTimeout: time.Second})
	held, err := c.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		held, err := c.Mutex(key).Lock(t.Context())
		if err == nil {
			err = held.Unlock(t.Context())
		}
		got <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	begun := time.Now()
	require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrUnknown)
	down.Store(false)
	require.NoError(t, <-got)
	require.Less(t, time.Since(begun), 20*time.Second, "it did not wait for the end of a lease")
}

// TestTheLastReleaseOfAnOrphanIsSentUntilItIsAnswered. The client sends the last release when the
// acquisition cannot be carried out any more. Here it is lost twice.
func TestTheLastReleaseOfAnOrphanIsSentUntilItIsAnswered(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	fixture.Do(t, s, "SCRIPT", "LOAD", script.Release.Text()) // so that one release is one call
	var releases atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch c.Script {
		case "acquire":
			return faultproxy.HangUp // the outcome is unknown at once, long before the time limit
		case "release":
			if n := releases.Add(1); n == 2 || n == 3 {
				return faultproxy.HangUp
			}
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 500 * time.Millisecond, FailFast: true})
	_, err := c.Mutex(fixture.KeyOf(t)).TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.Eventually(t, func() bool { return releases.Load() >= 4 }, time.Minute, time.Millisecond)
}

// TestAnOrphanWhoseLastReleaseIsNotAnsweredIsPaidOnce: the orphan counts once among the fields that must
// still be removed, so Close waits for the other fields too.
func TestAnOrphanWhoseLastReleaseIsNotAnsweredIsPaidOnce(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	for _, code := range []*script.Script{script.Acquire, script.Release} {
		fixture.Do(t, s, "SCRIPT", "LOAD", code.Text()) // so that one request is one call
	}
	first, second := fixture.KeyOf(t), fixture.KeyOf(t)+":second"
	var releases, givenUp atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Script == "acquire" && slices.Contains(c.Args, second):
			return faultproxy.LoseReply
		case c.Script == "acquire":
			return faultproxy.HangUp // the outcome is unknown at once, long before the time limit
		case c.Script == "release" && slices.Contains(c.Args, first) && releases.Add(1) > 1:
			givenUp.Store(time.Now().UnixNano())
			return faultproxy.HangUp
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 500 * time.Millisecond, UnlockTimeout: time.Minute, FailFast: true})
	_, err := c.Mutex(first).TryLockFor(t.Context(), time.Second)
	require.ErrorIs(t, err, lock.ErrUnknown)
	// The field is released again when its acquisition cannot be carried out any more, until its lease ends.
	require.Eventually(t, func() bool {
		return releases.Load() > 1 && time.Since(time.Unix(0, givenUp.Load())) > time.Second
	}, time.Minute, time.Millisecond)

	p.HoldBack("release")
	_, err = c.Mutex(second).TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.Eventually(t, func() bool { return p.Arrived("release") > 0 }, time.Minute, time.Millisecond)
	closed := make(chan error, 1)
	go func() { closed <- c.Close(t.Context()) }()
	select {
	case err := <-closed:
		t.Error("it did not wait")
		closed <- err
	case <-time.After(200 * time.Millisecond):
	}
	p.LetThrough()
	require.NoError(t, <-closed)
	require.False(t, fixture.Exists(t, s, second))
}

// counters are the objects of one client whose key is "x".
type counters struct {
	sem     *lock.Semaphore
	permits *lock.PermitSemaphore
	latch   *lock.CountDownLatch
	ids     []string // of the two permits that are taken, if the key exists before
}

// TestACallThatIsSentAgainTakesPlaceOnce: Redis carries a request out and its answer
// is lost. The request is sent again, and the caller gets the first answer.
func TestACallThatIsSentAgainTakesPlaceOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, x := range map[string]struct {
		script *script.Script
		exists bool // the key has 5 permits before, and two of them are taken
		call   func(counters) (any, error)
		answer any
		left   any // the value of the key; nil: there is none
	}{
		"Semaphore.TrySet":          {script.SemaphoreSet, false, func(c counters) (any, error) { return c.sem.TrySet(ctx, 5) }, true, "5"},
		"Semaphore.Add":             {script.SemaphoreAdd, true, func(c counters) (any, error) { return nil, c.sem.Add(ctx, -2) }, nil, "1"},
		"Semaphore.Acquire":         {script.SemaphoreTake, true, func(c counters) (any, error) { return nil, c.sem.Acquire(ctx, 1) }, nil, "2"},
		"Semaphore.Drain":           {script.SemaphoreTake, true, func(c counters) (any, error) { return c.sem.Drain(ctx) }, int64(3), "0"},
		"Semaphore.Release":         {script.SemaphoreAdd, true, func(c counters) (any, error) { return nil, c.sem.Release(ctx, 2) }, nil, "5"},
		"Semaphore.ReleaseIfExists": {script.SemaphoreRelease, true, func(c counters) (any, error) { return c.sem.ReleaseIfExists(ctx, 2) }, true, "5"},
		"Semaphore.Delete":          {script.SemaphoreDelete, true, func(c counters) (any, error) { return c.sem.Delete(ctx) }, true, nil},
		"PermitSemaphore.TrySet":    {script.SemaphoreSet, false, func(c counters) (any, error) { return c.permits.TrySet(ctx, 5) }, true, "5"},
		"PermitSemaphore.Set":       {script.PermitSet, true, func(c counters) (any, error) { return nil, c.permits.Set(ctx, 7) }, nil, "5"},
		"PermitSemaphore.Release":   {script.PermitFree, true, func(c counters) (any, error) { return nil, c.permits.Release(ctx, c.ids...) }, nil, "5"},
		"PermitSemaphore.SetLease":  {script.PermitSetLease, true, func(c counters) (any, error) { return nil, c.permits.SetLease(ctx, c.ids[0], time.Hour) }, nil, "3"},
		"PermitSemaphore.Delete":    {script.SemaphoreDelete, true, func(c counters) (any, error) { return c.permits.Delete(ctx) }, true, nil},
		"CountDownLatch.TrySet":     {script.LatchSet, false, func(c counters) (any, error) { return c.latch.TrySet(ctx, 5) }, true, "5"},
		"CountDownLatch.CountDown":  {script.LatchDown, true, func(c counters) (any, error) { return nil, c.latch.CountDown(ctx) }, nil, "2"},
		"CountDownLatch.Reset":      {script.LatchReset, true, func(c counters) (any, error) { return c.latch.Reset(ctx) }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := locktest.NewServer(t)
				link := s.Link()
				client := link.Client(lock.Config{})
				c := counters{sem: client.Semaphore("x"), permits: client.PermitSemaphore("x"), latch: client.CountDownLatch("x")}
				if x.exists {
					require.NoError(t, c.permits.Set(ctx, 5))
					held, err := c.permits.AcquireFor(ctx, 2, time.Hour)
					require.NoError(t, err)
					c.ids = held.Permits()
				}
				_, err := s.Do("SCRIPT", "LOAD", x.script.Text())
				require.NoError(t, err)
				before := link.Calls()[x.script.Name()]
				link.CutAfter(x.script.Name())
				answer, err := x.call(c)
				require.NoError(t, err)
				require.Equal(t, x.answer, answer)
				require.Equal(t, before+2, link.Calls()[x.script.Name()])
				left, err := s.Do("GET", "x")
				require.NoError(t, err)
				if left != nil {
					left = string(left.([]byte))
				}
				require.Equal(t, x.left, left)
			})
		})
	}
}
