package locktable

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// asker is a take. The test answers its tries.
type asker struct {
	take
	tries  atomic.Int64
	answer chan bool // true: the fakeRedis answers; false: the try is refused
	got    <-chan error
}

func (a *asker) Try(ctx context.Context) wire.Outcome {
	a.tries.Add(1)
	select {
	case granted := <-a.answer:
		if granted {
			return a.take.Try(context.WithoutCancel(ctx))
		}
		return refused
	case <-ctx.Done():
		return wire.Outcome{Result: wire.Unknown, Cause: ctx.Err()}
	}
}

// startAsking begins a call for the lock "a". Its try waits for the channel answer.
func (c *client) startAsking(ctx context.Context, as owner.Owner, r Request) *asker {
	a := &asker{take: take{c: c, name: "a", as: as}, answer: make(chan bool)}
	got := make(chan error, 1)
	a.got = got
	r.Owner = as
	a.w = c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, a, r)
	go func() {
		defer a.w.End()
		got <- errorOf(ctx, a.w.Run(ctx))
	}()
	synctest.Wait()
	return a
}

// countAlone returns how many calls ask without a queue, and how many queues there are.
func (c *client) countAlone() (alone, queued int) {
	for i := range c.table.shards {
		s := &c.table.shards[i]
		s.mu.Lock()
		alone += len(s.alone)
		for range s.queues.all() {
			queued++
		}
		s.mu.Unlock()
	}
	return alone, queued
}

// playAlone runs f with a call that asks without a queue. The fakeRedis loses nothing.
func playAlone(t *testing.T, f func(t *testing.T, c *client, first *asker)) {
	play(t, func(t *testing.T, c *client) {
		c.redis.losesNothing = true
		first := c.startAsking(t.Context(), ownerOf(1), Request{})
		alone, queued := c.countAlone()
		require.Equal(t, []int{1, 0}, []int{alone, queued})
		require.Equal(t, Counts{Queues: 1}, c.counts())
		f(t, c, first)
		synctest.Wait()
		alone, queued = c.countAlone()
		require.Equal(t, []int{0, 0}, []int{alone, queued})
		require.Zero(t, c.counts())
	})
}

func TestACallThatMeetsNobodyTakesItsLockWithoutAQueue(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		first.answer <- true
		require.NoError(t, <-first.got)
		require.Equal(t, Counts{Held: 1}, c.counts())
		c.unlock(first.held)
	})
}

func TestCallsThatComeWhileOneAsksWithoutAQueueStandBehindIt(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		second := c.startAsking(t.Context(), ownerOf(2), Request{})
		third := c.startAsking(t.Context(), ownerOf(3), Request{})
		require.Equal(t, Counts{Queues: 1, Waiting: 2}, c.counts())
		first.answer <- false
		time.Sleep(time.Minute)
		require.Equal(t, []int64{2, 0, 0}, []int64{first.tries.Load(), second.tries.Load(), third.tries.Load()}, "it is still the first in line")
		for _, a := range []*asker{first, second, third} {
			if a == first {
				a.answer <- true
			}
			require.NoError(t, <-a.got)
			c.unlock(a.held)
		}
		require.Equal(t, []int64{2, 0, 0}, []int64{first.tries.Load(), second.tries.Load(), third.tries.Load()})
	})
}

func TestACallThatDoesNotWaitAsksBesideOneThatAsksWithoutAQueue(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		tries := c.startAsking(t.Context(), ownerOf(2), Request{NoWait: true})
		require.EqualValues(t, 1, tries.tries.Load())
		tries.answer <- false
		require.ErrorIs(t, <-tries.got, errFakeRefused)
		first.answer <- true
		require.NoError(t, <-first.got)
		c.unlock(first.held)
	})
}

func TestAnOwnerAsksOnceAlthoughItsFirstCallHasNoQueue(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		same := c.startAsking(t.Context(), ownerOf(1), Request{NoWait: true})
		require.Zero(t, same.tries.Load())
		first.answer <- false
		require.ErrorIs(t, <-same.got, errFakeRefused, "the answer is for both")
		time.Sleep(time.Minute)
		first.answer <- true
		require.NoError(t, <-first.got)
		c.unlock(first.held)
		require.Zero(t, same.tries.Load())
	})
}

func TestACallThatAsksWithoutAQueueWaitsForAHoldThatBecomesKnown(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		h := &fakeHold{of: c, name: "a", owner: ownerOf(2), past: new(Past), until: time.Now().Add(time.Hour)}
		require.True(t, c.redis.swapHolder("a", nil, h))
		require.True(t, c.table.Adopt(h, nil))
		first.answer <- false
		time.Sleep(time.Minute)
		require.EqualValues(t, 1, first.tries.Load())
		c.unlock(h)
		require.NoError(t, <-first.got)
		require.EqualValues(t, 1, first.tries.Load(), "it was handed over")
		c.unlock(first.held)
	})
}

// TestACallThatAsksWithoutAQueueIsHandedAHoldThatBecomesKnown, although its own request is still under way.
func TestACallThatAsksWithoutAQueueIsHandedAHoldThatBecomesKnown(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		h := &fakeHold{of: c, name: "a", owner: ownerOf(2), past: new(Past), until: time.Now().Add(time.Hour)}
		require.True(t, c.redis.swapHolder("a", nil, h))
		require.True(t, c.table.Adopt(h, nil))
		c.unlock(h)
		first.answer <- false
		time.Sleep(time.Second)
		require.EqualValues(t, 1, first.tries.Load())
		require.NoError(t, <-first.got)
		c.unlock(first.held)
	})
}

