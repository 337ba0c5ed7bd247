package locktable

import (
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
