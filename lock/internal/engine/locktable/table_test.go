package locktable

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// play runs f in virtual time, with a client of a fakeRedis.
func play(t *testing.T, f func(t *testing.T, c *client)) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		f(t, newClient(ctx, newRedis(1)))
	})
}

func newRedis(seed uint64) *fakeRedis {
	return &fakeRedis{random: rand.New(rand.NewPCG(seed, 0)), holder: map[string]*fakeHold{}, stolen: map[*fakeHold]bool{}}
}

// newClient returns a client of r. It unlocks the holds that its table passes on.
func newClient(ctx context.Context, r *fakeRedis) *client {
	c := &client{redis: r}
	c.table = newFake(ctx, func(h *fakeHold) {
		go func() {
			defer c.table.End(h.name)
			c.unlock(h)
		}()
	})
	return c
}

func ownerOf(i int) owner.Owner { return owner.Owner{ID: uint64(i) + 1} }

// begin starts a call that takes a lock, and returns a channel for its error.
func (a *take) begin(ctx context.Context, r Request) <-chan error {
	got := make(chan error, 1)
	go func() { got <- a.run(ctx, r) }()
	synctest.Wait()
	return got
}

func TestCallsGoOnWithTheHoldsOfTheirClient(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		ctx := t.Context()
		first := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(ctx, Request{}))
		require.Same(t, first.held, c.table.Live("a"))
		require.Same(t, first.held, c.table.Own("a", ownerOf(1), Exclusive))
		require.Nil(t, c.table.Own("a", ownerOf(2), Exclusive))

		second := &take{c: c, name: "a", as: ownerOf(2)}
		got := second.begin(ctx, Request{})
		require.Equal(t, Counts{Held: 1, Waiting: 1, Queues: 1}, c.counts())
		c.unlock(first.held)
		require.NoError(t, <-got)
		require.Same(t, second.held, c.table.Live("a"))
		require.NotSame(t, first.held, second.held)
		c.unlock(second.held)
		require.Zero(t, c.counts())
	})
}

// counts returns the Counts without HeldFor, which depends on time.
func (c *client) counts() Counts {
	n := c.table.Counts()
	n.HeldFor = 0
	return n
}

func TestWhatALossLeavesIsTriedForByTheFirstWhoWaits(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
		require.NoError(t, first.run(t.Context(), Request{}))
		got := second.begin(t.Context(), Request{})
		c.lose(first.held)
		require.NoError(t, <-got)
		c.unlock(second.held)
		require.Zero(t, c.counts())
	})
}

func TestAHoldThatWasLostBeforeItWasKnownIsForgotten(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		h := &fakeHold{name: "a", owner: ownerOf(1), ended: true}
		require.True(t, c.table.Adopt(h, nil))
		require.Zero(t, c.counts())
	})
}

// TestBothHoldsOfOneNameAreAskedAbout: Redis gives a client a lock that the client already holds. So one
// of the two holds is gone from Redis.
func TestBothHoldsOfOneNameAreAskedAbout(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		old, h := &fakeHold{name: "a", owner: ownerOf(1)}, &fakeHold{name: "a", owner: ownerOf(2)}
		require.True(t, c.table.Adopt(old, nil))
		require.Zero(t, old.timesConfirmed())
		require.True(t, c.table.Adopt(h, nil))
		require.Equal(t, []int{1, 1}, []int{old.timesConfirmed(), h.timesConfirmed()})
		c.table.Forget(old)
		require.Same(t, h, c.table.Live("a"), "it is not the hold of its name any more")
		c.table.Forget(h)
		require.Zero(t, c.counts())
	})
}

// twoHolds gives the client two holds of the name a, of the owners 1 and 2.
func (c *client) twoHolds(t *testing.T) (older, newer *fakeHold) {
	t.Helper()
	older, newer = &fakeHold{of: c, name: "a", owner: ownerOf(1)}, &fakeHold{of: c, name: "a", owner: ownerOf(2)}
	require.True(t, c.table.Adopt(older, nil))
	require.True(t, c.table.Adopt(newer, nil))
	return older, newer
}

