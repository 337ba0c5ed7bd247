package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// withinLock is what TryLockWithin takes, of one client.
type withinLock struct {
	within func(context.Context, time.Duration) (unlock func(context.Context) error, err error)
}

// withinLocks are all objects that have TryLockWithin, by name, with their locks of a client.
func withinLocks(t *testing.T) map[string]func(c *lock.Client) withinLock {
	mutex := func(of func(*lock.Client) *lock.Mutex) func(*lock.Client) withinLock {
		return func(c *lock.Client) withinLock {
			return withinLock{func(ctx context.Context, d time.Duration) (func(context.Context) error, error) {
				held, err := of(c).TryLockWithin(ctx, d)
				if err != nil {
					require.Nil(t, held)
					return nil, err
				}
				return held.Unlock, nil
			}}
		}
	}
	multi := func(within func(context.Context, time.Duration) (*lock.MultiHeld, error)) withinLock {
		return withinLock{func(ctx context.Context, d time.Duration) (func(context.Context) error, error) {
			held, err := within(ctx, d)
			if err != nil {
				require.Nil(t, held)
				return nil, err
			}
			return held.Unlock, nil
		}}
	}
	return map[string]func(*lock.Client) withinLock{
		"Mutex":       mutex(func(c *lock.Client) *lock.Mutex { return c.Mutex("m") }),
		"FencedMutex": mutex(func(c *lock.Client) *lock.Mutex { return c.FencedMutex("m") }),
		"FairMutex":   mutex(func(c *lock.Client) *lock.Mutex { return c.FairMutex("m") }),
		"Writer":      mutex(func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Writer() }),
		"MultiLock": func(c *lock.Client) withinLock {
			m, err := lock.NewMultiLock(c.Mutex("m"), c.Mutex("n"))
			require.NoError(t, err)
			return multi(m.TryLockWithin)
		},
		"RedLock": func(c *lock.Client) withinLock {
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex("m"))
			require.NoError(t, err)
			return multi(r.TryLockWithin)
		},
	}
}

// TestTryLockWithinWaitsNoLonger than d, in virtual time: it takes a lock that is released meanwhile, and
// its error is TryLock's when d is over, and Lock's when its context ends.
func TestTryLockWithinWaitsNoLonger(t *testing.T) {
	for name, of := range withinLocks(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				a, b := of(srv.Client(lock.Config{})), of(srv.Client(lock.Config{}))
				ctx := t.Context()
				unlock, err := a.within(ctx, 0)
				require.NoError(t, err, "one try")
				for _, d := range []time.Duration{-1, 0, time.Nanosecond, time.Second, time.Minute} {
					began := time.Now()
					_, err = b.within(ctx, d)
					require.ErrorIs(t, err, lock.ErrNotAcquired, d)
					require.NotErrorIs(t, err, context.DeadlineExceeded, d)
					var held *lock.HeldError
					require.True(t, errors.As(err, &held) || name == "RedLock", "%v: %v", d, err)
					require.GreaterOrEqual(t, time.Since(began), d)
					require.LessOrEqual(t, time.Since(began), max(d, 0)+100*time.Millisecond)
				}

				// The context ends first.
				cancelled, cancel := context.WithCancel(ctx)
				time.AfterFunc(time.Second, cancel)
				_, err = b.within(cancelled, time.Minute)
				require.ErrorIs(t, err, context.Canceled)
				deadline, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				_, err = b.within(deadline, time.Minute)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				_, err = b.within(cancelled, time.Minute)
				require.ErrorIs(t, err, context.Canceled)

				time.AfterFunc(20*time.Second, func() { _ = unlock(context.Background()) })
				began := time.Now()
				unlock, err = b.within(ctx, time.Minute)
				require.NoError(t, err)
				require.Less(t, time.Since(began), 30*time.Second)
				time.Sleep(time.Hour) // it is renewed, though the time of the wait is over
				require.NoError(t, unlock(ctx))
			})
		})
	}
}

// TestARedLockIsWaitedForBehindOthersOfItsProcess: another call of the process waits for it.
func TestARedLockIsWaitedForBehindOthersOfItsProcess(t *testing.T) {
	red := withinLocks(t)["RedLock"]
	for _, gone := range []bool{false, true} { // whether the lock is unlocked in time, and the other call gives up
		t.Run(fmt.Sprint("gone ", gone), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				unlock, err := red(srv.Client(lock.Config{})).within(t.Context(), 0)
				require.NoError(t, err)
				l := red(srv.Client(lock.Config{}))
				other, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				if !gone {
					cancel()
					other, cancel = context.WithTimeout(t.Context(), time.Minute)
				}
				defer cancel()
				done := make(chan error, 1)
				go func() {
					_, err := l.within(other, time.Hour)
					done <- err
				}()
				synctest.Wait()
				if gone {
					time.AfterFunc(5*time.Second, func() { _ = unlock(context.Background()) })
				}
				began := time.Now()
				got, err := l.within(t.Context(), 10*time.Second)
				if gone {
					require.NoError(t, err)
					require.Less(t, time.Since(began), 10*time.Second)
					require.NoError(t, got(t.Context()))
				} else {
					require.ErrorIs(t, err, lock.ErrNotAcquired)
					require.Equal(t, 10*time.Second, time.Since(began).Round(time.Second))
				}
				require.Error(t, <-done)
			})
		})
	}
}

