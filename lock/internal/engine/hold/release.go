package hold

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// endAnswer is the answer to the end of a hold.
type endAnswer struct {
	answered bool                       // by Redis, but not with a refusal that should pass
	gone     bool                       // neither the hold nor its successor was there
	denied   bool                       // Redis refused a hand-over, and changed nothing; a plain release may still succeed
	resent   bool                       // an earlier request went unanswered
	open     orphans.UnansweredRequests // until when such a request may still be carried out
}

// handOverOrRelease ends h on Redis. The caller has already released its lease. h is handed
// over to the next waiter of this client. It is released if there is no waiter, or if a run
// ends and other clients wait.
func (k *Engine) handOverOrRelease(ctx context.Context, h *Hold, n succession) (r endAnswer, o wire.Outcome) {
	var m listening
	if n.InRun || n.Next != nil {
		m = k.noteHeard(h.name)
	}
	told := int64(0)
	defer func() { // no waiter of this client goes on before
		var end locktable.RunEnd
		if n.InRun {
			end = m.runEnd(told)
		}
		end.Suspects = n.Next == nil && told > 0 && h.kind != Fair // the queue of a FairMutex has strangers too
		k.Table.ForgetAfter(h, end)
	}()
	if n.Next != nil {
		if r, told, m.wait, o = k.handOver(ctx, h, n, m); !r.denied {
			return r, o
		}
	}
	answer, r, o := h.release(ctx)
	told = max(answer-1, 0)
	return r, o
}

// listening is what this client had heard of a channel before it sent something there.
type listening struct {
	heard uint64 // messages
	ours  int64  // its own subscriptions to the channel
	began time.Time
	wait  time.Duration // until a waiter without a subscription tries; 0: there is none
}

// noteHeard is called before the request is sent: its message may come before its
// answer.
func (k *Engine) noteHeard(name string) listening {
	heard, subscribed := k.Network.Server(name).Subscriber().Heard(keys.Channel(name))
	m := listening{heard: heard, began: time.Now()}
	if subscribed {
		m.ours = 1
	}
	return m
}

// runEnd is the end of a run by a release. told is how many subscribers received its message.
func (m listening) runEnd(told int64) locktable.RunEnd {
	end := locktable.RunEnd{Others: told - m.ours, Heard: m.heard + uint64(m.ours), RoundTrip: time.Since(m.began)}
	if m.wait > 0 {
		end.Others, end.RoundTrip, end.Awaited = max(end.Others, 1), max(end.RoundTrip, m.wait/2), true
	}
	return end
}

// handOver turns h into the hold of the next waiter, in one script. At the end of a run the
// script releases the lock instead if other clients wait. handOver then returns how many
// subscribers were told, and in how long a waiter without a subscription tries next.
func (k *Engine) handOver(ctx context.Context, h *Hold, n succession, m listening) (r endAnswer, told int64, wait time.Duration, o wire.Outcome) {
	a := n.attempt
	name, seq, lane := h.name, k.seqs.Add(1), k.lane(h.name)
	c := claim{k, h.kind, name, fieldOf(k.cfg.ID, h.kind, a.Owner, seq), a.Lease}
	late := func(ans pipe.Answer) {
		if _, _, released := wire.ReadReleased(ans.Reply); !released {
			c.releaseIfTaken(k.read("acquire", ans, wire.ReadAcquire), ans)
		}
	}
	ans, r, o := h.resend(ctx, "handoff", func() pipe.Answer {
		counter, least := k.counterOf(h.kind, name)
		call := wire.Handoff{Name: name, Counter: counter, From: h.field(), To: c.field, Lease: a.Lease, Least: least, More: n.more}
		if n.Over {
			call.End = &wire.EndOfRun{Ours: m.ours, Publish: k.Network.Publisher(name), Await: n.Reservation, Anyway: n.MustRelease}
		}
		return network.Mint(ctx, k.Network, name, call.Call(), late)
	})
	if ans.Err != nil {
		if _, refused := ans.Err.(redis.Error); refused && !r.resent {
			r.denied = true
		} else if !ans.IsAbandoned || r.open.Written { // late handles a last request that was left
			c.releaseUnconfirmed(r.open.Until())
		}
		return r, 0, 0, o
	}
	if told, wait, released := wire.ReadReleased(ans.Reply); released {
		return r, told, wait, o
	}
	switch o = wire.ReadAcquire("acquire", ans.Reply); o.Result {
	case wire.Unknown:
		return r, 0, 0, o
	case wire.Refused:
		r.gone = true
		return r, 0, 0, wire.Outcome{Result: wire.Granted}
	}
	next, leased := a.newHold(k.newRun(a.Owner, seq, ans.Stamp, o), seq, o.Token)
	next.first.begin(next, a.Renewed)
	watched := k.keep(next, lane, leased, renewal.Terms{Stamp: ans.Stamp, TTL: a.Lease, Fixed: !a.Renewed}) == nil
	if !watched {
		// The answer came after the hold was no longer safe, so the waiters try by themselves.
		c.releaseLater()
		return r, 0, 0, o
	}
	k.Table.Deliver(h, n.Next, next)
	return r, 0, 0, o
}

