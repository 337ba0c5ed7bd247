package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Close ends the client:
//
//   - New locks are refused, and waiters get ErrClosed.
//   - Every holder is told by Done and Context (reason Closed).
//   - Close waits until all locks are unlocked or ctx ends. Until then the
//     client renews the locks.
//   - When ctx ends, the client leaves the locks that are still held to their
//     TTL. With Config.ReleaseOnClose it releases them in batches, on all servers
//     at once. It gives up a server that does not answer after
//     Config.UnlockTimeout.
//
// Close also waits until Redis has answered every request that takes a lock,
// even if its caller has left, and every release whose outcome is unknown
// (ErrUnknown of Unlock). A lock that is taken meanwhile is released again (P11).
// If the answer of a request that takes a lock was lost, Close waits until it can
// no longer be carried out: about Config.IOTimeout after it was sent. If the
// server does not tell its time, that is not known, and Close does not wait for
// it. These waits end when ctx ends, or after Config.UnlockTimeout and
// Config.IOTimeout together. With Config.ReleaseOnClose they do not end with ctx,
// and the error of Close says how many of these requests were not answered. It
// does not count them as locks that are held.
//
// Close returns ctx.Err() (errors.Is) if locks were still held when ctx ended,
// or if calls were still under way. The error says how many locks there were
// and what became of them. A lock whose release was not confirmed counts as not
// released. Another Close that waits meanwhile returns the same, even if its own
// ctx has not ended. A Close that begins afterwards does not say it again.
//
// At last, Close waits until Hooks.Lost, Hooks.Renewed and Config.Logger have
// been called for everything that happened, and have returned. If one of them
// still blocks when ctx ends, Close returns ctx.Err() (errors.Is), and the error
// names it (P18). Its goroutine ends when it returns. If ctx ended before, because locks
// were held until then, Close waits up to 3 s for them.
//
// When Close returns, no other goroutine of the client runs, except a dial that
// was under way. Close cancels the context of the dial and does not wait for it.
// A redis.DialContext ends at once, or at the end of a TLS handshake. A dial
// function without a context ends by its own timeouts. Close may be called
// twice and from many goroutines. After 10 s it logs that it waits, and for which
// lock.
func (c *Client) Close(ctx context.Context) error {
	isLater := wait.Closed(c.givenUp)
	if !c.closed.Swap(true) {
		close(c.closing)
		c.holds.BeginClose()
	}
	if !c.awaitIdle(ctx) {
		return errors.Join(c.endHeld(ctx, isLater), c.awaitUser(ctx))
	}
	limit := ctx
	if c.cfg.ReleaseOnClose {
		limit = context.WithoutCancel(ctx) // holds.Close itself ends after Config.UnlockTimeout and Config.IOTimeout
	}
	var left error
	if c.gaveUp.Load() && !isLater { // so nobody may have unlocked
		<-c.givenUp
		left = c.heldError(c.released+c.unreleased, c.endOfWait, "")
	}
	switch n := c.holds.Close(limit); {
	case left != nil:
	case n == 0 || !c.cfg.ReleaseOnClose:
	case wait.Ended(ctx) == nil:
		left = fmt.Errorf("lock: closed with no lock held, and %d requests were not answered in time, whose locks are left to their TTL: find out why Redis does not answer", n)
	default:
		left = fmt.Errorf("lock: closed with no lock held, and %d requests were not answered, whose locks are left to their TTL: %w: give Close more time", n, wait.Ended(ctx))
	}
	return errors.Join(left, c.awaitUser(ctx))
}

// closeWarnAfter is how long Close waits before it says so.
const closeWarnAfter = 10 * time.Second

// awaitIdle waits until there is neither hold nor call. It returns false if ctx ends before.
func (c *Client) awaitIdle(ctx context.Context) bool {
	if wait.Closed(c.table.Idle()) {
		return true
	}
	warn := time.NewTimer(closeWarnAfter)
	defer warn.Stop()
	for {
		select {
		case <-c.table.Idle():
			return true
		case <-ctx.Done():
			return false
		case <-warn.C:
			held, name := c.table.All(), ""
			if len(held) > 0 {
				name = held[0].Name()
			}
			c.telling.logger.Log(record.CloseWaits, len(held), name, closeWarnAfter)
		}
	}
}

// lastWords is how long Close waits for hooks and the Logger if its ctx has ended before.
const lastWords = 3 * time.Second

// awaitUser waits for the user's functions that run on goroutines of c, until ctx ends. If ctx has
// ended before, there are losses to tell, so awaitUser waits for lastWords. Then it returns the error
// of Close.
func (c *Client) awaitUser(ctx context.Context) error {
	limit := ctx
	if wait.Ended(ctx) != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastWords)
		defer cancel()
		limit = last
	}
	done := make(chan struct{})
	go c.labeler.Label("close", func() {
		defer close(done)
		c.holds.Wait()
		c.telling.losses.Drain()
		c.telling.reports.Drain()
		c.telling.logger.Drain() // last, because a hook that panics is logged
	})()
	select {
	case <-done:
		return nil
	case <-limit.Done():
		return fmt.Errorf("lock: closed, but %s has not returned: %w: find out what it waits for", c.telling.namesOfBlocked(), wait.Ended(ctx))
	}
}

// endHeld closes c while locks are still held, or calls are under way, because ctx has ended. It returns
// the error of Close. If isLater is true, another Close has given the locks up, and has said so.
func (c *Client) endHeld(ctx context.Context, isLater bool) error {
	if c.gaveUp.Swap(true) {
		<-c.givenUp // another Close releases the locks, and the client must not end meanwhile
	} else {
		c.giveUp(wait.Ended(ctx))
	}
	open := ""
	if !c.cfg.ReleaseOnClose {
		c.holds.Close(ctx)
	} else {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.UnlockTimeout)
		defer cancel()
		select {
		case <-c.table.Idle(): // calls that take something, and get it now, give it back
		case <-last.Done():
		}
		if n := c.holds.Close(last); n > 0 {
			open = fmt.Sprintf(", and %d requests were not answered, whose locks are left to their TTL", n)
		}
	}
	held := c.released + c.unreleased
	if isLater {
		held = 0
	}
	return c.heldError(held, wait.Ended(ctx), open)
}

// giveUp counts the locks that are still held when a Close ends its wait because of why. With
// Config.ReleaseOnClose it releases them. From then on another Close that waits cannot tell the end of these
// locks from an Unlock. So it looks at gaveUp, which is set before.
func (c *Client) giveUp(why error) {
	defer close(c.givenUp)
	c.endOfWait = why
	if c.cfg.ReleaseOnClose {
		c.released, c.unreleased = c.holds.ReleaseAll()
	} else {
		c.unreleased = c.Stats().Held
	}
}

// heldError is the error of a Close that has not waited for all Unlocks because of why. held is how many locks
// were held then, and open says what else is left. heldError is called after giveUp.
func (c *Client) heldError(held int, why error, open string) error {
	fate, hint := ", which are left to their TTL", ", give Close more time, or set Config.ReleaseOnClose"
	if c.cfg.ReleaseOnClose {
		fate = fmt.Sprintf(": %d were released, %d are left to their TTL", c.released, c.unreleased)
		hint = ", or give Close more time"
	}
	if held == 0 {
		return fmt.Errorf("lock: closed with no lock held, but while calls were under way%s: %w: give Close more time", open, why)
	}
	return fmt.Errorf("lock: closed with %d locks held%s%s: %w: unlock when Held.Done is closed%s", held, fate, open, why, hint)
}
