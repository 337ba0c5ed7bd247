package hold

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Unlock ends x. lock.Held has the promise.
func (x *Held) Unlock(ctx context.Context) error {
	return x.unlockWithin(x.h.engine.unlocks.Bound(ctx), nil)
}

// unlockWithin is Unlock that ends with ctx. It notes in s what Redis answers. s may be nil.
func (x *Held) unlockWithin(ctx context.Context, s *answering) error {
	owed := x.state.CompareAndSwap(stateUnanswered, stateUnlocking)
	if !owed && !x.state.CompareAndSwap(stateHeld, stateUnlocking) {
		return x.h.engine.errors.NotHeld(x.h.name)
	}
	x.h.engine.Table.Begin(x.h.name, false)
	defer x.h.engine.Table.End(x.h.name)
	next, o := x.unlock(ctx, owed, s)
	x.state.Store(next)
	switch {
	case o.Result == wire.Granted:
		return nil
	case o.Result.IsUnanswered():
		x.h.engine.Counts.Unreleased.Add(1)
	}
	return x.h.engine.errors.Of(ctx, x.h.name, o)
}

// unlock ends x and returns its new state. The Outcome is Granted if x ended as it should. unlock
// waits for the hold's turn. If another request of the hold takes longer than ctx lasts, x is still
// taken off the count. If x was the last Held, the client then releases the field. That also undoes
// what the other request does when it arrives.
func (x *Held) unlock(ctx context.Context, owed bool, s *answering) (next uint32, o wire.Outcome) {
	h := x.h
	h.mu.Lock()
	if w := x.watch; w != nil && !owed {
		h.unlistLocked(w)
		h.mu.Unlock()
		w.EndAll(h.engine.errors.NotHeld(h.name)) // whoever works under its context stops before another can begin
		h.mu.Lock()
	}
	busy := h.enterReleaseLocked(ctx)
	cause, again, settles := h.lostErrorLocked(), false, false
	if !owed {
		if cause != nil || h.count > 1 {
			h.count--
			settles = x.restLocked()
		} else {
			again = h.setFlag(leaving, true)
		}
	}
	remaining, isLeaving := int(h.count), h.has(leaving)
	h.mu.Unlock()
	var last pipe.Answer
	ended := false // x was the last one, and is taken off the count when the turn ends
	entered := busy == nil
	defer func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if ended {
			h.count--
			x.restLocked() // the lease has ended, so there is nothing to settle
		}
		if entered && !last.IsAbandoned {
			h.endTurnLocked()
		}
	}()
	if settles && cause == nil {
		h.settle()
	}
	switch {
	case cause != nil:
		if !owed {
			h.releaseLater()
		}
		return stateUnlocked, wire.Failure(cause)
	case owed && isLeaving:
		return stateUnlocked, wire.Outcome{Result: wire.Granted} // the last Unlock has given this one back too
	case isLeaving:
		next, o = x.unlockLast(ctx, again, busy, s)
		ended = next == stateUnlocked
		return next, o
	case busy != nil:
		return stateUnanswered, busyRelease(busy)
	}
	// It is off the count whatever Redis answers: scripts set the count, so the
	// next one of this hold makes it right.
	next, last, o = x.unlockOne(ctx, remaining, s)
	return next, o
}

// busyRelease is how an Unlock ends that waited for its turn in vain, because of err.
func busyRelease(err error) wire.Outcome {
	return wire.Outcome{Result: wire.Unknown, Op: "release", Cause: &busyError{err}}
}

func (x *Held) unlockOne(ctx context.Context, remaining int, s *answering) (next uint32, last pipe.Answer, o wire.Outcome) {
	h := x.h
	// An open request may set another count, so this one waits. It keeps its turn meanwhile, so a
	// release of the whole hold waits for it, but not for longer.
	if err := wait.Pause(ctx, nil, h.mayRunFor()); err != nil {
		return stateUnanswered, pipe.Answer{}, busyRelease(err)
	}
	// The least lease is enough, because no script lowers a TTL. So the remaining Helds keep
	// their lease.
	cmd := reenterCall(h.kind, h.name, h.field(), int32(remaining), renewal.MinTTL)
	a, r, o := h.resend(ctx, "release", func() pipe.Answer { return h.send(ctx, cmd) })
	s.note(r)
	n, ok := a.Reply.Number()
	switch {
	case a.Err != nil:
		return stateUnanswered, a, o
	case !ok:
		return stateUnanswered, a, wire.OddAnswer("release", a.Reply.Any())
	case n == 0 && !h.has(leaving):
		return stateUnlocked, a, wire.Failure(h.lostByLease(renewal.NotOwner))
	}
	return stateUnlocked, a, o
}

