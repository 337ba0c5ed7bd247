package lock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// deleted are the ways in which the key of a hold may be deleted.
var deleted = map[string]func(t *testing.T, s *redistest.Server, c, other *lock.Client, kind string){
	"own force":   func(t *testing.T, _ *redistest.Server, c, _ *lock.Client, kind string) { forceOf(t, c, kind) },
	"other force": func(t *testing.T, _ *redistest.Server, _, other *lock.Client, kind string) { forceOf(t, other, kind) },
	"DEL":         func(t *testing.T, s *redistest.Server, _, _ *lock.Client, _ string) { fixture.Do(t, s, "DEL", "m") },
}

// lockOf returns the lock m of a kind. For "writer, reader" the writer is held and the reader waits.
func lockOf(c *lock.Client, kind string) (held, waits *lock.Mutex) {
	rw := c.RWMutex("m")
	switch kind {
	case "fenced":
		return c.FencedMutex("m"), c.FencedMutex("m")
	case "fair":
		return c.FairMutex("m"), c.FairMutex("m")
	case "writer, reader":
		return rw.Writer(), rw.Reader()
	case "writer, writer":
		return rw.Writer(), rw.Writer()
	case "reader, writer":
		return rw.Reader(), rw.Writer()
	}
	return c.Mutex("m"), c.Mutex("m")
}

func forceOf(t *testing.T, c *lock.Client, kind string) {
	m, _ := lockOf(c, kind)
	ok, err := m.ForceUnlock(context.Background())
	require.NoError(t, err)
	require.True(t, ok)
}

// TestNobodyWaitsForAHoldWhoseKeyIsGone: a waiter of the holder's own client does not ask Redis, so the
// client must ask about the hold. Within MaxPoll the waiter goes on, and the holder is told.
func TestNobodyWaitsForAHoldWhoseKeyIsGone(t *testing.T) {
	takes := map[string]func(*lock.Mutex) (*lock.Held, error){
		"renewed": func(m *lock.Mutex) (*lock.Held, error) { return m.Lock(context.Background()) },
		"fixed":   func(m *lock.Mutex) (*lock.Held, error) { return m.LockFor(context.Background(), time.Hour) },
	}
	for how, take := range takes {
		for _, lease := range []time.Duration{0, 24 * time.Hour} {
			for _, kind := range []string{"mutex", "fenced", "fair", "writer, reader", "writer, writer", "reader, writer"} {
				for way, del := range deleted {
					name := fmt.Sprint(how, "/", lease, "/", kind, "/", way)
					t.Run(name, func(t *testing.T) {
						synctest.Test(t, func(t *testing.T) { requireGoneIsNoticed(t, lease, kind, take, del) })
					})
				}
			}
		}
	}
}

func requireGoneIsNoticed(t *testing.T, lease time.Duration, kind string, take func(*lock.Mutex) (*lock.Held, error),
	del func(t *testing.T, s *redistest.Server, c, other *lock.Client, kind string),
) {
	const poll = 5 * time.Second
	s, ctx := fixture.Virtual(t), context.Background()
	c, err := lock.New(s.Pool(0), lock.Config{Lease: lease, MaxPoll: poll})
	require.NoError(t, err)
	other, err := lock.New(s.Pool(0), lock.Config{})
	require.NoError(t, err)
	m, waits := lockOf(c, kind)
	held, err := take(m)
	require.NoError(t, err)
	got := make(chan *lock.Held, 2)
	for range 2 { // the second waiter is first in line once the first has the lock
		go func() {
			held, err := waits.Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		time.Sleep(7 * time.Second)
	}
	require.Empty(t, got)
	del(t, s, c, other, kind)
	gone := time.Now()
	next := <-got
	require.LessOrEqual(t, time.Since(gone), poll+10*time.Millisecond)
	if kind == "mutex" || kind == "fenced" {
		<-held.Done() // the client has asked Redis about the hold
		require.LessOrEqual(t, time.Since(gone), poll+10*time.Millisecond)
	}
	require.NoError(t, next.Unlock(ctx))
	require.NoError(t, (<-got).Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.NoError(t, other.Close(ctx))
	require.NoError(t, c.Close(ctx))
}

// countRenewed returns how many holds all renewal requests of c had together.
func countRenewed(c *lock.Client) int { return int(c.Stats().Renewal.Sizes.Sum) }

// requireToldSoon checks that holders are told of a loss within 100 ms, although no caller waits for
// their locks and no renewal is due.
func requireToldSoon(t *testing.T, helds ...*lock.Held) {
	t.Helper()
	time.Sleep(100 * time.Millisecond)
	for _, held := range helds {
		require.False(t, held.Valid())
		fixture.RequireLost(t, held, lock.NotOwner)
		require.ErrorIs(t, held.Unlock(context.Background()), lock.ErrLost)
	}
}

func TestForceUnlockTellsTheHoldersOfItsOwnClientAtOnce(t *testing.T) {
	for _, kind := range []string{"mutex", "fenced", "fair", "writer, reader", "reader, writer"} {
		for _, owner := range []string{"", "a:7:write", "12"} {
			t.Run(kind+"/"+owner, func(t *testing.T) {
				fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
					ctx := context.Background()
					if owner != "" {
						ctx = lock.WithOwner(ctx, owner)
					}
					m, _ := lockOf(c, kind)
					held, err := m.LockFor(ctx, time.Hour)
					require.NoError(t, err)
					helds := []*lock.Held{held}
					if kind == "reader, writer" {
						held, err = m.Lock(context.Background())
						require.NoError(t, err)
						helds = append(helds, held)
					}
					forceOf(t, c, kind)
					requireToldSoon(t, helds...)
				})
			})
		}
	}
}