// TestTheHoldOfANameThatComesLastNeedNotBeTheOneThatStays: a lock is deleted in Redis while the answer
// to its acquisition is under way. Another owner of the client takes it, and its answer arrives first. So
// Redis does not have the hold that the client adopts last.
func TestTheHoldOfANameThatComesLastNeedNotBeTheOneThatStays(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		stays, gone := c.twoHolds(t)
		require.Equal(t, Counts{Held: 2}, c.counts())
		require.ElementsMatch(t, []*fakeHold{stays, gone}, c.table.All(), "a move of keys is for both")
		require.Same(t, stays, c.table.Own("a", ownerOf(1), Exclusive))
		require.Same(t, gone, c.table.Own("a", ownerOf(2), Exclusive))

		c.table.Forget(gone)
		require.Equal(t, Counts{Held: 1}, c.counts())
		require.Same(t, stays, c.table.Live("a"))
		require.Same(t, stays, c.table.Own("a", ownerOf(1), Exclusive))
		c.table.Forget(gone)
		c.table.Forget(stays)
		require.Zero(t, c.counts())
		require.Empty(t, c.table.All())
	})
}

// TestAnOwnerReentersItsHoldAlthoughAnotherOfThatNameCameLater: if the owner did not find its hold, it
// would wait for itself.
func TestAnOwnerReentersItsHoldAlthoughAnotherOfThatNameCameLater(t *testing.T) {
	for name, forgotten := range map[string]bool{"while the other is there": false, "when the other has ended": true} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				first := &take{c: c, name: "a", as: ownerOf(1)}
				require.NoError(t, first.run(t.Context(), Request{}))
				gone := &fakeHold{of: c, name: "a", owner: ownerOf(2)}
				require.True(t, c.table.Adopt(gone, nil))
				if forgotten {
					c.table.Forget(gone)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				again := &take{c: c, name: "a", as: ownerOf(1)}
				require.NoError(t, again.run(ctx, Request{SharesOwner: true}))
				require.Equal(t, 1, again.reentries)
				c.table.Forget(gone)
				c.unlock(first.held)
				require.Zero(t, c.counts())
			})
		})
	}
}

// TestCloseTellsEachHoldOfOneName, and Idle is closed when all of them have ended.
func TestCloseTellsEachHoldOfOneName(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		older, newer := c.twoHolds(t)
		require.ElementsMatch(t, []*fakeHold{older, newer}, c.table.Close())
		c.table.Forget(newer)
		require.False(t, wait.Closed(c.table.Idle()))
		c.table.Forget(older)
		require.True(t, wait.Closed(c.table.Idle()))
	})
}

// TestEachHoldOfOneNameIsAskedAboutWhileACallSleepsBehindThem, because the table does not know which of
// the holds is in Redis.
func TestEachHoldOfOneNameIsAskedAboutWhileACallSleepsBehindThem(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		older, newer := c.twoHolds(t)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Error(t, (&take{c: c, name: "a", as: ownerOf(3)}).run(ctx, Request{}))
		require.GreaterOrEqual(t, older.timesConfirmed(), 12, "once in 5 s at least")
		require.Equal(t, older.timesConfirmed(), newer.timesConfirmed())
	})
}

// TestAHandOverLeavesTheOtherHoldOfItsName in the table.
func TestAHandOverLeavesTheOtherHoldOfItsName(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(t.Context(), Request{}))
		second := &take{c: c, name: "a", as: ownerOf(2)}
		got := second.begin(t.Context(), Request{})
		other := &fakeHold{of: c, name: "a", owner: ownerOf(3)}
		require.True(t, c.table.Adopt(other, nil))
		c.unlock(first.held)
		synctest.Wait()
		require.Same(t, other, c.table.Own("a", ownerOf(3), Exclusive))
		c.table.Forget(other)
		require.NoError(t, <-got)
		require.Same(t, second.held, c.table.Live("a"))
		c.unlock(second.held)
		require.Zero(t, c.counts())
	})
}