// TestARedLockIsNotSaidToBeHeldWhileNobodyAnswers: another call of the process waits for silent servers,
// and a call that does not wait must not pass it.
func TestARedLockIsNotSaidToBeHeldWhileNobodyAnswers(t *testing.T) {
	red := withinLocks(t)["RedLock"]
	for _, wait := range []time.Duration{time.Millisecond, 5 * time.Second} { // before and after the first answer is given up
		synctest.Test(t, func(t *testing.T) {
			srv := locktest.NewServer(t)
			l := red(srv.Client(lock.Config{}))
			unlock, err := l.within(t.Context(), 0)
			require.NoError(t, err)
			require.NoError(t, unlock(t.Context()))
			srv.Pause()
			other, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			done := make(chan error, 1)
			go func() {
				_, err := l.within(other, time.Hour)
				done <- err
			}()
			time.Sleep(wait)
			_, err = l.within(t.Context(), 0)
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			require.True(t, fixture.IsNoAnswer(err), "%v", err)
			require.Error(t, <-done)
			srv.Resume()
		})
	}
}

// TestTryLockWithinWithoutAnAnswer: the error is ErrUnknown or ErrNotSent, and not ErrNotAcquired.
func TestTryLockWithinWithoutAnAnswer(t *testing.T) {
	for name, of := range withinLocks(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				link := srv.Link()
				l := of(link.Client(lock.Config{}))
				link.Cut()
				began := time.Now()
				_, err := l.within(t.Context(), 10*time.Second)
				require.True(t, fixture.IsNoAnswer(err), "%v", err)
				require.NotErrorIs(t, err, context.DeadlineExceeded)
				require.LessOrEqual(t, time.Since(began), 10*time.Second+100*time.Millisecond)
				link.Mend()
				time.Sleep(time.Minute)
				unlock, err := l.within(t.Context(), time.Second)
				require.NoError(t, err)
				require.NoError(t, unlock(t.Context()))
			})
		})
	}
}

// TestTryLockWithinOnASilentServer: it has tried, so it makes no other try when the time is over.
func TestTryLockWithinOnASilentServer(t *testing.T) {
	for name, of := range withinLocks(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const d = 2500 * time.Millisecond
				srv := locktest.NewServer(t)
				l := of(srv.Client(lock.Config{}))
				unlock, err := l.within(t.Context(), d)
				require.NoError(t, err)
				require.NoError(t, unlock(t.Context()))
				srv.Pause()
				defer srv.Resume()
				began := time.Now()
				_, err = l.within(t.Context(), d)
				require.True(t, fixture.IsNoAnswer(err), "%v", err)
				require.LessOrEqual(t, time.Since(began), d+100*time.Millisecond)
			})
		})
	}
}

// TestTryLockWithinOnASlowServer, whose first answer comes when the time is over.
func TestTryLockWithinOnASlowServer(t *testing.T) {
	for name, of := range withinLocks(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				l := of(srv.Client(lock.Config{}))
				srv.SetDelay(300 * time.Millisecond)
				_, err := l.within(t.Context(), 100*time.Millisecond)
				require.True(t, fixture.IsNoAnswer(err), "%v", err)
			})
		})
	}
}

// TestTryLockWithinBehindOthersOfItsClient: others wait before it, so it makes its only try when its
// time is over.
func TestTryLockWithinBehindOthersOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		ctx, cancel := context.WithCancel(t.Context())
		_, err := srv.Client(lock.Config{}).Mutex("m").Lock(ctx)
		require.NoError(t, err)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { _, _ = c.Mutex("m").Lock(ctx) })
		}
		synctest.Wait()
		for _, d := range []time.Duration{0, time.Second} {
			_, err = c.Mutex("m").TryLockWithin(ctx, d)
			var held *lock.HeldError
			require.ErrorAs(t, err, &held)
		}
		cancel()
		wg.Wait()
	})
}