// TestForceUnlockTellsAHolderWhoseOwnerIsOfAnotherClient: its field has the number of the owner alone.
func TestForceUnlockTellsAHolderWhoseOwnerIsOfAnotherClient(t *testing.T) {
	for _, kind := range []string{"mutex", "writer, reader", "reader, writer"} {
		fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, other *lock.Client) {
			ctx := context.Background()
			first, err := other.Mutex("first").Lock(ctx)
			require.NoError(t, err)
			m, _ := lockOf(c, kind)
			held, err := m.LockFor(first.Context(ctx), time.Hour)
			require.NoError(t, err)
			forceOf(t, c, kind)
			requireToldSoon(t, held)
			require.NoError(t, first.Unlock(ctx))
		})
	}
}

// TestForceUnlockOfALockThatIsGoneTellsItsHolder, although another client has deleted the lock before.
func TestForceUnlockOfALockThatIsGoneTellsItsHolder(t *testing.T) {
	for _, kind := range []string{"mutex", "writer, reader"} {
		fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
			m, _ := lockOf(c, kind)
			held, err := m.LockFor(context.Background(), time.Hour)
			require.NoError(t, err)
			fixture.Do(t, s, "DEL", "m")
			ok, err := m.ForceUnlock(context.Background())
			require.NoError(t, err)
			require.False(t, ok)
			requireToldSoon(t, held)
		})
	}
}

// TestWhoIsGivenALockHasADeadHoldBesideItAskedAbout: if a client that still has a hold of a lock gets
// the lock anew, it asks Redis about the earlier hold.
func TestWhoIsGivenALockHasADeadHoldBesideItAskedAbout(t *testing.T) {
	for _, kind := range []string{"mutex", "fenced", "fair"} {
		fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
			m, _ := lockOf(c, kind)
			held, err := m.LockFor(context.Background(), time.Hour)
			require.NoError(t, err)
			fixture.Do(t, s, "DEL", "m")
			next, err := m.TryLock(context.Background())
			require.NoError(t, err)
			requireToldSoon(t, held)
			require.True(t, next.Valid())
			require.Equal(t, 1, c.Stats().Held)
			require.NoError(t, next.Unlock(context.Background()))
		})
	}
}

// TestARefusalHasAnOwnHoldAskedAbout: another client may have the lock by now.
func TestARefusalHasAnOwnHoldAskedAbout(t *testing.T) {
	for _, kind := range []string{"mutex", "fenced", "fair"} {
		fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, other *lock.Client) {
			ctx := context.Background()
			m, _ := lockOf(c, kind)
			held, err := m.LockFor(ctx, time.Hour)
			require.NoError(t, err)
			fixture.Do(t, s, "DEL", "m")
			theirs, _ := lockOf(other, kind)
			next, err := theirs.Lock(ctx)
			require.NoError(t, err)
			_, err = m.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			requireToldSoon(t, held)
			require.NoError(t, next.Unlock(ctx))
		})
	}
}