// TestACallThatLetsOthersGoFirstListens: after a run, a call waits before it tries, so that even a client
// without messages can try first. Meanwhile it listens, because the next holder publishes its release.
func TestACallThatLetsOthersGoFirstListens(t *testing.T) {
	for name, tc := range map[string]struct {
		end     RunEnd
		listens bool
	}{
		"one of them asks by and by":   {RunEnd{Others: 1, RoundTrip: time.Second, Awaited: true}, true},
		"all hear the message at once": {RunEnd{Others: 1, RoundTrip: time.Millisecond}, false},
		"there are none":               {RunEnd{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				listens, ears := false, c.table.cfg.Subscriber
				c.table.cfg.Subscriber = func(name string) *pubsub.Subscriber { listens = true; return ears(name) }
				first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
				require.NoError(t, first.run(t.Context(), Request{}))
				got := second.begin(t.Context(), Request{})
				first.held.set(&first.held.leaving)
				c.table.Leaving(first.held)
				c.redis.swapHolder("a", first.held, nil)
				c.table.ForgetAfter(first.held, tc.end)
				require.NoError(t, <-got)
				require.Equal(t, tc.listens, listens)
				c.unlock(second.held)
			})
		})
	}
}

// TestACallThatHearsNothingTriesAgainWhenItSays: a call without messages says with every try when it
// will try again, so that a busy client can leave the lock to it at that time. The times differ, so that
// clients do not collide. Two of them, with their tries, are less than two MaxPolls.
func TestACallThatHearsNothingTriesAgainWhenItSays(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		type try struct {
			at    time.Time
			again time.Duration
		}
		var tries []try
		var w *Waiter[*fakeHold]
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
		defer cancel()
		w = c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, fakeCall{try: func() wire.Outcome {
			_, again := w.Forecast()
			if tries = append(tries, try{time.Now(), again}); len(tries) == 1 {
				return unknown
			}
			return wire.Outcome{Result: wire.Refused, TTL: time.Hour, Next: -1}
		}}, Request{Owner: ownerOf(1)})
		defer w.End()
		require.ErrorIs(t, errorOf(ctx, w.Run(ctx)), context.DeadlineExceeded)
		require.Greater(t, len(tries), 100)
		for _, try := range tries[:2] {
			require.Zero(t, try.again, "it has not been refused yet")
		}
		tries = tries[1:]
		pacing, said := &c.table.pacing[waitqueue.Exclusive], map[time.Duration]bool{}
		for i, try := range tries[1 : len(tries)-1] {
			require.Equal(t, try.again, tries[i+2].at.Sub(try.at))
			require.GreaterOrEqual(t, try.again, pacing.Poll(1))
			require.LessOrEqual(t, try.again, pacing.Poll(0.2))
			said[try.again] = true
		}
		require.Greater(t, len(said), len(tries)/2)
	})
}

// TestAHoldIsAskedAboutWhileACallSleepsBehindIt, once in every MaxPoll.
func TestAHoldIsAskedAboutWhileACallSleepsBehindIt(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(t.Context(), Request{}))
		time.Sleep(time.Minute)
		require.Zero(t, first.held.timesConfirmed(), "nobody waits")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.Error(t, (&take{c: c, name: "a", as: ownerOf(2)}).run(ctx, Request{}))
		n := first.held.timesConfirmed()
		require.GreaterOrEqual(t, n, 12, "once in 5 s at least")
		require.LessOrEqual(t, n, 14)
		time.Sleep(time.Minute)
		require.Equal(t, n, first.held.timesConfirmed(), "nobody waits any more")
		c.unlock(first.held)
	})
}

