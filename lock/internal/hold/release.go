package hold

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// returned is the answer to the end of a hold.
type returned struct {
	gone   bool         // neither the hold nor its successor was there
	resent bool         // an earlier request went unanswered
	open   orphans.Open // until when such a one may still be carried out
}

// handOverOrRelease ends h on Redis. The caller has already released its lease. h is handed
// over to the next waiter of this client. It is released if there is no waiter, or if a run
// ends and other clients wait.
func (k *Keeper) handOverOrRelease(ctx context.Context, h *Hold, n succession) (r returned, err error) {
	var m listening
	if n.InRun || n.Next != nil {
		m = k.listening(h.name)
	}
	told := int64(0)
	defer func() { // nobody of this client goes on before
		var end locktable.RunEnd
		if n.InRun {
			end = m.runEnd(told)
		}
		end.Suspects = n.Next == nil && told > 0
		k.Table.ForgetAfter(h, end)
	}()
	if n.Next != nil {
		if r, told, m.wait, err = k.handOver(ctx, h, n, m); !errors.Is(err, errRefused) {
			return r, err
		}
	}
	answer, r, err := h.release(ctx)
	told = max(answer-1, 0)
	return r, err
}

// listening is what this client had heard of a channel before it sent something there.
type listening struct {
	heard uint64 // messages
	ours  int64  // its own subscriptions, of those that are told
	began time.Time
	wait  time.Duration // until somebody tries who did not hear
}

// listening is called before the request is sent: its message may come before its
// answer.
func (k *Keeper) listening(name string) listening {
	heard, subscribed := k.Network.Server(name).Subscriber().Heard(keys.Channel(name))
	m := listening{heard: heard, began: time.Now()}
	if subscribed {
		m.ours = 1
	}
	return m
}

// runEnd is the end of a run by a release that so many subscribers were told of.
func (m listening) runEnd(told int64) locktable.RunEnd {
	end := locktable.RunEnd{Others: told - m.ours, Heard: m.heard + uint64(m.ours), RoundTrip: time.Since(m.began)}
	if m.wait > 0 {
		end.Others, end.RoundTrip, end.Awaited = max(end.Others, 1), max(end.RoundTrip, m.wait/2), true
	}
	return end
}

// errRefused is returned when Redis refused a hand-over, for example because it is out of
// memory, and changed nothing. A plain release may still succeed.
var errRefused = errors.New("lock: the hand-off was refused")

// handOver turns h into the hold of the next waiter, in one script. At the end of a run the
// script releases the lock instead if others wait. It then returns how many subscribers were
// told, and when a waiter without a subscription tries next.
func (k *Keeper) handOver(ctx context.Context, h *Hold, n succession, m listening) (r returned, told int64, wait time.Duration, err error) {
	a := n.attempt
	kind, name, lease, seq := h.kind, h.name, a.Lease, k.seqs.Add(1)
	field := fieldOf(k.cfg.ID, kind, a.Owner, seq)
	late := func(ans pipe.Answer) {
		if _, _, released := wire.ReadReleased(ans.Reply); released {
			return
		}
		switch g, _, err := k.calls.readAcquire(name, ans); {
		case g.Token > 0:
			k.owe(kind, name, field, lease)
		case k.calls.mayHaveRun(ans, err):
			k.oweUnanswered(kind, name, field, lease, ans.Open)
		}
	}
	ans, r, err := h.resend(ctx, "handoff", func() pipe.Answer {
		counter, least := k.calls.counterOf(kind, name)
		call := wire.Handoff{Name: name, Counter: counter, From: h.field(), To: field, Lease: lease, Least: least, More: n.more}
		if n.Over {
			call.End = &wire.EndOfRun{Ours: m.ours, Publish: k.calls.publish(name), Await: n.Reservation, Anyway: n.Open}
		}
		return sender.Mint(ctx, k.Network, name, call.Call(), late)
	})
	if err != nil {
		if _, refused := ans.Err.(redis.Error); refused && !r.resent {
			return r, 0, 0, errRefused
		}
		if !ans.Left || r.open.Written { // a last request that was left has late
			k.oweUnanswered(kind, name, field, lease, r.open.Until())
		}
		return r, 0, 0, err
	}
	if told, wait, released := wire.ReadReleased(ans.Reply); released {
		return r, told, wait, nil
	}
	g, _, err := k.calls.readAcquire(name, ans)
	switch {
	case err != nil:
		return r, 0, 0, err
	case g.Token == 0:
		r.gone = true
		return r, 0, 0, nil
	}
	next, leased := a.newHold(k.newRun(a.Owner, seq, ans.Stamp, g), seq, g.Token)
	next.first.begin(next, a.Renewed)
	watched := k.keep(next, leased, renewal.Terms{Stamp: ans.Stamp, TTL: lease, Fixed: !a.Renewed}) == nil
	if !watched {
		// The answer came after the hold was no longer safe, so the waiters try by themselves.
		k.owe(kind, name, field, lease)
		return r, 0, 0, nil
	}
	k.Table.Deliver(h, n.Next, next)
	return r, 0, 0, nil
}

// releaseUnclaimed releases, in the background, a hold that was handed to a waiter that has
// left. It ends only the waiter's Held, because others of its owner may have re-entered the
// hold. The caller has begun a call that Close waits for.
func (k *Keeper) releaseUnclaimed(h *Hold) {
	h.first.state.Store(isUnlocking)
	k.wg.Go(k.cfg.Cast.As("release unclaimed", func() {
		defer h.k.Table.End(h.name)
		ctx, cancel := context.WithTimeout(k.ctx, k.cfg.UnlockTimeout)
		defer cancel()
		_, _ = h.first.unlock(ctx, false)
	}))
}

// release sends the release script until it is answered or ctx ends, and
// returns its answer.
func (h *Hold) release(ctx context.Context) (int64, returned, error) {
	var room [fieldRoom]byte
	cmd := h.k.calls.release(h.kind, h.name, h.appendWhole(room[:0]))
	a, r, err := h.resend(ctx, "release", func() pipe.Answer {
		return h.k.Network.Send(ctx, h.name, cmd, nil)
	})
	if err != nil {
		return 0, r, err
	}
	n, ok := a.Reply.Number()
	if !ok {
		return 0, r, h.k.errors.BadReply("release", h.name, a.Reply.Any())
	}
	r.gone = n < 0
	return n, r, nil
}

// resend sends a script until it is answered or ctx ends. The script names fields that
// no other hold uses, so it may arrive twice.
func (h *Hold) resend(ctx context.Context, op string, send func() pipe.Answer) (pipe.Answer, returned, error) {
	var r returned
	for try := 0; ; try++ {
		a := send()
		if a.Err == nil {
			return a, r, nil
		}
		err := h.k.errors.Call(op, h.name, a)
		_, refused := a.Err.(redis.Error)
		if errors.Is(a.Err, h.k.cfg.Closed) && r.resent {
			err = h.k.errors.Unknown(op, h.name, a.Err)
		}
		if pipe.Definite(a.Err) || errors.Is(a.Err, h.k.cfg.Closed) || refused && op == "handoff" {
			return a, r, err
		}
		r.resent = r.resent || !a.Stamp.IsZero() || wait.Ended(ctx) != nil
		r.open.Note(a)
		if wait.Pause(ctx, nil, wait.Backoff(h.k.cfg.Random, try)) != nil {
			return a, r, err
		}
	}
}
