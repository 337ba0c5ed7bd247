package hold

import (
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/renewal"
)

// forget does the work after the holder was told. Waiters go on, a field that would outlive
// its hold is left to the orphans, and the Lost hook is called.
func (l loss) forget() {
	h := l.hold
	h.engine.Table.Forget(h)
	alsoReads := func() bool { return h.engine.Table.Own(h.name, h.owner, locktable.Reading) != nil }
	// A hold that was renewed may end long before a longer lease that Extend or LockFor has asked for.
	longer := (l.why == renewal.MaxHold || l.why == renewal.TrustEnded || l.why == renewal.Suspended) && h.longestLease() > 0
	// What Close leaves to its TTL is not released, because its holder may still work.
	late := h.has(prolonging|unsure) && (l.why != renewal.Closed || !wait.Closed(h.engine.cfg.Closing))
	if h.kind == Fair && h.has(closed) { // Close has given it up, and has released it as Unlock does if its server answered
		late = late || h.mayRunFor() > 0
	}
	if longer || late || h.lease.Unanswered() || h.kind.outlived(l.why, alsoReads) {
		h.releaseLater()
	}
	h.reportLoss()
}

// Lost implements renewal.Owner. It is called by the watchdog, or because a script's answer
// says that the hold is lost. It ends the hold once. The holder is told first. Lost waits for
// no mutex under which others do much work, because the watchdog has other holds to tell.
func (h *Hold) Lost(why renewal.Reason) {
	var refusal error
	if why == renewal.TrustEnded {
		if l := h.engine.lane(h.name); l != nil {
			refusal = l.Refusal()
		}
	}
	h.mu.Lock()
	if h.setFlag(lost, true) {
		h.mu.Unlock()
		return
	}
	cause := h.lostBecause(why, refusal)
	e := h.endsLocked()
	e.lost = cause
	first, others := h.takeWatchesLocked()
	onLoss := e.onLoss
	e.onLoss = nil
	h.engine.Counts.Lost[why].Add(1)
	h.mu.Unlock()
	h.engine.lost.Expect() // Stats waits until h is not counted any more, for callers that were told
	endWatches(cause, first, others)
	for _, f := range onLoss {
		f(cause)
	}
	h.engine.lost.AddExpected(loss{h, why})
}

// Look implements watch.Subject. So a hold that is asked answers by the clock, even if the watchdog
// is late because the process was stopped or the machine is too busy.
func (h *Hold) Look() error {
	if h.lease.Valid() {
		return nil
	}
	if reason, lost := h.lease.Expire(); lost {
		h.Lost(reason) // another goroutine may have found the loss, but not called Lost yet
	} else if !h.lease.Valid() && !h.has(leaving|closed) {
		h.Lost(renewal.NotOwner) // lostByLease is about to call it, because of an answer
	}
	return h.lostError()
}

// announceClose ends only the channels and contexts of a hold. The hold is renewed until it
// is unlocked or Close gives up.
func (h *Hold) announceClose() {
	h.mu.Lock()
	h.closing = true
	var first, others *heldWatch
	if !h.has(lost) { // else watched ends the watches that were made after the loss
		first, others = h.takeWatchesLocked()
	}
	h.mu.Unlock()
	endWatches(h.lostToClose(), first, others)
}

func (h *Hold) lostToClose() error { return h.lostBecause(renewal.Closed, nil) }

// lostBecause makes the error of a loss.
func (h *Hold) lostBecause(why renewal.Reason, refusal error) error {
	return h.engine.errors.Lost(h.name, why, h.token, refusal)
}

// lostByLease ends a hold whose lease has ended by itself or by the answer
// that the caller just got, and returns the error to give to the user.
func (h *Hold) lostByLease(otherwise renewal.Reason) error {
	reason := otherwise
	if otherwise == renewal.TrustEnded {
		h.lease.Expire() // finds out which of its ends has come
	}
	if !h.lease.Release() {
		if r, ok := h.lease.Lost(); ok {
			reason = r // the watchdog found it first
		} else if h.has(closed) {
			reason = renewal.Closed
		}
	}
	h.Lost(reason)
	h.engine.Table.Forget(h)
	return h.lostError()
}

// lostError returns the error of a lost hold, and nil for other holds.
func (h *Hold) lostError() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostErrorLocked()
}

// reportLoss reports the loss of h, or leaves that to the caller of MarkReportable.
func (h *Hold) reportLoss() {
	if h.flags.Or(lossUnreported)&reportable == 0 {
		return
	}
	h.engine.cfg.Observer.Lost(h, h.lostError())
}