// TestAHoldWhoseLockWasDeletedIsAskedAboutWhoeverHasIt: also if it is just being handed over.
func TestAHoldWhoseLockWasDeletedIsAskedAboutWhoeverHasIt(t *testing.T) {
	for _, when := range []string{"never", "before", "while it leaves", "after"} {
		t.Run(when, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
				require.NoError(t, first.run(t.Context(), Request{}))
				got := second.begin(t.Context(), Request{})
				deleted := func(now string) {
					if now == when {
						c.table.ConfirmHolds("a")
					}
				}
				deleted("before")
				first.held.set(&first.held.leaving)
				n := c.table.Leaving(first.held)
				deleted("while it leaves")
				next := &fakeHold{name: "a", owner: second.as, past: new(Past)}
				c.redis.swapHolder("a", first.held, next)
				c.table.Deliver(first.held, n.Next, next)
				deleted("after")
				require.NoError(t, <-got)
				require.Equal(t, when != "never", next.timesConfirmed() > 0, "a question about the first may have been answered")
				require.Equal(t, when != "never", next.IsDoubtful(), "it may be handed on before it was asked about")
				require.Equal(t, when == "before" || when == "while it leaves", first.held.timesConfirmed() > 0)
				c.unlock(next)
			})
		})
	}
}

// TestADoubtAboutAHoldThatWasHandedOverIsAboutTheNext: a call met the hold just before.
func TestADoubtAboutAHoldThatWasHandedOverIsAboutTheNext(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
		require.NoError(t, first.run(t.Context(), Request{}))
		got := second.begin(t.Context(), Request{})
		first.held.set(&first.held.leaving)
		n := c.table.Leaving(first.held)
		next := &fakeHold{name: "a", owner: second.as, past: new(Past)}
		c.redis.swapHolder("a", first.held, next)
		c.table.Deliver(first.held, n.Next, next)
		require.NoError(t, <-got)
		require.Zero(t, next.timesConfirmed())
		c.table.doubt(first.held)
		require.Equal(t, 1, next.timesConfirmed())
		require.True(t, next.IsDoubtful())
		c.unlock(next)
	})
}

// TestAHoldThatIsHandedOverBesideAnotherIsAskedAbout: the key was deleted, and a try of another call has taken
// the lock since the last Unlock of the hold began. Redis has at most one of the two.
func TestAHoldThatIsHandedOverBesideAnotherIsAskedAbout(t *testing.T) {
	for _, other := range []string{"none", "stays", "is gone again"} {
		beside := other != "none"
		play(t, func(t *testing.T, c *client) {
			first, second, third := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}, &take{c: c, name: "a", as: ownerOf(3)}
			require.NoError(t, first.run(t.Context(), Request{}))
			got := second.begin(t.Context(), Request{})
			first.held.set(&first.held.leaving)
			n := c.table.Leaving(first.held)
			next := &fakeHold{name: "a", owner: second.as, past: new(Past)}
			if beside {
				c.redis.swapHolder("a", first.held, nil)
				require.Equal(t, granted, third.Try(t.Context()))
			}
			if other == "is gone again" {
				c.unlock(third.held)
			}
			c.table.Deliver(first.held, n.Next, next)
			require.NoError(t, <-got)
			require.Equal(t, beside, next.timesConfirmed() > 0)
			require.Equal(t, beside, next.IsDoubtful())
			if other == "stays" {
				require.NotZero(t, third.held.timesConfirmed())
				c.unlock(third.held)
			}
			c.unlock(next)
		})
	}
}

// TestALockThatIsDeletedHasAllItsHoldsAskedAbout, because Redis may have had any of them.
func TestALockThatIsDeletedHasAllItsHoldsAskedAbout(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
		require.NoError(t, first.run(t.Context(), Request{}))
		c.redis.swapHolder("a", first.held, nil)
		require.Equal(t, granted, second.Try(t.Context()))
		before := []int{first.held.timesConfirmed(), second.held.timesConfirmed()}
		c.table.ConfirmHolds("a")
		require.Equal(t, []int{before[0] + 1, before[1] + 1}, []int{first.held.timesConfirmed(), second.held.timesConfirmed()})
		c.unlock(second.held)
		c.unlock(first.held)
	})
}