// releaseUnclaimed releases, in the background, a hold that was handed to a waiter that has
// left. It ends only the waiter's Held, because others of its owner may have re-entered the
// hold. The caller has begun a call that Close waits for.
func (k *Engine) releaseUnclaimed(h *Hold) {
	h.first.state.Store(stateUnlocking)
	k.wg.Go(k.cfg.Labeler.Label("release unclaimed", func() {
		defer h.engine.Table.End(h.name)
		ctx, cancel := context.WithTimeout(k.ctx, k.cfg.UnlockTimeout)
		defer cancel()
		_, _ = h.first.unlock(ctx, false, nil)
	}))
}

// release sends the release script until it is answered or ctx ends, and
// returns its answer.
func (h *Hold) release(ctx context.Context) (int64, endAnswer, wire.Outcome) {
	var room [fieldRoom]byte
	cmd := h.engine.releaseCall(h.kind, h.name, h.appendField(room[:0]))
	a, r, o := h.resend(ctx, "release", func() pipe.Answer {
		return h.engine.Network.Send(ctx, h.name, cmd, nil)
	})
	if a.Err != nil {
		return 0, r, o
	}
	n, ok := a.Reply.Number()
	if !ok {
		return 0, r, wire.OddAnswer("release", a.Reply.Any())
	}
	r.gone = n < 0
	return n, r, o
}

// resend sends a script until it is answered or ctx ends. The script names fields that
// no other hold uses, so it may arrive twice. The Outcome of an answer is Granted.
func (h *Hold) resend(ctx context.Context, op string, send func() pipe.Answer) (pipe.Answer, endAnswer, wire.Outcome) {
	var r endAnswer
	for try := 0; ; try++ {
		a := send()
		r.answered = a.Err == nil || pipe.Definite(a.Err)
		if a.Err == nil {
			return a, r, wire.Outcome{Result: wire.Granted}
		}
		o := h.engine.Outcome(op, a)
		_, refused := a.Err.(redis.Error)
		if r.resent && (errors.Is(a.Err, h.engine.cfg.Closed) || o.Result == wire.Denied) { // an earlier request may have been carried out
			o.Result = wire.Unknown
		}
		if r.answered || errors.Is(a.Err, h.engine.cfg.Closed) || refused && op == "handoff" {
			return a, r, o
		}
		r.resent = r.resent || !a.Stamp.IsZero() || wait.Ended(ctx) != nil
		r.open.Note(a)
		if wait.Pause(ctx, nil, wait.Backoff(h.engine.cfg.Random, try)) != nil {
			return a, r, o
		}
	}
}
