package locktable

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
)

// seeStranger has a client see a stranger at a name.
func (c *client) seeStranger(name string) {
	s, now := c.table.shard(name), c.table.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.strangers.add(name, waitqueue.NewStrangers(&c.table.yielding, now), now)
}

// believesInStrangers reports whether a client believes that a stranger waits for a name.
func (c *client) believesInStrangers(name string) bool {
	s := c.table.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.strangersLocked(name) != nil
}

// TestAStrangerIsForgottenAfterAPauseInVain: the client believes for a minute that a stranger waits.
// After a pause in which no stranger takes the lock, it believes that for a second only.
func TestAStrangerIsForgottenAfterAPauseInVain(t *testing.T) {
	for takes, believed := range map[int]bool{
		1: true, // there was no pause yet
		2: false,
	} {
		play(t, func(t *testing.T, c *client) {
			c.seeStranger("a")
			for i := range takes {
				a := &take{c: c, name: "a", as: ownerOf(i)}
				require.NoError(t, a.run(t.Context(), Request{}))
				c.unlock(a.held)
			}
			time.Sleep(2 * strangerKnown)
			require.Equal(t, believed, c.believesInStrangers("a"), "%d takes", takes)
		})
	}
}

// TestAStrangerIsForgottenWhenRedisKnowsOfNoWaiter: the script at the end of a run keeps the lock if the
// channel has no subscriber of another client. That has the effect of a pause in vain.
func TestAStrangerIsForgottenWhenRedisKnowsOfNoWaiter(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		c.seeStranger("a")
		first, second := &take{c: c, name: "a", as: ownerOf(1)}, &take{c: c, name: "a", as: ownerOf(2)}
		require.NoError(t, first.run(t.Context(), Request{}))
		got := second.begin(t.Context(), Request{})
		time.Sleep(10 * runBrief)
		c.unlock(first.held)
		synctest.Wait()
		require.NoError(t, <-got)
		time.Sleep(2 * strangerKnown)
		require.False(t, c.believesInStrangers("a"))
		c.unlock(second.held)
	})
}