// TestAWaiterThatIsHandedTheLockWhileCloseBeginsDoesNotTakeItUntold: the lock is handed to the waiter
// just after it has checked that the client does not close.
func TestAWaiterThatIsHandedTheLockWhileCloseBeginsDoesNotTakeItUntold(t *testing.T) {
	for _, closes := range []bool{true, false} {
		t.Run(fmt.Sprint(closes), func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
				require.True(t, c.table.Begin("a", false)) // stands for an Unlock that is under way
				require.NoError(t, first.run(t.Context(), Request{}))
				w := c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, second, Request{Owner: second.as})
				require.Equal(t, waitqueue.DoWait, w.decide(t.Context()).Do)
				n := c.table.Leaving(first.held)
				require.Same(t, w, n.Next)
				next := &fakeHold{name: "a", owner: second.as, past: new(Past)}
				c.redis.swapHolder("a", first.held, next)
				if closes {
					require.Equal(t, []*fakeHold{first.held}, c.table.Close())
				}
				c.table.Deliver(first.held, w, next)
				require.Equal(t, closes, next.is(&next.closing), "another call of the owner may have re-entered it")
				err := errorOf(t.Context(), w.Run(t.Context()))
				if closes {
					require.ErrorIs(t, err, errFakeClosed)
					time.Sleep(time.Second) // long enough to pass the hold on and release it
					require.Zero(t, c.counts().Held)
					select {
					case <-c.table.Idle():
						require.Fail(t, "an Unlock goes on")
					default:
					}
					c.table.End("a")
					<-c.table.Idle()
				} else {
					require.NoError(t, err)
					require.Same(t, next, second.held)
					c.unlock(next)
				}
				w.End()
				require.Zero(t, c.counts())
			})
		})
	}
}

// TestARunGoesOnBehindALineThatWasDropped: the last holder of a run still belongs to the run, although no
// caller waits behind it and its queue is gone. So its client lets other clients go first. The next
// holder is not in the run.
func TestARunGoesOnBehindALineThatWasDropped(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
		require.NoError(t, first.run(t.Context(), Request{}))
		got := second.begin(t.Context(), Request{})
		c.unlock(first.held)
		require.NoError(t, <-got)
		require.Zero(t, c.counts().Queues)
		n := c.table.Leaving(second.held)
		require.Nil(t, n.Next)
		require.True(t, n.InRun)
		c.redis.swapHolder("a", second.held, nil)
		c.table.Forget(second.held)

		require.NoError(t, first.run(t.Context(), Request{}))
		require.False(t, c.table.Leaving(first.held).InRun, "the run has ended")
		c.redis.swapHolder("a", first.held, nil)
		c.table.Forget(first.held)
		require.Zero(t, c.counts())
	})
}

// TestACallSleepsUntilTheHoldOfItsOwnerHasEnded: it does not try again and again to re-enter a
// hold that is being unlocked.
func TestACallSleepsUntilTheHoldOfItsOwnerHasEnded(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(t.Context(), Request{}))
		other := &take{c: c, name: "a", as: ownerOf(2)}
		gotOther := other.begin(t.Context(), Request{})
		first.held.set(&first.held.leaving) // and the table does not know yet
		second := &take{c: c, name: "a", as: ownerOf(1)}
		got := second.begin(t.Context(), Request{})
		time.Sleep(time.Second)
		require.Equal(t, 1, second.reentries)
		c.unlock(first.held)
		require.NoError(t, <-gotOther)
		c.unlock(other.held)
		require.NoError(t, <-got)
		c.unlock(second.held)
		require.Zero(t, c.counts())
	})
}

// TestAQueueKnowsThatItsHoldIsBeingUnlocked, even if the queue is made after the release was sent.
func TestAQueueKnowsThatItsHoldIsBeingUnlocked(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(t.Context(), Request{}))
		first.held.set(&first.held.leaving)
		require.Nil(t, c.table.Leaving(first.held).Next)
		got := second.begin(t.Context(), Request{})
		time.Sleep(time.Second)
		require.Zero(t, second.reentries)
		c.redis.swapHolder("a", first.held, nil)
		c.table.Forget(first.held)
		require.NoError(t, <-got)
		c.unlock(second.held)
		require.Zero(t, c.counts())
	})
}