// unlockLast is the rest of unlock for the last Held of a hold. again says that an earlier call
// ended with an unknown outcome. busy says why no script of the hold may be sent. It is nil if one
// may be sent.
func (x *Held) unlockLast(ctx context.Context, again bool, busy error, s *answering) (uint32, wire.Outcome) {
	h := x.h
	k := h.engine
	var n succession
	if !again && busy == nil {
		if n = h.planHandOver(); n.token > 0 && k.handOverInMemory(h, n) {
			h.reportReleased(ctx, nil)
			return stateUnlocked, wire.Outcome{Result: wire.Granted}
		}
	}
	if busy != nil {
		k.Table.Forget(h) // first, because Release may wait for the write of a renewal
	}
	if !again && !h.lease.Release() { // its trust ended just now
		h.releaseLater()
		return stateUnlocked, wire.Failure(h.lostByLease(renewal.TrustEnded))
	}
	var r endAnswer
	var o wire.Outcome
	if busy == nil {
		r, o = k.handOverOrRelease(ctx, h, n)
		s.note(r) // not after the hooks, which may be slow
	} else {
		o = busyRelease(busy)
	}
	switch {
	case o.Result != wire.Granted:
		if !again {
			h.releaseLater()
			o = wire.Outcome{Result: o.Result, Cause: k.errors.Of(ctx, h.name, o)} // the hook and the caller get the same
			h.reportReleased(ctx, o.Cause)
		}
		return stateHeld, o
	case r.gone && !again && !r.resent: // no request of ours can have removed the field
		h.Lost(renewal.NotOwner)
		return stateUnlocked, wire.Failure(h.lostError())
	}
	h.reportReleased(ctx, nil)
	return stateUnlocked, o
}

// reportReleased counts the last Unlock of h, and reports how it ended. A waiter of a FairMutex keeps its
// field after a request that was not answered. If a copy of that request may still take the field
// again, the field is now left to the orphans. While the hold lasted, the field was no orphan.
func (h *Hold) reportReleased(ctx context.Context, err error) {
	if err == nil && h.kind == Fair && h.mayRunFor() > 0 {
		h.releaseLater()
	}
	if !h.has(returned) {
		return
	}
	if err == nil {
		h.engine.Counts.Released.Add(1)
	}
	h.engine.cfg.Observer.Released(ctx, h, err)
}

// Unlocks is many calls of Unlock that belong together. A server that answers none of them for
// the time that one may take counts as silent, and later calls do not wait for it. A call that ends
// without Redis says nothing about the server. The zero Unlocks works. All methods are safe for concurrent use.
type Unlocks struct {
	servers sync.Map // by network.Server: *answering
}

// answering records whether a server answers.
type answering struct {
	answers atomic.Uint64 // of Redis, whatever it has answered
	silent  atomic.Bool   // stays so
}

// note counts the answer that ended a call.
func (s *answering) note(r endAnswer) {
	if s != nil && r.answered {
		s.answers.Add(1)
	}
}

// Server returns the server that has x now. Servers can be compared.
func (x *Held) Server() network.Server { return x.h.engine.Network.Server(x.h.name) }

// Unlock is x.Unlock. At a silent server the outcome is unknown at once. The client then acts as
// after an Unlock whose time has passed.
func (u *Unlocks) Unlock(ctx context.Context, x *Held) error {
	known, _ := u.servers.LoadOrStore(x.Server(), &answering{})
	s := known.(*answering)
	before := s.answers.Load()
	ctx = x.h.engine.unlocks.Bound(ctx)
	if s.silent.Load() {
		over, cancel := context.WithDeadline(wait.Sound(ctx), time.Time{})
		defer cancel()
		ctx = over
	}
	err := x.unlockWithin(ctx, s)
	// An Unlock that ended well needed no answer. Only its hooks took long.
	if err != nil && wait.Ended(ctx) != nil && s.answers.Load() == before {
		s.silent.Store(true)
	}
	return err
}