// TestAnUpgradeThatIsRefusedHasTheReadHoldAskedAbout, because the read hold may be gone.
func TestAnUpgradeThatIsRefusedHasTheReadHoldAskedAbout(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := lock.WithOwner(context.Background(), "o")
		held, err := c.RWMutex("m").Reader().LockFor(ctx, time.Hour)
		require.NoError(t, err)
		fixture.Do(t, s, "DEL", "m")
		_, err = c.RWMutex("m").Writer().Lock(ctx)
		require.ErrorIs(t, err, lock.ErrUpgrade)
		requireToldSoon(t, held)
		writing, err := c.RWMutex("m").Writer().Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, writing.Unlock(ctx))
	})
}

// TestAHoldThatIsLivingIsAskedAboutOncePerMaxPoll however many calls it refuses, of
// however many names.
func TestAHoldThatIsLivingIsAskedAboutOncePerMaxPoll(t *testing.T) {
	fixture.SkipSlow(t)
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := context.Background()
		names := fixture.Names("n", 100)
		var helds []*lock.Held
		for _, name := range names {
			held, err := c.Mutex(name).LockFor(ctx, time.Hour)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		for round := 1; round <= 3; round++ {
			for range 10 {
				for _, name := range names {
					_, err := c.Mutex(name).TryLock(ctx)
					require.ErrorIs(t, err, lock.ErrNotAcquired)
				}
			}
			time.Sleep(5 * time.Second)
			require.Equal(t, 100*round, countRenewed(c))
		}
		for _, held := range helds {
			require.NoError(t, held.Unlock(ctx))
		}
	})
}

// TestHoldsBeforeWaitersAreAskedAboutInBatches: once in every MaxPoll, a renewal of each
// name, and a call for 128 of them.
func TestHoldsBeforeWaitersAreAskedAboutInBatches(t *testing.T) {
	fixture.SkipSlow(t)
	const locks, rounds = 4000, 4
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		names := fixture.Names("n", locks)
		var helds []*lock.Held
		for _, name := range names {
			held, err := c.Mutex(name).LockFor(ctx, time.Hour)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		ended := make(chan error, locks)
		for i, name := range names {
			if i%(locks/50) == 0 {
				time.Sleep(100 * time.Millisecond) // they come at any time
			}
			go func() {
				_, err := c.Mutex(name).Lock(ctx)
				ended <- err
			}()
		}
		time.Sleep(5 * time.Second)
		before := c.Stats()
		time.Sleep(rounds * 5 * time.Second)
		st := c.Stats().Since(before)
		require.InDelta(t, rounds*locks, float64(st.Renewal.Sizes.Sum), locks/4)
		require.LessOrEqual(t, int(st.Renewal.Batches), rounds*(8+locks/128))
		require.Equal(t, locks, st.Waiting)
		cancel()
		for range locks {
			require.ErrorIs(t, <-ended, context.Canceled)
		}
		time.Sleep(6 * time.Second)
		before = c.Stats()
		time.Sleep(time.Minute)
		require.Zero(t, c.Stats().Since(before).Renewal.Sizes.Sum, "nobody waits")
		for _, held := range helds {
			require.NoError(t, held.Unlock(context.Background()))
		}
	})
}

// TestWaitersBesideABusyServerCostNoLock: an answer that takes longer than MaxPoll counts.
func TestWaitersBesideABusyServerCostNoLock(t *testing.T) {
	fixture.Bubble(t, lock.Config{MaxPoll: 100 * time.Millisecond}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := context.Background()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		got := make(chan *lock.Held, 1)
		go func() {
			held, err := c.Mutex("m").Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		before := c.Stats()
		for range 240 {
			require.NoError(t, s.Pause())
			time.Sleep(500 * time.Millisecond)
			require.NoError(t, s.Resume())
			synctest.Wait()
		}
		require.True(t, held.Valid())
		require.Less(t, int(c.Stats().Since(before).Renewal.Sizes.Sum), 3*240, "at most one is under way")
		require.Zero(t, c.Stats().Renewal.Failed)
		require.NoError(t, s.Pause())
		time.Sleep(500 * time.Millisecond)
		require.NoError(t, s.Resume())
		fixture.Do(t, s, "DEL", "m")
		gone := time.Now()
		require.NoError(t, (<-got).Unlock(ctx))
		require.Less(t, time.Since(gone), 150*time.Millisecond)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	})
}