// TestACallThatWasAdmittedBeforeCloseGivesUp, although its queue is made when Close has begun.
func TestACallThatWasAdmittedBeforeCloseGivesUp(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		c.redis.swapHolder("a", nil, &fakeHold{name: "a", owner: ownerOf(9)}) // another client's
		require.True(t, c.table.Begin("a", true))
		require.Empty(t, c.table.Close())
		began := time.Now()
		call := &take{c: c, name: "a", as: ownerOf(1)}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.ErrorIs(t, call.run(ctx, Request{}), errFakeClosed)
		require.Zero(t, time.Since(began), "it asks nobody")
		c.table.End("a")
		<-c.table.Idle()
	})
}

func TestCloseIsOverWithTheLastHoldAndTheLastCall(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		first := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, first.run(t.Context(), Request{}))
		require.True(t, c.table.Begin("b", true))
		second := &take{c: c, name: "a", as: ownerOf(2)}
		got := second.begin(t.Context(), Request{})
		require.Equal(t, []*fakeHold{first.held}, c.table.Close())
		require.ErrorIs(t, <-got, errFakeClosed)
		require.False(t, c.table.Begin("b", true))
		require.True(t, c.table.Begin("b", false), "an Unlock is not refused")
		c.table.End("b")
		require.False(t, c.table.Adopt(&fakeHold{name: "c"}, nil))
		c.table.End("b")
		require.Empty(t, c.table.Idle())
		c.unlock(first.held)
		<-c.table.Idle()
		c.table.Wait()
	})
}

// TestACallIsCountedWithoutTheTable: to count a call takes no mutex of the table. So Lock of a free lock
// takes shard.mu twice, when it joins and when it adds its hold. Unlock takes it twice too.
func TestACallIsCountedWithoutTheTable(t *testing.T) {
	table := New(Config[*fakeHold]{Random: rand.New(rand.NewPCG(1, 1))})
	thaw := table.Freeze()
	defer thaw()
	require.True(t, table.Begin("a", true))
	require.True(t, table.Begin("a", false))
	table.End("a")
	table.End("a")
}

// TestCloseWaitsForEveryCallThatWasNotRefused, even if the call began at the same time as Close.
func TestCloseWaitsForEveryCallThatWasNotRefused(t *testing.T) {
	for range 300 {
		table := New(Config[*fakeHold]{Random: rand.New(rand.NewPCG(1, 1))})
		var idle atomic.Bool
		var calls sync.WaitGroup
		for i := range 4 {
			calls.Go(func() {
				for {
					if !table.Begin("a", true) {
						return
					}
					if i == 0 {
						runtime.Gosched()
					}
					if idle.Load() {
						t.Error("a call is under way")
					}
					table.End("a")
				}
			})
		}
		if rand.IntN(2) == 0 {
			runtime.Gosched()
		}
		table.Close()
		<-table.Idle()
		idle.Store(true)
		calls.Wait()
	}
}

func TestAReleaseWakesWhoWaitsForPermits(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		free := make(chan struct{})
		x := fakeCall{try: func() wire.Outcome {
			select {
			case <-free:
				return granted
			default:
				return refused
			}
		}}
		w := c.table.NewWaiter(Key{"s", waitqueue.Permits}, x, Request{})
		defer w.End()
		got := make(chan error, 1)
		go func() { got <- errorOf(t.Context(), w.Run(t.Context())) }()
		synctest.Wait()
		close(free)
		began := time.Now()
		c.table.Freed(Key{"s", waitqueue.Permits})
		require.NoError(t, <-got)
		require.Less(t, time.Since(began), time.Second, "it was woken, and did not poll")
	})
}

func TestWhoWatchesAnOwnerIsWokenByItsHolds(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		wake := make(chan struct{}, 1)
		unwatch := c.table.WatchOwner("a", ownerOf(1), wake)
		h := &fakeHold{name: "a", owner: ownerOf(2)}
		require.True(t, c.table.Adopt(h, nil))
		require.Empty(t, wake, "another's")
		c.table.Forget(h)
		mine := &fakeHold{name: "a", owner: ownerOf(1)}
		require.True(t, c.table.Adopt(mine, nil))
		require.Len(t, wake, 1)
		<-wake
		unwatch()
		c.table.Forget(mine)
		require.True(t, c.table.Adopt(mine, nil))
		require.Empty(t, wake)
		c.table.Forget(mine)
		require.Zero(t, c.counts())
	})
}

