package hold

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/renewal"
)

// Unlock ends x. lock.Held has the promise.
func (x *Held) Unlock(ctx context.Context) error {
	return x.unlockWithin(x.h.k.unlocks.Bound(ctx))
}

// unlockWithin is Unlock that ends with ctx.
func (x *Held) unlockWithin(ctx context.Context) error {
	owed := x.state.CompareAndSwap(isOwed, isUnlocking)
	if !owed && !x.state.CompareAndSwap(isHeld, isUnlocking) {
		return x.h.k.errors.NotHeld(x.h.name)
	}
	x.h.k.Table.Begin(x.h.name, false)
	defer x.h.k.Table.End(x.h.name)
	next, err := x.unlock(ctx, owed)
	x.state.Store(next)
	if err != nil && x.h.k.errors.Verdict(err) == locktable.Unknown {
		x.h.k.Counts.Unreleased.Add(1)
	}
	return err
}

// unlock ends x and returns its new state. It waits for the hold's turn. If another
// request of the hold takes longer than ctx lasts, x is still taken off the count. If x
// was the last Held, the client then releases the field. That also undoes what the other
// request does when it arrives.
func (x *Held) unlock(ctx context.Context, owed bool) (next uint32, err error) {
	h := x.h
	h.mu.Lock()
	if w := x.watch; w != nil && !owed {
		h.unlistLocked(w)
		h.mu.Unlock()
		w.End(h.k.errors.NotHeld(h.name)) // whoever works under its context stops before another can begin
		h.mu.Lock()
	}
	busy := h.enterReleaseLocked(ctx)
	cause, again, settles := h.lostErrorLocked(), false, false
	if !owed {
		if cause != nil || h.count > 1 {
			h.count--
			settles = x.restLocked()
		} else {
			again = h.set(leaving, true)
		}
	}
	remaining, left := int(h.count), h.is(leaving)
	h.mu.Unlock()
	var last pipe.Answer
	ended := false // x was the last one, and goes off the count with the end of the turn
	entered := busy == nil
	defer func() { x.leaveUnlock(entered && !last.Left, ended) }()
	if settles && cause == nil {
		h.settle()
	}
	if busy != nil {
		busy = h.busyRelease(busy)
	}
	switch {
	case cause != nil:
		if !owed {
			h.orphan()
		}
		return isUnlocked, cause
	case owed && left:
		return isUnlocked, nil // who gives the rest back has given this back too
	case left:
		next, err = x.unlockLast(ctx, again, busy)
		ended = next == isUnlocked
		return next, err
	case busy != nil:
		return isOwed, busy
	}
	// It is off the count whatever Redis answers: scripts set the count, so the
	// next one of this hold makes it right.
	next, last, err = x.unlockOne(ctx, remaining)
	return next, err
}

// leaveUnlock is the end of unlock. It ends the turn, unless the caller has left a request or has
// not entered, and takes the last one of the hold off the count.
func (x *Held) leaveUnlock(pass, ended bool) {
	if !pass && !ended {
		return
	}
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	if ended {
		x.h.count--
		x.restLocked() // the lease has ended, so there is nothing to settle
	}
	if pass {
		x.h.passLocked()
	}
}

func (h *Hold) busyRelease(err error) error {
	return h.k.errors.Unknown("release", h.name, &busyError{err})
}

func (x *Held) unlockOne(ctx context.Context, remaining int) (next uint32, last pipe.Answer, err error) {
	h := x.h
	// An open request may set another count, so this one waits. The turn is its own
	// meanwhile; a release of the whole hold would have to wait for no more than that.
	if err := wait.Pause(ctx, nil, h.openFor()); err != nil {
		return isOwed, pipe.Answer{}, h.busyRelease(err)
	}
	// The remaining holds keep what they have: no script lowers a TTL, so asking for
	// the least lease is enough.
	cmd := h.k.calls.reenter(h.kind, h.name, h.field(), int32(remaining), renewal.MinTTL)
	a, _, err := h.resend(ctx, "release", func() pipe.Answer { return h.send(ctx, cmd) })
	n, ok := a.Reply.Number()
	switch {
	case err != nil:
		return isOwed, a, err
	case !ok:
		return isOwed, a, h.k.errors.BadReply("release", h.name, a.Reply.Any())
	case n == 0 && !h.is(leaving):
		return isUnlocked, a, h.lostByLease(renewal.NotOwner)
	}
	return isUnlocked, a, nil
}

// unlockLast is the rest of unlock for the last one of a hold. busy says why no
// script of the hold may be sent, nil that one may. again: an earlier call has
// ended unknown.
func (x *Held) unlockLast(ctx context.Context, again bool, busy error) (uint32, error) {
	h := x.h
	k := h.k
	var n succession
	if !again && busy == nil {
		if n = h.succession(); n.token > 0 && k.pass(h, n) {
			h.released(ctx)
			return isUnlocked, nil
		}
	}
	if !again && !h.lease.Release() { // its trust ended just now
		h.orphan()
		return isUnlocked, h.lostByLease(renewal.TrustEnded)
	}
	var r returned
	err := busy
	if busy == nil {
		r, err = k.handOverOrRelease(ctx, h, n)
	} else {
		k.Table.Forget(h)
	}
	switch {
	case err != nil:
		if !again {
			h.orphan()
			h.tellReleased(ctx, err)
		}
		return isHeld, err
	case r.gone && !again && !r.resent, r.gone && !time.Now().Before(h.lease.Deadline()):
		// The field was not there and no request of ours can have removed
		// it, or so late that its TTL may have.
		h.Lost(renewal.NotOwner)
		return isUnlocked, h.lostBecause(renewal.NotOwner, nil)
	}
	h.released(ctx)
	return isUnlocked, nil
}

// released is called when the last one of h has ended as it should.
func (h *Hold) released(ctx context.Context) {
	h.orphanCopy()
	h.tellReleased(ctx, nil)
}