// TestTryLockWithinBehindACallWithoutAnAnswer: the call has made no try when its time is over, so it makes
// one. It must not report that the lock is held only because its own client waits for Redis.
func TestTryLockWithinBehindACallWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		srv.SetDelay(300 * time.Millisecond)
		var wg sync.WaitGroup
		wg.Go(func() {
			held, err := c.Mutex("m").Lock(t.Context())
			if err == nil {
				err = held.Unlock(t.Context())
			}
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		_, err := c.Mutex("m").TryLockWithin(t.Context(), 100*time.Millisecond)
		require.NotErrorIs(t, err, context.DeadlineExceeded)
		require.True(t, err == nil || errors.Is(err, lock.ErrNotAcquired) || fixture.IsNoAnswer(err), "%v", err)
		wg.Wait()
	})
}

// TestTryLockWithinCountsOnce: as refused, like TryLock.
func TestTryLockWithinCountsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, ctx := locktest.NewServer(t), t.Context()
		var failed []lock.Outcome
		c := srv.Client(lock.Config{Hooks: lock.Hooks{Failed: func(e lock.Event) { failed = append(failed, e.Outcome) }}})
		_, err := srv.Client(lock.Config{}).Mutex("m").Lock(ctx)
		require.NoError(t, err)
		for _, d := range []time.Duration{0, time.Second} {
			_, err := c.Mutex("m").TryLockWithin(ctx, d)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		ended, cancel := context.WithCancel(ctx)
		cancel()
		_, err = c.Mutex("m").TryLockWithin(ended, time.Hour)
		require.ErrorIs(t, err, context.Canceled)
		held, err := c.Mutex("free").TryLockWithin(ctx, time.Hour)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(ctx))
		require.Equal(t, map[lock.Outcome]uint64{lock.OutcomeRefused: 2, lock.OutcomeEnded: 1, lock.OutcomeAcquired: 1}, c.Stats().Calls)
		require.Equal(t, []lock.Outcome{lock.OutcomeRefused, lock.OutcomeRefused, lock.OutcomeEnded}, failed)
	})
}

// TestTryLockWithinIsWoken by a release of another process.
func TestTryLockWithinIsWoken(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for name, of := range withinLocks(t) {
		a, b := of(fixture.ClientOf(t, s, lock.Config{})), fixture.ClientOf(t, s, lock.Config{})
		ctx := bounded.Context(t)
		unlock, err := a.within(ctx, time.Hour)
		require.NoError(t, err, name)
		var wg sync.WaitGroup
		wg.Go(func() {
			unlock, err := of(b).within(ctx, time.Hour)
			if err == nil {
				err = unlock(ctx)
			}
			if err != nil {
				t.Error(name, err)
			}
		})
		require.NoError(t, unlock(ctx), name)
		bounded.Wait(t, &wg)
	}
}

// requireOneStory requires that each call has told its end once, and in Waited as in Acquired or Failed.
// The calls were made one after the other.
func requireOneStory(t *testing.T, events []toldEvent) {
	t.Helper()
	for i, e := range events {
		if e.hook != "waited" {
			continue
		}
		require.Less(t, i+1, len(events), "only Waited was called: %v", e)
		end := events[i+1]
		require.Equal(t, map[bool]string{true: "acquired", false: "failed"}[e.Err == nil], end.hook)
		require.Equal(t, end.Event, e.Event)
	}
}

// TestHooksTellOneEndOfTryLockWithin, in virtual time: Waited has the outcome and the error of Acquired or
// Failed, which are those that the caller gets.
func TestHooksTellOneEndOfTryLockWithin(t *testing.T) {
	locks := withinLocks(t)
	locks["Reader"] = func(c *lock.Client) withinLock {
		return withinLock{func(ctx context.Context, d time.Duration) (func(context.Context) error, error) {
			held, err := c.RWMutex("m").Reader().TryLockWithin(ctx, d)
			if err != nil {
				return nil, err
			}
			return held.Unlock, nil
		}}
	}
	for name, of := range locks {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv, ctx := locktest.NewServer(t), t.Context()
				var seen told
				l, holders := of(srv.Client(lock.Config{Hooks: seen.hooks()})), of
				if name == "Reader" {
					holders = locks["Writer"]
				}
				unlock, err := holders(srv.Client(lock.Config{})).within(ctx, 0)
				require.NoError(t, err)

				_, err = l.within(ctx, 50*time.Millisecond)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				events := seen.all()
				requireOneStory(t, events)
				one := name != "MultiLock" && name != "RedLock" // they make calls of their members
				if one {
					require.Len(t, events, 2)
					require.Equal(t, lock.OutcomeRefused, events[0].Outcome)
					require.Equal(t, err, events[0].Err)
					require.Equal(t, 50*time.Millisecond, events[0].Waited)
				}

				ended, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
				_, err = l.within(ended, time.Minute)
				cancel()
				require.ErrorIs(t, err, context.DeadlineExceeded)
				events = seen.all()
				requireOneStory(t, events)
				if one {
					require.Len(t, events, 2)
					require.Equal(t, lock.OutcomeEnded, events[0].Outcome)
					require.Equal(t, err, events[0].Err)
				}

				time.AfterFunc(20*time.Millisecond, func() { _ = unlock(context.Background()) })
				unlock, err = l.within(ctx, 10*time.Second)
				require.NoError(t, err)
				events = seen.all()
				requireOneStory(t, events)
				if one {
					require.Len(t, events, 2)
					require.Equal(t, lock.OutcomeAcquired, events[0].Outcome)
				}
				require.NoError(t, unlock(ctx))
			})
		})
	}
}