// An Extend, or a re-entry for longer, was carried out, and the answer was lost. The lock is lost in a
// long outage, and Redis has its key for longer than Config.Lease. It is given back nevertheless.
func TestWhatMayHaveALongLeaseIsGivenBackAfterALongOutage(t *testing.T) {
	for what, lengthen := range map[string]func(ctx context.Context, m *lock.Mutex, held *lock.Held) error{
		"extension": func(ctx context.Context, _ *lock.Mutex, held *lock.Held) error { return held.Extend(ctx, time.Hour) },
		"re-entry": func(ctx context.Context, m *lock.Mutex, held *lock.Held) error {
			_, err := m.LockFor(held.Context(ctx), time.Hour)
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				link := srv.Link()
				m := link.Client(lock.Config{}).Mutex("a")
				held, err := m.TryLock(t.Context())
				require.NoError(t, err)
				require.NoError(t, held.Extend(t.Context(), time.Minute)) // its script is known from now on
				for range 100 {
					link.CutAfter("reenter")
				}
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				require.Error(t, lengthen(ctx, m, held))
				link.Cut()
				time.Sleep(20 * time.Minute)
				require.ErrorIs(t, held.Err(), lock.ErrLost)
				require.Equal(t, []string{"a"}, srv.Locks())
				link.Mend()
				time.Sleep(time.Minute)
				require.Empty(t, srv.Locks())
			})
		})
	}
}

// TestAWriterIsGivenBackThatReadForLonger: after the reader is unlocked the lock keeps the reader's lease,
// and then the writer is lost in a long outage.
func TestAWriterIsGivenBackThatReadForLonger(t *testing.T) {
	for what, read := range map[string]func(ctx context.Context, m *lock.Mutex) (*lock.Held, error){
		"LockFor": func(ctx context.Context, m *lock.Mutex) (*lock.Held, error) { return m.LockFor(ctx, time.Hour) },
		"Extend": func(ctx context.Context, m *lock.Mutex) (*lock.Held, error) {
			held, err := m.Lock(ctx)
			if err != nil {
				return nil, err
			}
			return held, held.Extend(ctx, time.Hour)
		},
		"re-entry": func(ctx context.Context, m *lock.Mutex) (*lock.Held, error) {
			held, err := m.Lock(ctx)
			if err != nil {
				return nil, err
			}
			again, err := m.LockFor(ctx, time.Hour)
			if err != nil {
				return nil, err
			}
			return held, again.Unlock(ctx)
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				link := srv.Link()
				rw := link.Client(lock.Config{}).RWMutex("a")
				writing, err := rw.Writer().TryLock(t.Context())
				require.NoError(t, err)
				reading, err := read(writing.Context(t.Context()), rw.Reader())
				require.NoError(t, err)
				require.NoError(t, reading.Unlock(t.Context()))
				link.Cut()
				time.Sleep(20 * time.Minute)
				require.ErrorIs(t, writing.Err(), lock.ErrLost)
				require.Equal(t, []string{"a"}, srv.Locks())
				link.Mend()
				time.Sleep(time.Minute)
				require.Empty(t, srv.Locks())
			})
		})
	}
}

// TestNotSentIsSaidOnlyWhereNoTryWasSent: Redis may have carried out a try whose answer was lost,
// although another try of the same call was not sent.
func TestNotSentIsSaidOnlyWhereNoTryWasSent(t *testing.T) {
	calls := map[string]func(context.Context, *lock.Client, *lock.Held) error{
		"acquire": func(ctx context.Context, c *lock.Client, _ *lock.Held) error {
			_, err := c.Mutex("b").Lock(ctx)
			return err
		},
		"reenter": func(ctx context.Context, c *lock.Client, held *lock.Held) error {
			_, err := c.Mutex("a").Lock(held.Context(ctx))
			return err
		},
		"semaphore_take": func(ctx context.Context, c *lock.Client, _ *lock.Held) error {
			return c.Semaphore("c").Acquire(ctx, 1)
		},
	}
	tries := []struct {
		what  string
		begin func(link *locktest.Link, script string)
		want  error
	}{
		{"none was sent", func(link *locktest.Link, _ string) {
			link.Cut()
		}, lock.ErrNotSent},
		{"the first was sent", func(link *locktest.Link, script string) {
			link.CutAfter(script)
			time.AfterFunc(time.Millisecond, link.Cut)
		}, lock.ErrUnknown},
		{"the last was sent", func(link *locktest.Link, script string) {
			link.Cut()
			link.HangAfter(script)
			time.AfterFunc(2*time.Second, link.Mend)
		}, lock.ErrUnknown},
	}
	for script, call := range calls {
		for _, tr := range tries {
			t.Run(script+", "+tr.what, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					link := locktest.NewServer(t).Link()
					c := link.Client(lock.Config{})
					held, err := c.Mutex("a").TryLock(t.Context())
					require.NoError(t, err)
					tr.begin(link, script)
					time.Sleep(time.Microsecond) // the client has seen the cut
					ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
					defer cancel()
					err = call(ctx, c, held)
					require.ErrorIs(t, err, context.DeadlineExceeded)
					for _, e := range []error{lock.ErrNotSent, lock.ErrUnknown} {
						require.Equal(t, e == tr.want, errors.Is(err, e), "%v", err)
					}
					link.Mend()
				})
			})
		}
	}
}