func TestCloseEndsACallThatAsksWithoutAQueue(t *testing.T) {
	for _, granted := range []bool{true, false} {
		playAlone(t, func(t *testing.T, c *client, first *asker) {
			require.Empty(t, c.table.Close())
			first.answer <- granted
			require.ErrorIs(t, <-first.got, errFakeClosed)
			require.ErrorIs(t, (&take{c: c, name: "a", as: ownerOf(2)}).run(t.Context(), Request{}), errFakeClosed)
		})
	}
}

func TestACallThatLeavesWhileItAsksWithoutAQueueLeavesNothing(t *testing.T) {
	playAlone(t, func(t *testing.T, c *client, first *asker) {
		first.answer <- true
		require.NoError(t, <-first.got)
		c.unlock(first.held)
		ctx, cancel := context.WithCancel(t.Context())
		second := c.startAsking(ctx, ownerOf(2), Request{})
		cancel()
		require.ErrorIs(t, <-second.got, context.Canceled)
		alone, queued := c.countAlone()
		require.Equal(t, []int{0, 0}, []int{alone, queued})

		for _, leaves := range []int{0, 1} { // the one that began alone, or the one behind it
			calls := make([]*asker, 2)
			cancels := make([]func(), 2)
			for i := range calls {
				ctx, cancels[i] = context.WithCancel(t.Context())
				calls[i] = c.startAsking(ctx, ownerOf(3+i), Request{})
			}
			cancels[leaves]()
			require.ErrorIs(t, <-calls[leaves].got, context.Canceled)
			stays := calls[1-leaves]
			stays.answer <- true
			require.NoError(t, <-stays.got)
			c.unlock(stays.held)
			cancels[1-leaves]()
			require.Zero(t, c.counts())
		}
	})
}

// TestTheQueueOfACallThatBeganAloneKnowsWhenThatWas: a queue keeps a distance between two tries,
// but not after the try of a call that does not wait.
func TestTheQueueOfACallThatBeganAloneKnowsWhenThatWas(t *testing.T) {
	for _, tries := range []bool{false, true} {
		play(t, func(t *testing.T, c *client) {
			c.redis.losesNothing = true
			time.Sleep(time.Minute)
			began := time.Now()
			first := c.startAsking(t.Context(), ownerOf(1), Request{NoWait: tries})
			next := c.startAsking(t.Context(), ownerOf(2), Request{})
			first.answer <- false
			if h := (&fakeHold{of: c, name: "a", owner: ownerOf(3)}); !tries {
				require.True(t, c.table.Adopt(h, nil))
				c.lose(h) // so that a try is due
				next, first = first, next
			}
			next.answer <- true
			apart := time.Since(began)
			require.NoError(t, <-next.got)
			c.unlock(next.held)
			err := <-first.got
			if tries {
				require.Zero(t, apart)
				require.ErrorIs(t, err, errFakeRefused)
				return
			}
			require.Equal(t, pace, apart)
			require.NoError(t, err)
			c.unlock(first.held)
		})
	}
}

func TestACallThatMeetsSomebodyHasAQueue(t *testing.T) {
	for name, meets := range map[string]func(c *client, s *shard[*fakeHold]){
		"a hold": func(c *client, _ *shard[*fakeHold]) {
			c.table.Adopt(&fakeHold{of: c, name: "a", owner: ownerOf(2), until: time.Now()}, nil)
		},
		"one of two holds": func(c *client, s *shard[*fakeHold]) {
			older := &fakeHold{of: c, name: "a", owner: ownerOf(2), until: time.Now()}
			c.table.Adopt(older, nil)
			newer := &fakeHold{of: c, name: "a", owner: ownerOf(3), until: time.Now()}
			c.table.Adopt(newer, nil)
			s.holds.remove(newer)
		},
		"a stranger": func(c *client, s *shard[*fakeHold]) {
			s.strangers.add("a", waitqueue.NewStrangers(&c.table.yielding, c.table.Now()), c.table.Now())
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				meets(c, c.table.shard("a"))
				ctx, cancel := context.WithCancel(t.Context())
				a := c.startAsking(ctx, ownerOf(1), Request{})
				alone, queued := c.countAlone()
				require.Equal(t, []int{0, 1}, []int{alone, queued})
				cancel()
				require.Error(t, <-a.got)
			})
		})
	}
}

func TestACallThatDoesNotWaitIsToldOfAnUnknownOutcomeAtOnce(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		began := time.Now()
		unknown := fakeCall{try: func() wire.Outcome { return unknown }}
		for _, busy := range []bool{false, true} {
			if busy {
				c.table.Adopt(&fakeHold{of: c, name: "a", owner: ownerOf(2), until: time.Now()}, nil)
			}
			w := c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, unknown, Request{Owner: ownerOf(1), NoWait: true})
			require.Error(t, errorOf(t.Context(), w.Run(t.Context())))
			w.End()
		}
		require.Zero(t, time.Since(began))
	})
}

// TestACallThatLeavesItsTrySaysWhatTheTryBeforeBrought: its error has the outcome of the earlier try,
// because the outcome of the try that it left is not known.
func TestACallThatLeavesItsTrySaysWhatTheTryBeforeBrought(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		ctx, cancel := context.WithCancel(t.Context())
		a := c.startAsking(ctx, ownerOf(1), Request{})
		a.answer <- false
		time.Sleep(time.Minute)
		require.EqualValues(t, 2, a.tries.Load())
		cancel()
		err := <-a.got
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, err, errFakeRefused)
	})
}