// TestHooksTellOneEndOfACallThatTriesWhenItsTimeIsOver, because another call of its client was before it.
// That try is refused, or re-enters.
func TestHooksTellOneEndOfACallThatTriesWhenItsTimeIsOver(t *testing.T) {
	for want, owner := range map[lock.Outcome]string{lock.OutcomeRefused: "another", lock.OutcomeReentered: "one"} {
		t.Run(want.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				var seen told
				c := srv.Client(lock.Config{Hooks: seen.hooks()})
				if want == lock.OutcomeRefused {
					_, err := srv.Client(lock.Config{}).Mutex("m").Lock(t.Context())
					require.NoError(t, err)
				} else {
					srv.SetDelay(300 * time.Millisecond)
				}
				before, cancel := context.WithCancel(lock.WithOwner(t.Context(), "one"))
				defer cancel()
				var wg sync.WaitGroup
				wg.Go(func() { _, _ = c.Mutex("m").Lock(before) })
				synctest.Wait()
				_, err := c.Mutex("m").TryLockWithin(lock.WithOwner(t.Context(), owner), 100*time.Millisecond)
				var ours []toldEvent
				for _, e := range seen.all() {
					if e.hook == "waited" || e.hook == "failed" {
						ours = append(ours, e)
					}
				}
				require.Len(t, ours, map[bool]int{true: 1, false: 2}[err == nil])
				for _, e := range ours {
					require.Equal(t, want, e.Outcome, e.hook)
					require.Equal(t, err, e.Err, e.hook)
				}
				cancel()
				wg.Wait()
				fixture.CloseNow(c)
			})
		})
	}
}

// TestAReentryThatHadToWaitIsNoAcquisition for Waited either.
func TestAReentryThatHadToWaitIsNoAcquisition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		var seen told
		c := srv.Client(lock.Config{Hooks: seen.hooks()})
		held, err := srv.Client(lock.Config{}).Mutex("m").Lock(t.Context())
		require.NoError(t, err)
		ctx := lock.WithOwner(t.Context(), "one")
		var wg sync.WaitGroup
		for range 2 {
			wg.Go(func() {
				if _, err := c.Mutex("m").TryLockWithin(ctx, time.Minute); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		wg.Wait()
		count := map[string]int{}
		for _, e := range seen.all() {
			count[e.hook+" "+e.Outcome.String()]++
		}
		require.Equal(t, map[string]int{"waited acquired": 1, "waited reentered": 1, "acquired acquired": 1}, count)
		fixture.CloseNow(c)
	})
}

// TestTryLockWithinWaitsWhenItsServerBecomesAReplica, which says MOVED in cluster mode.
func TestTryLockWithinWaitsWhenItsServerBecomesAReplica(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var tries atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "acquire" && tries.Add(1) > 1 {
			return faultproxy.Answer(redis.Error("MOVED 1 other:6379"))
		}
		return faultproxy.Pass
	})
	fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOver(t, p, lock.Config{MaxPoll: 200 * time.Millisecond})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		_, err := c.Mutex(t.Name()).TryLockWithin(ctx, bounded.Limit)
		ended <- err
	}()
	require.Eventually(t, func() bool { return tries.Load() > 3 || len(ended) > 0 }, bounded.Limit, 10*time.Millisecond)
	require.Empty(t, ended, "it goes on")
	cancel()
	require.ErrorContains(t, <-ended, "MOVED 1 other:6379")
	_, err := c.Mutex(t.Name()).TryLockWithin(bounded.Context(t), 300*time.Millisecond)
	require.ErrorContains(t, err, "MOVED 1 other:6379")
	_, err = c.Mutex(t.Name()).TryLock(bounded.Context(t))
	require.ErrorContains(t, err, "MOVED 1 other:6379", "who does not wait is told at once")
	require.True(t, lock.IsLastTry(redis.Error("MOVED 1 other:6379")), "no further try is made when the time is over")
}