func TestHoldsThatShareANameAreFoundByTheirOwners(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		read, read2 := &fakeHold{name: "a", owner: ownerOf(1), mode: Reading}, &fakeHold{name: "a", owner: ownerOf(1), mode: Reading}
		write := &fakeHold{name: "a", owner: ownerOf(1), mode: Writing}
		for _, h := range []*fakeHold{read, read2, write} {
			require.True(t, c.table.Adopt(h, nil))
		}
		require.Same(t, read, c.table.Own("a", ownerOf(1), Reading))
		require.Same(t, write, c.table.Own("a", ownerOf(1), Writing))
		other := &fakeHold{name: "b", owner: ownerOf(1), mode: Reading}
		another := &fakeHold{name: "a", owner: ownerOf(2), mode: Reading}
		require.True(t, c.table.Adopt(other, nil) && c.table.Adopt(another, nil))
		c.table.Forget(other)
		c.table.Forget(another)
		read.set(&read.leaving)
		require.Same(t, read2, c.table.Own("a", ownerOf(1), Reading))
		require.ElementsMatch(t, []*fakeHold{read, read2, write}, c.table.All())
		for _, h := range []*fakeHold{read, read2, write} {
			c.table.Forget(h)
		}
		require.Nil(t, c.table.Own("a", ownerOf(1), Reading))
		require.Zero(t, c.counts())
	})
}

// unsent is a call whose re-entries are not sent, the first hundred times.
type unsent struct{ *take }

func (a unsent) Reenter(ctx context.Context, h *fakeHold) wire.Outcome {
	if a.reentries < 100 {
		a.reentries++
		return wire.Outcome{Result: wire.NotSent, Cause: errFakeUnknown}
	}
	return a.take.Reenter(ctx, h)
}

// TestAReentryThatIsNotSentEndsWhenItsClientIsClosing: Closing is closed before Close has told each
// shard. Until then the re-entry would be tried again and again without a pause.
func TestAReentryThatIsNotSentEndsWhenItsClientIsClosing(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		closing := make(chan struct{})
		c.table.cfg.Closing = closing
		held := &take{c: c, name: "a", as: ownerOf(1)}
		require.NoError(t, held.run(t.Context(), Request{}))
		again := unsent{&take{c: c, name: "a", as: ownerOf(1)}}
		w := c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, again, Request{Owner: ownerOf(1)})
		defer w.End()
		close(closing)
		require.ErrorIs(t, errorOf(t.Context(), w.Run(t.Context())), errFakeClosed)
		require.Equal(t, 1, again.reentries)
		c.unlock(held.held)
	})
}

// TestAWaiterLeavesALongLineAsQuicklyAsAShortOne: a walk along the line would be
// 40 times slower in the long one.
func TestAWaiterLeavesALongLineAsQuicklyAsAShortOne(t *testing.T) {
	for name, kind := range map[string]waitqueue.Kind{"Mutex": waitqueue.Exclusive, "others": waitqueue.Latch} {
		t.Run(name, func(t *testing.T) {
			table := newFake(t.Context(), nil)
			const leavers = 500
			// took returns how long the last waiters of a line of n take to leave it. It is the least of some runs.
			took := func(n int) time.Duration {
				least := time.Hour
				for range 3 {
					line := make([]*Waiter[*fakeHold], n)
					for i := range line {
						line[i] = table.NewWaiter(Key{"m", kind}, nil, Request{Owner: ownerOf(i)})
						line[i].decide(t.Context())
					}
					began := time.Now()
					for i := range leavers {
						line[n-1-i].leave()
					}
					least = min(least, time.Since(began))
					for i := range n - leavers {
						line[i].leave()
					}
				}
				return least
			}
			short, long := took(1000), took(20_000)
			require.Less(t, long, 10*short)
		})
	}
}