// TestEachLockIsLeftToStrangersOfItsOwn: clients that compete for a lock must pause at the same release of
// it, whatever other locks each of them has.
func TestEachLockIsLeftToStrangersOfItsOwn(t *testing.T) {
	play(t, func(t *testing.T, c *client) {
		s := c.table.shard("a")
		var others []string // in the same shard
		for i := 0; len(others) < 2*mostStrangers; i++ {
			if name := fmt.Sprint(i); c.table.shard(name) == s {
				others = append(others, name)
			}
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		now := c.table.Now()
		require.NotNil(t, s.suspectLocked(others[0], now, true))
		require.NotNil(t, s.suspectLocked("a", now+1, true))
		require.Nil(t, s.suspectLocked("a", now.Add(lookDuration), true), "once in a while")
		require.Nil(t, s.suspectLocked("a", now.Add(lookInterval), false))
		require.NotNil(t, s.suspectLocked("a", now.Add(lookInterval), true))
		for _, name := range others {
			s.suspectLocked(name, now.Add(lookInterval), true)
		}
		require.Len(t, s.suspected, mostStrangers)
		require.NotNil(t, s.suspectLocked(others[len(others)-1], now.Add(2*lookInterval), true), "the others have expired")
		require.Len(t, s.suspected, 1)
	})
}

// crowd has a client see a stranger at a name, and that others take what is left to it.
func (c *client) crowd(name string) *waitqueue.Strangers {
	c.seeStranger(name)
	s, now := c.table.shard(name), c.table.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.strangersLocked(name)
	for ; !x.IsCrowded(); now++ {
		x.Freed(now, 2)
		c.overtake(x, now)
	}
	return x
}

// overtake has another take the lock just now.
func (c *client) overtake(x *waitqueue.Strangers, now waitqueue.Instant) {
	x.Overtaken(now, c.table.cfg.Lease)
	x.Refused(now, now, false)
}

// releaseAlone has the client take "a", and release it. Others are told, and no call of the client waits.
func releaseAlone(t *testing.T, c *client) {
	a := &take{c: c, name: "a", as: ownerOf(1)}
	require.NoError(t, a.run(t.Context(), Request{}))
	require.True(t, c.redis.swapHolder("a", a.held, nil))
	c.table.ForgetAfter(a.held, RunEnd{Others: 2, Suspects: true})
}

// asWaiter lets a waiter of "a" do something while it is the first in its queue.
func asWaiter(c *client, do func(w *Waiter[*fakeHold], now waitqueue.Instant)) {
	a := &take{c: c, name: "a", as: ownerOf(1)}
	w := c.table.NewWaiter(Key{"a", waitqueue.Exclusive}, a, Request{Owner: a.as})
	defer w.End()
	defer w.left()
	now := c.table.Now()
	w.shard.mu.Lock()
	w.shard.joinLocked(w)
	w.q.probe.Refused(now, w.q.probe.Began(now), waitqueue.Answer{TTL: time.Minute})
	w.shard.mu.Unlock()
	do(w, now)
}

// hearRelease has a waiter look after it has heard of a release, or has not.
func hearRelease(c *client, heard bool) {
	isLookTime := c.table.isTimeToLook("a")
	asWaiter(c, func(w *Waiter[*fakeHold], now waitqueue.Instant) {
		w.shard.mu.Lock()
		defer w.shard.mu.Unlock()
		if heard {
			w.q.probe.Hear(now, waitqueue.Heard{Messages: uint64(now)}) // more than after the release before
		}
		w.yieldUntilLocked(time.Time{}, false, now, isLookTime)
	})
}

// TestAClientLooksWhetherAStrangerGetsItsReleasesAgain: at one release at the beginning of each half second,
// although others have taken what was left to the stranger.
func TestAClientLooksWhetherAStrangerGetsItsReleasesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		release func(t *testing.T, c *client)
		looks   bool
	}{
		"after its own release, without waiters": {releaseAlone, true},
		"a waiter, after another's release":      {func(_ *testing.T, c *client) { hearRelease(c, true) }, true},
		"not a waiter that has heard of none":    {func(_ *testing.T, c *client) { hearRelease(c, false) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, client *client) {
				client.redis.losesNothing = true
				x, began := client.crowd("a"), time.Now()
				for at, looks := range []bool{true, false, false, false, true, false} {
					time.Sleep(time.Until(began.Add(time.Duration(at)*lookInterval/4 + time.Millisecond)))
					for range 2 {
						c.release(t, client)
						require.Equal(t, looks && c.looks, !x.IsCrowded(), at)
						client.overtake(x, client.table.Now())
						require.True(t, x.IsCrowded(), at)
						looks = false // once in a while
					}
				}
			})
		})
	}
}

// TestALookIsNoRule while strangers get what is left to them: it would count as if others had taken it.
func TestALookIsNoRule(t *testing.T) {
	for name, release := range map[string]func(t *testing.T, c *client){
		"alone": releaseAlone, "a waiter": func(_ *testing.T, c *client) { hearRelease(c, true) },
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, c *client) {
				c.redis.losesNothing = true
				c.seeStranger("a")
				s := c.table.shard("a")
				x := s.strangers["a"]
				time.Sleep(time.Millisecond)
				release(t, c)
				c.overtake(x, c.table.Now())
				require.False(t, x.IsCrowded())
			})
		})
	}
}

// TestAClientSeesByTheTTLThatItsPauseWasUsedByAnother, if that one has the same lease.
func TestAClientSeesByTheTTLThatItsPauseWasUsedByAnother(t *testing.T) {
	for name, c := range map[string]struct {
		ttl       time.Duration
		by        wire.Holder
		isCrowded bool
	}{
		"taken in the pause":          {time.Minute - 4*time.Millisecond, 0, true},
		"after it":                    {time.Minute, 0, false},
		"by a stranger, in the pause": {time.Minute - 4*time.Millisecond, wire.Stranger, false},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, func(t *testing.T, client *client) {
				client.seeStranger("a")
				x := client.table.shard("a").strangers["a"]
				for range 20 {
					x.Freed(client.table.Now(), 2)
					time.Sleep(5 * time.Millisecond)
					asWaiter(client, func(w *Waiter[*fakeHold], now waitqueue.Instant) {
						w.lastTryAt, w.stranger = now, c.by == wire.Stranger
						w.answered(wire.Outcome{Result: wire.Refused, TTL: c.ttl, By: c.by, Next: -1}, false)
					})
				}
				x.Freed(client.table.Now(), 2)
				client.overtake(x, client.table.Now())
				require.Equal(t, c.isCrowded, x.IsCrowded())
			})
		})
	}
}
