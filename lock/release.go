package lock

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// returned says how a hold's end was answered.
type returned struct {
	gone   bool // neither the hold nor its successor was there
	resent bool // an earlier request went unanswered
	open   open // until when such a one may still be carried out
}

// handOverOrRelease ends h on Redis, whose lease the caller has released: it is handed
// to the first waiter of this client, or released if there is none, if a run of
// hand-offs is over, or if an earlier handOverOrRelease of h went unanswered (again).
func (c *Client) handOverOrRelease(ctx context.Context, h *hold, again bool) (returned, error) {
	var run runEnd
	defer func() { c.tables.forgetAfter(h, run) }() // nobody of this client goes on before
	inRun := false
	if !again {
		var w *waiter
		if w, inRun = c.tables.leaving(h); w != nil {
			r, err := c.handOver(ctx, h, w)
			if !errors.Is(err, errRefused) {
				return r, err
			}
		}
	}
	// Read before the release is sent: its message may come before its answer.
	heard, ours := c.router.Server(h.name).Subscriber().Heard(keys.Channel(h.name))
	began := time.Now()
	n, r, err := h.release(ctx)
	if err != nil {
		return r, err
	}
	others := n - 1 // who was told
	if ours {
		others--
		heard++
	}
	if inRun {
		run = runEnd{others: others, heard: heard, roundTrip: time.Since(began)}
	}
	return r, nil
}

// errRefused: Redis refused a hand-off (it is out of memory, say) and changed
// nothing; a plain release may pass.
var errRefused = errors.New("lock: the hand-off was refused")

// handOver makes w's hold out of h, in one script.
func (c *Client) handOver(ctx context.Context, h *hold, w *waiter) (returned, error) {
	a := w.wants.(*attempt) // its terms and its owner do not change
	next := &hold{shard: h.shard, name: h.name, kind: h.kind, owner: a.owner, seq: c.seqs.Add(1), count: 1}
	next.first.h, next.first.renewed = next, a.renewed
	if a.renewed {
		next.renewing = 1
	}
	late := func(ans pipe.Answer) {
		switch token, _, err := c.scripts.parseAcquire(next.name, ans); {
		case token > 0:
			next.orphanFor(a.lease)
		case mayHaveRun(ans, err):
			c.orphans.addUnanswered(next.kind, next.name, next.field(), a.lease, ans.Open)
		}
	}
	ans, r, err := h.resend(ctx, "handoff", func() pipe.Answer {
		counter, least := c.scripts.counterOf(h.kind, h.name)
		return c.scripts.callToken(ctx, script.Handoff, late, least, h.name, counter, h.field(), next.field(), ms(a.lease), least)
	})
	if err != nil {
		if _, refused := ans.Err.(redis.Error); refused && !r.resent {
			return r, errRefused
		}
		if !ans.Left || r.open.written { // a last request that was left has late
			c.orphans.addUnanswered(next.kind, next.name, next.field(), a.lease, r.open.until())
		}
		return r, err
	}
	token, _, err := c.scripts.parseAcquire(h.name, ans)
	switch {
	case err != nil:
		return r, err
	case token == 0:
		r.gone = true
		return r, nil
	}
	next.token = token
	watched := c.lane(next.name).keep(next, renewal.Terms{Stamp: ans.Stamp, TTL: a.lease, Fixed: !a.renewed}) == nil
	if !watched {
		// The yes came after its trust had ended: the waiters go on by themselves.
		next.orphanFor(a.lease)
		return r, nil
	}
	c.tables.deliver(h, w, next)
	return r, nil
}

// releaseUnclaimed gives back, in the background, what was handed to a waiter that has
// left: its Held, for others of its owner may have re-entered the hold. The caller has
// noted a call that Close waits for.
func (c *Client) releaseUnclaimed(h *hold) {
	h.set(unseen, true)
	h.first.state.Store(isUnlocking)
	c.wg.Go(func() {
		defer h.shard.end()
		ctx, cancel := context.WithTimeout(c.ctx, c.cfg.UnlockTimeout)
		defer cancel()
		_, _ = h.first.unlock(ctx, false)
	})
}

// release sends the release script until it is answered or ctx ends, and
// returns its answer.
func (h *hold) release(ctx context.Context) (int64, returned, error) {
	cmd := h.kind.rules().release(&h.shard.c.scripts, h.name, h.field())
	a, r, err := h.resend(ctx, "release", func() pipe.Answer {
		return h.shard.c.scripts.send(ctx, h.name, cmd, nil)
	})
	if err != nil {
		return 0, r, err
	}
	n, ok := a.Reply.(int64)
	if !ok {
		return 0, r, badReply("release", h.name, a.Reply)
	}
	r.gone = n < 0
	return n, r, nil
}

// resend sends a script until it is answered or ctx ends; it names fields that
// no other hold uses, so it may arrive twice.
func (h *hold) resend(ctx context.Context, op string, send func() pipe.Answer) (pipe.Answer, returned, error) {
	var r returned
	for try := 0; ; try++ {
		a := send()
		if a.Err == nil {
			return a, r, nil
		}
		err := h.shard.c.scripts.callError(op, h.name, a)
		_, refused := a.Err.(redis.Error)
		if pipe.Definite(a.Err) || errors.Is(a.Err, ErrClosed) || refused && op == "handoff" {
			return a, r, err
		}
		r.resent = r.resent || !a.Stamp.IsZero() || ctx.Err() != nil
		r.open.note(a)
		if pause(ctx, nil, backoff(try)) != nil {
			return a, r, err
		}
	}
}