// The first pass of a MultiLock gets no answer at its second member, and the second pass has no
// connection. Or another owner has that member in the first pass.
func TestAMultiLockSaysWhatItsLastTryAndItsDoubtSay(t *testing.T) {
	for what, isHeld := range map[string]bool{"not answered": false, "held": true} {
		for how, lockIt := range map[string]func(ctx context.Context, m *lock.MultiLock) (*lock.MultiHeld, error){
			"Lock": func(ctx context.Context, m *lock.MultiLock) (*lock.MultiHeld, error) { return m.Lock(ctx) },
			"TryLockWithin": func(ctx context.Context, m *lock.MultiLock) (*lock.MultiHeld, error) {
				deadline, _ := ctx.Deadline()
				return m.TryLockWithin(context.WithoutCancel(ctx), time.Until(deadline))
			},
		} {
			t.Run(what+"/"+how, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := locktest.NewServer(t)
					if isHeld {
						_, err := srv.Client(lock.Config{}).Mutex("b").Lock(t.Context())
						require.NoError(t, err)
					}
					link := srv.Link()
					c := link.Client(lock.Config{})
					srv.SetDelay(100 * time.Millisecond)
					m, err := lock.NewMultiLock(c.Mutex("a"), c.Mutex("b"))
					require.NoError(t, err)
					go func() {
						for link.Calls()["acquire"] == 0 {
							time.Sleep(time.Millisecond)
						}
						if !isHeld {
							link.CutAfter("acquire")
						}
						for link.Calls()["acquire"] == 1 {
							time.Sleep(time.Millisecond)
						}
						link.Cut()
					}()
					ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
					defer cancel()
					_, err = lockIt(ctx, m)
					t.Log(err)
					require.Equal(t, !isHeld, errors.Is(err, lock.ErrUnknown))
					require.Equal(t, isHeld, errors.Is(err, lock.ErrNotSent))
					require.NotErrorIs(t, err, lock.ErrNotAcquired)
					require.Equal(t, how == "Lock", errors.Is(err, context.DeadlineExceeded))
				})
			})
		}
	}
}

// TestNoRefusalHidesATryThatMayHaveBeenCarriedOut: the answer to the first try is lost, and the second
// try is refused, or has no time left.
func TestNoRefusalHidesATryThatMayHaveBeenCarriedOut(t *testing.T) {
	t.Run("count down", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			srv := locktest.NewServer(t)
			link := srv.Link()
			latch := link.Client(lock.Config{}).CountDownLatch("l")
			_, err := latch.TrySet(t.Context(), 3)
			require.NoError(t, err)
			link.CutAfter("latch_down")
			time.AfterFunc(time.Millisecond, func() {
				for _, command := range [][]any{{"FLUSHALL"}, {"HSET", "l", "x", "1"}} {
					if _, err := srv.Do(command[0].(string), command[1:]...); err != nil {
						t.Error(err)
					}
				}
			})
			err = latch.CountDown(t.Context())
			require.ErrorIs(t, err, lock.ErrUnknown)
		})
	})
	t.Run("re-entry", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			link := locktest.NewServer(t).Link()
			m := link.Client(lock.Config{}).Mutex("a")
			held, err := m.TryLock(t.Context())
			require.NoError(t, err)
			link.CutAfter("reenter")
			ctx, cancel := context.WithTimeout(held.Context(t.Context()), 500*time.Millisecond)
			defer cancel()
			_, err = m.Lock(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
		})
	})
	t.Run("extension", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			link := locktest.NewServer(t).Link()
			held, err := link.Client(lock.Config{MaxHold: time.Minute}).Mutex("a").TryLock(t.Context())
			require.NoError(t, err)
			require.NoError(t, held.Extend(t.Context(), time.Second)) // its script is known from now on
			link.CutAfter("reenter")
			time.Sleep(19 * time.Second)
			err = held.Extend(t.Context(), 41*time.Second-time.Millisecond)
			if err != nil {
				require.ErrorIs(t, err, lock.ErrUnknown)
			}
		})
	})
}

