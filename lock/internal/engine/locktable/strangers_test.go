package locktable

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
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
	return s.strangers.near(name, c.table.Now()) != nil
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
		require.Nil(t, s.suspectLocked("a", now.Add(lookFor), true), "once in a while")
		require.Nil(t, s.suspectLocked("a", now.Add(lookEach), false))
		require.NotNil(t, s.suspectLocked("a", now.Add(lookEach), true))
		for _, name := range others {
			s.suspectLocked(name, now.Add(lookEach), true)
		}
		require.Len(t, s.suspected, mostStrangers)
		require.NotNil(t, s.suspectLocked(others[len(others)-1], now.Add(2*lookEach), true), "the others have expired")
		require.Len(t, s.suspected, 1)
	})
}