// TestClientsOfOneServerExcludeEachOther: the callers of two clients contend for two locks. They wait,
// try or leave. Holds are unlocked, handed over or lost, and some tries are not answered. No lock has
// two holders at a time, no call hangs, and nothing is left at the end.
func TestClientsOfOneServerExcludeEachOther(t *testing.T) {
	for seed := range uint64(20) { // package simulation runs thousands of seeds, with the scripts
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			server := newRedis(seed)
			clients := []*client{newClient(ctx, server), newClient(ctx, server)}
			const names, callers, turns = 2, 8, 6
			var wg sync.WaitGroup
			for i := range callers {
				random := rand.New(rand.NewPCG(seed, uint64(i)+1))
				c := clients[i%len(clients)]
				wg.Go(func() {
					for turn := range turns {
						a := &take{c: c, name: fmt.Sprint("lock ", random.IntN(names)), as: ownerOf(i*turns + turn)}
						within := ctx
						switch random.IntN(4) {
						case 0:
							var end context.CancelFunc
							within, end = context.WithTimeout(ctx, time.Duration(random.IntN(20_000))*time.Millisecond)
							defer end()
						}
						err := a.run(within, Request{NoWait: random.IntN(5) == 0})
						if err != nil {
							continue
						}
						server.mu.Lock()
						if h := server.holder[a.name]; h != a.held && h != nil && !server.stolen[a.held] {
							t.Errorf("seed %d: %s is held beside another", seed, a.name)
						}
						server.mu.Unlock()
						time.Sleep(time.Duration(random.IntN(50)) * time.Millisecond)
						switch {
						case a.held.IsLost(): // lost, so there is nothing to unlock
						case random.IntN(6) == 0:
							c.lose(a.held)
						default:
							c.unlock(a.held)
						}
					}
				})
			}
			thieves := rand.New(rand.NewPCG(seed, 0))
			wg.Go(func() { // deletes keys; a holder is told later, or has unlocked before
				for range 20 {
					time.Sleep(time.Duration(thieves.IntN(100)) * time.Millisecond)
					name := fmt.Sprint("lock ", thieves.IntN(names))
					server.mu.Lock()
					h := server.holder[name]
					server.mu.Unlock()
					if h != nil && server.steal(h) {
						time.Sleep(time.Duration(thieves.IntN(3)) * time.Millisecond)
						h.of.lose(h)
					}
				}
			})
			wg.Wait()
			synctest.Wait()
			for _, c := range clients {
				if n := c.counts(); n != (Counts{}) {
					t.Errorf("seed %d: left behind: %+v", seed, n)
				}
				require.Empty(t, c.table.Close())
				<-c.table.Idle()
				c.table.Wait()
			}
			require.Empty(t, server.holder, "seed %d", seed)
		})
	}
}

func TestQueuesAreVisitedInOneOrder(t *testing.T) {
	var s queues[*fakeHold]
	for i := range 100 {
		s.add(&queue[*fakeHold]{key: Key{fmt.Sprintf("%02d", (37*i)%100), waitqueue.Kind(i % 2)}})
	}
	var names [2][]string
	for q := range s.ordered() {
		names[q.key.Kind] = append(names[q.key.Kind], q.key.Name)
	}
	for _, of := range names {
		require.Len(t, of, 50)
		require.IsIncreasing(t, of)
	}
}

func TestHoldsThatShareANameAreVisitedInOneOrder(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		var all []*fakeHold
		for i := range 100 {
			h := &fakeHold{name: "a", owner: ownerOf((37 * i) % 100), mode: Reading}
			require.True(t, c.table.Adopt(h, nil))
			all = append(all, h)
		}
		visited := c.table.All()
		require.ElementsMatch(t, all, visited)
		require.True(t, slices.IsSortedFunc(visited, func(a, b *fakeHold) int { return cmp.Compare(a.owner.ID, b.owner.ID) }))
		for _, h := range all {
			c.table.Forget(h)
		}
	})
}