// TestASemaphoreWaitsForAConnection as long as its context, however long nothing can be sent.
func TestASemaphoreWaitsForAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		_, err := srv.Client(lock.Config{}).Semaphore("s").TrySet(t.Context(), 1)
		require.NoError(t, err)
		link := srv.Link()
		link.Cut()
		time.AfterFunc(40*time.Second, link.Mend)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, link.Client(lock.Config{}).Semaphore("s").Acquire(ctx, 1))
	})
}

// TestTryLockWithinHasABoundBehindABusyHold: a re-entry waits for the requests of its hold.
func TestTryLockWithinHasABoundBehindABusyHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		m := srv.Client(lock.Config{}).Mutex("a")
		held, err := m.TryLock(t.Context())
		require.NoError(t, err)
		srv.Pause()
		var extension sync.WaitGroup
		extension.Go(func() { _ = held.Extend(t.Context(), time.Minute) })
		synctest.Wait()
		began := time.Now()
		_, err = m.TryLockWithin(held.Context(t.Context()), 100*time.Millisecond)
		require.Error(t, err)
		require.LessOrEqual(t, time.Since(began), time.Second)
		srv.Resume()
		extension.Wait()
	})
}

// TestATryHasABoundBehindABusyHold: Extend repeats its request until Redis answers, and another script of the
// hold waits meanwhile.
func TestATryHasABoundBehindABusyHold(t *testing.T) {
	for way, try := range map[string]func(ctx context.Context, c *lock.Client) error{
		"TryLock": func(ctx context.Context, c *lock.Client) error { return errorOf(c.Mutex("a").TryLock(ctx)) },
		"TryLockFor": func(ctx context.Context, c *lock.Client) error {
			return errorOf(c.Mutex("a").TryLockFor(ctx, time.Second))
		},
		"TryLockMany": func(ctx context.Context, c *lock.Client) error {
			return c.TryLockMany(ctx, []string{"a"})[0].Err
		},
		"MultiLock": func(ctx context.Context, c *lock.Client) error {
			m, err := lock.NewMultiLock(c.Mutex("a"))
			require.NoError(t, err)
			return errorOf(m.TryLock(ctx))
		},
		"RedLock": func(ctx context.Context, c *lock.Client) error {
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true, MemberTimeout: lock.DefaultIOTimeout}, c.Mutex("a"))
			require.NoError(t, err)
			return errorOf(r.TryLock(ctx))
		},
	} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				c := srv.Client(lock.Config{})
				held, err := c.Mutex("a").LockFor(t.Context(), time.Hour)
				require.NoError(t, err)
				srv.Pause()
				var extension sync.WaitGroup
				extension.Go(func() { _ = held.Extend(t.Context(), time.Hour) })
				synctest.Wait()
				for range 5 { // at different steps of Extend
					began := time.Now()
					err = try(held.Context(t.Context()), c)
					require.LessOrEqual(t, time.Since(began), lock.DefaultIOTimeout)
					require.ErrorContains(t, err, "another request of this hold is not answered yet")
					require.NotErrorIs(t, err, lock.ErrNotAcquired)
					require.Equal(t, way == "RedLock", errors.Is(err, lock.ErrUnknown), "no member has refused")
					time.Sleep(300 * time.Millisecond)
				}
				srv.Resume()
				extension.Wait()
				require.NoError(t, try(held.Context(t.Context()), c))
			})
		})
	}
}

func errorOf[H any](_ H, err error) error { return err }

