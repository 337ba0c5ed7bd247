package locktable

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// This file says how a Waiter goes on after a try or a re-entry without success.

// movedFor is how long waiters go on after MOVED. A client that never had an answer needs a Topology, and is
// told at once. If Redis has answered a waiter for the same object before, the server has become a
// replica, and its DNS name may still take a while to lead to the new master.
const movedFor = time.Minute

// failed notes how a try or a re-entry has failed. It reports whether the call is over, and w.last
// says how it ended.
func (w *Waiter[H]) failed(ctx context.Context, t decision[H], o wire.Outcome) (over bool) {
	switch w.unsure = w.unsure || o.Result == wire.Unknown; {
	case w.unsure && o.Result == wire.NotSent:
		o.Result = wire.Unknown
	case w.unsure && w.last.Result == wire.NotSent:
		w.last = o
	}
	passes := o.IsMoved && w.wasAnsweredLately()
	if t.Do == waitqueue.DoReenter {
		return w.notReentered(ctx, o, passes)
	}
	if wait.Ended(ctx) != nil && errors.Is(o.Cause, wait.Ended(ctx)) { // the try was left, not answered
		if w.caller.NoWait || w.last.Result == wire.NotTried {
			w.last = o
		}
		return w.caller.NoWait
	}
	w.last, w.stranger = o, o.By == wire.Stranger
	if ours, doubtful := w.answered(o, passes); doubtful {
		w.table.doubt(ours)
	}
	refused, unknown := o.Result == wire.Refused, o.Result.IsUnanswered()
	if refused {
		w.refusedAgain(ctx)
	}
	switch {
	case refused, passes, unknown && !w.table.cfg.FailFast && !w.final, w.caller.NoWait:
		w.waited = true
		if (unknown || passes) && !t.byOutlook && !w.caller.NoWait {
			return w.backOff(ctx)
		}
		return false // its instruction says how it goes on
	case wait.Ended(ctx) != nil:
		w.last.End = wire.ByContext
	}
	return true
}

// wasAnsweredLately reports whether Redis has answered a call for w's object within movedFor, or a hold of
// it has ended since.
func (w *Waiter[H]) wasAnsweredLately() bool {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.alone || w.q == nil && w.ownOutlook == nil {
		return false // it is the first call
	}
	return w.outlook().wasAnsweredLately(w.table.Now())
}

// refusedAgain calls Config.LongWait once if w, which was refused just now, has waited for long for
// a lock that another owner has.
func (w *Waiter[H]) refusedAgain(ctx context.Context) {
	switch {
	case w.caller.NoWait || w.warned || !w.key.Kind.HasOwners():
	case w.since == 0:
		w.since = max(w.lastTryAt, 1)
	case time.Duration(w.lastTryAt-w.since) >= warnAfter:
		w.warned = true
		w.table.cfg.LongWait(ctx, w.key.Name, time.Duration(w.lastTryAt-w.since))
	}
}

// answered tells the queue the outcome of a try without success. If the lock is refused although
// this client has a hold of it, answered returns that hold, which may be gone. passes says that
// Redis refused the request because the server has become a replica, see movedFor.
func (w *Waiter[H]) answered(o wire.Outcome, passes bool) (ours H, doubtful bool) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.alone {
		s.queueOfLocked(w.key)
		w.alone = false
	}
	q, out, now := w.q, w.outlook(), w.table.Now()
	switch {
	case o.Result == wire.Refused:
		out.refused = true
		out.noteAnswer(now)
		s.refusedLocked(w, now, o.TTL)
		if w.retryIn == 0 && w.ownOutlook == nil { // else the try has told Redis when w tries again, or w asks by itself
			w.spread = w.table.cfg.Random.Float64()
		}
		if w.key.Kind.HasOwners() {
			q.heldUntil = time.Now().Add(max(o.TTL, 0))
			ours, doubtful = w.metLocked()
		}
		said := waitqueue.Answer{TTL: o.Next, Left: o.Free, Spread: w.spread}
		if o.By == wire.Foreign && o.Next >= 0 {
			said.Within = ForeignPoll
		}
		out.probe.Refused(now, w.mark, said)
		s.stepLocked(q.line.Refused(&w.caller))
	case o.Result.IsUnanswered(), passes:
		out.probe.Unanswered(now, w.mark, w.table.cfg.Random.Float64())
		fallthrough
	default: // Redis refused this request, which says nothing about the object
		s.stepLocked(q.line.Unanswered(&w.caller))
	}
	if w.ownOutlook == nil && q.line.First() != &w.caller {
		s.wakeFirstLocked(q)
	}
	return ours, doubtful
}

// metLocked returns this client's exclusive hold of w's name, if it has one, after Redis has refused
// w. Redis has said that the lock is held, but has not named the holder. If w reads, the hold with which
// its owner writes is doubtful, because that owner may read.
func (w *Waiter[H]) metLocked() (ours H, doubtful bool) {
	var none H
	if w.caller.Shared {
		if ours = w.shard.ownLocked(w.key.Name, w.caller.Owner, Writing); ours != none {
			return ours, true
		}
	}
	if ours = w.shard.liveLocked(w.key.Name, owner.Nobody); ours == none {
		return none, false
	}
	if w.last.By != wire.Foreign {
		w.last.By = wire.Ours
	}
	return ours, w.key.Kind.IsExclusive()
}

func (w *Waiter[H]) notReentered(ctx context.Context, o wire.Outcome, passes bool) (over bool) {
	isAnswered := !o.Result.IsUnanswered() && !passes
	if w.unsure && o.Result == wire.Denied { // an earlier request may have been carried out
		o.Result, o.Op = wire.Unknown, "reenter"
	}
	w.last = o
	switch {
	case w.caller.NoWait:
		return true
	case wait.Ended(ctx) != nil:
		w.last.End = wire.ByContext
		return true
	case isAnswered || w.table.cfg.FailFast && !passes:
		return true
	}
	w.waited = true
	return w.backOff(ctx)
}

// backOff waits after an unknown outcome that the queue's Probe does not count. It reports whether the
// call is over, because the client is closing.
func (w *Waiter[H]) backOff(ctx context.Context) (over bool) {
	_ = wait.Pause(ctx, w.table.cfg.Closing, wait.Backoff(w.table.cfg.Random, w.unknowns))
	w.unknowns++
	if wait.Closed(w.table.cfg.Closing) { // else there would be no pause until Close has reached the queue
		w.last.End = wire.ByClose
		return true
	}
	return false
}

// refused is how a call ends that does not wait.
func (w *Waiter[H]) refused() wire.Outcome {
	if w.last.Result != wire.NotTried {
		return w.last
	}
	return w.wants.Refusal(max(time.Until(w.heldUntil()), 0))
}

// left is how a wait ends that ctx ended. A waiter that never asked Redis
// uses what other callers of this client know.
func (w *Waiter[H]) left() wire.Outcome {
	if w.last.Result == wire.NotTried && w.q != nil {
		if d := time.Until(w.heldUntil()); d > 0 {
			w.last = w.wants.Refusal(d)
		}
	}
	w.last.End = wire.ByContext
	return w.last
}

// heldUntil is when the lease of the holder of w's object ends, as far as this
// client's own hold and its waiters know.
func (w *Waiter[H]) heldUntil() time.Time {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.holds.get(w.key.Name); ok && w.key.Kind.IsExclusive() && !h.IsLost() {
		return h.Deadline()
	}
	return w.q.heldUntil
}
