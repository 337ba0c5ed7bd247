package hold

import (
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/renewal"
)

// forget does the work after the holder was told. Waiters go on, a field that would outlive
// its hold is left to the orphans, and the Lost hook is called.
func (l loss) forget() {
	h := l.hold
	h.k.Table.Forget(h)
	alsoReads := func() bool { return h.k.Table.Own(h.name, h.owner, locktable.Reading) != nil }
	// A hold that was renewed may end long before a lease that it was given besides, by Extend or LockFor.
	longer := (l.why == renewal.MaxHold || l.why == renewal.TrustEnded) && h.longestLease() > 0
	if longer || h.is(unsure) || h.lease.Unanswered() || h.kind.outlived(l.why, alsoReads) {
		h.orphan()
	}
	h.tellLoss()
}

// Lost implements renewal.Owner. It is called by the watchdog, or because a script's answer
// says that the hold is lost. It ends the hold once. The holder is told first. Lost waits for
// no mutex under which others do much work, because the watchdog has other holds to tell.
func (h *Hold) Lost(why renewal.Reason) {
	var refused *heldWatch
	if why == renewal.TrustEnded {
		refused = h.k.refusalOf(h)
	}
	h.mu.Lock()
	if h.why != 0 {
		h.mu.Unlock()
		return
	}
	h.why = why
	watching := h.watching
	h.watching = refused
	h.k.Counts.Lost[why].Add(1)
	h.set(lost, true)
	cause := h.lostErrorLocked()
	h.mu.Unlock()
	h.k.lost.Expect() // whoever was told and asks for Stats waits until h is not counted any more
	watching.end(cause)
	h.k.lost.AddExpected(loss{h, why})
}

// Look implements watch.Subject. So a hold that is asked answers by the clock, even if the watchdog
// is late because the process was stopped or the machine is too busy.
func (h *Hold) Look() error {
	if h.lease.Valid() {
		return nil
	}
	if reason, lost := h.lease.Expire(); lost {
		h.Lost(reason) // another goroutine may have found it, and not have come to that yet
	} else if !h.lease.Valid() && !h.is(leaving|closed) {
		h.Lost(renewal.NotOwner) // lostByLease is just doing so, because of an answer
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostErrorLocked()
}

// announceClose ends only the channels and contexts of a hold. The hold is renewed until it
// is unlocked or Close gives up.
func (h *Hold) announceClose() {
	h.mu.Lock()
	h.closing = true
	var watching *heldWatch
	if h.why == 0 {
		watching, h.watching = h.watching, nil
	}
	h.mu.Unlock()
	watching.end(h.lostToClose())
}

func (h *Hold) lostToClose() error { return h.lostBecause(renewal.Closed, nil) }

// lostBecause returns the error of a loss.
func (h *Hold) lostBecause(why renewal.Reason, refusal error) error {
	return h.k.errors.Lost(h.name, why, h.token, refusal)
}

// lostByLease ends a hold whose lease has ended by itself or by the answer
// that the caller just got, and returns the error to give to the user.
func (h *Hold) lostByLease(otherwise renewal.Reason) error {
	reason := otherwise
	if otherwise == renewal.TrustEnded {
		h.lease.Expire() // it knows which end that was
	}
	if !h.lease.Release() {
		if r, ok := h.lease.Lost(); ok {
			reason = r // the watchdog found it first
		} else if h.is(closed) {
			reason = renewal.Closed
		}
	}
	h.Lost(reason)
	h.k.Table.Forget(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostErrorLocked()
}

// lostErrorLocked returns the error of a lost hold, and nil for other holds.
func (h *Hold) lostErrorLocked() error {
	if h.why == 0 {
		return nil
	}
	var refusal error
	for w := h.watching; w != nil; w = w.next {
		if w.hold == nil {
			refusal = w.Cause()
		}
	}
	return h.lostBecause(h.why, refusal)
}