// TestATryIsBoundThoughItsTurnComesLate: the wait for the hold's turn and the request share the time.
func TestATryIsBoundThoughItsTurnComesLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		m := srv.Client(lock.Config{}).Mutex("a")
		held, err := m.LockFor(t.Context(), time.Hour)
		require.NoError(t, err)
		srv.SetDelay(350 * time.Millisecond)
		var extension sync.WaitGroup
		extension.Go(func() { _ = held.Extend(t.Context(), time.Hour) })
		synctest.Wait()
		began := time.Now()
		_, err = m.TryLock(held.Context(t.Context()))
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.Equal(t, lock.DefaultIOTimeout, time.Since(began))
		extension.Wait()
		require.NoError(t, held.Unlock(t.Context()))
		locked, err := m.IsLocked(t.Context())
		require.NoError(t, err)
		require.False(t, locked)
	})
}

// TestATryDoesNotOvertakeARequestThatMayStillRun: the connection of a Guard has failed, so Redis may get the
// Guard later than what is sent over another one.
func TestATryDoesNotOvertakeARequestThatMayStillRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		m := srv.Client(lock.Config{}).Mutex("a")
		held, err := m.Lock(t.Context())
		require.NoError(t, err)
		srv.Pause()
		_, err = held.Guard(t.Context(), "SET", []string{"x"}, 1)
		require.ErrorIs(t, err, lock.ErrUnknown)
		srv.Resume()
		began := time.Now()
		_, err = m.TryLock(held.Context(t.Context()))
		require.NoError(t, err)
		require.NotEqual(t, began, time.Now(), "it has waited, because an answer takes no time here")
	})
}

// TestAMultiLockWaitsForABusyHold: it has another member in hand, so it only tries the one that it re-enters.
func TestAMultiLockWaitsForABusyHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		m := srv.Client(lock.Config{}).Mutex("a")
		held, err := m.LockFor(t.Context(), time.Hour)
		require.NoError(t, err)
		both, err := lock.NewMultiLock(locktest.NewServer(t).Client(lock.Config{}).Mutex("0"), m) // in the order of names
		require.NoError(t, err)
		srv.Pause()
		var calls sync.WaitGroup
		calls.Go(func() { _ = held.Extend(t.Context(), time.Hour) })
		synctest.Wait()
		time.AfterFunc(10*time.Second, srv.Resume)
		all, err := both.Lock(held.Context(t.Context()))
		require.NoError(t, err)
		require.NoError(t, all.Unlock(t.Context()))
		calls.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// TestAHolderIsToldOfAForceUnlockThatWasNotAnswered, although Redis has carried it out and no caller asks
// again.
func TestAHolderIsToldOfAForceUnlockThatWasNotAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := locktest.NewServer(t).Link()
		reader := link.Client(lock.Config{}).RWMutex("a").Reader()
		held, err := reader.LockFor(t.Context(), time.Hour)
		require.NoError(t, err)
		link.CutAfter("rw_force")
		_, err = reader.ForceUnlock(t.Context())
		require.ErrorIs(t, err, lock.ErrUnknown)
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, held.Err(), lock.ErrLost)
	})
}

// The first Unlock is not answered, and the lease ends. It was held when Unlock began, so it is not lost.
func TestAnUnlockThatIsRepeatedAfterTheLeaseIsNoLoss(t *testing.T) {
	for what, between := range map[string]time.Duration{"before the lease ends": time.Second, "after the lease": time.Hour} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mu sync.Mutex
				var told []string
				note := func(what string) {
					mu.Lock()
					defer mu.Unlock()
					told = append(told, what)
				}
				link := locktest.NewServer(t).Link()
				c := link.Client(lock.Config{Hooks: lock.Hooks{
					Released: func(e lock.Event) { note(fmt.Sprint("released ", e.Err != nil)) },
					Lost:     func(lock.Event) { note("lost") },
				}})
				held, err := c.Mutex("a").Lock(t.Context())
				require.NoError(t, err)
				link.Cut()
				require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrUnknown)
				time.Sleep(between)
				link.Mend()
				time.Sleep(time.Minute) // the client has given the lock back by itself
				require.NoError(t, held.Unlock(t.Context()))
				synctest.Wait()
				require.Equal(t, []string{"released true", "released false"}, told)
				require.Empty(t, slices.DeleteFunc(slices.Collect(maps.Values(c.Stats().Lost)), func(n uint64) bool { return n == 0 }))
			})
		})
	}
}
