package lock

// loss is a hold that was lost, and why.
type loss struct {
	hold  *hold
	cause *LostError
}

// forget does what comes after the holder was told: waiters go on, a field that
// would outlive its hold is owed, and the Lost hook is told.
func (l loss) forget() {
	l.hold.c.table.Forget(l.hold)
	if l.hold.is(unsure) || l.hold.lease.Unanswered() {
		l.hold.orphan()
	} else {
		l.hold.kind.rules().orphanOutlived(l.hold, l.cause.Reason)
	}
	l.hold.tellLoss()
}

// Lost implements renewal.Owner. It is called by the watchdog, or by a script's
// answer that says so, and ends the hold once.
func (h *hold) Lost(r Reason) {
	h.lose(&LostError{Name: h.name, Reason: r, Token: h.token})
}

// lose ends the hold. The holder is told first, and nothing here waits for a lock
// under which others do much: the watchdog has other holds to tell.
func (h *hold) lose(cause *LostError) {
	var refused *heldWatch
	if cause.Reason == TrustEnded {
		if refused = h.c.refusalOf(h); refused != nil {
			cause.Err = refused.Cause()
		}
	}
	h.mu.Lock()
	if h.why != 0 {
		h.mu.Unlock()
		return
	}
	h.why = cause.Reason
	watching := h.watching
	h.watching = refused
	h.c.counts.lost[cause.Reason].Add(1)
	h.set(lost, true)
	h.mu.Unlock()
	h.c.lost.expect() // whoever was told and asks for Stats waits until h is not counted any more
	watching.end(cause)
	h.c.lost.addExpected(loss{h, cause})
}

// Look implements watch.Subject. So whoever asks a hold is told the truth by the clock, however late
// the watchdog is: after the process was stopped, or while the machine is too busy.
func (h *hold) Look() error {
	if h.lease.Valid() {
		return nil
	}
	if reason, lost := h.lease.Expire(); lost {
		h.Lost(reason) // another goroutine may have found it, and not have come to that yet
	} else if !h.lease.Valid() && !h.is(leaving|closed) {
		h.Lost(NotOwner) // lostByLease is just doing so, because of an answer
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if cause := h.lostErrorLocked(); cause != nil {
		return cause
	}
	return nil
}

// announceClose ends the channels and contexts of a hold, and no more: it is
// renewed until it is unlocked or Close gives up.
func (h *hold) announceClose() {
	h.mu.Lock()
	h.closing = true
	var watching *heldWatch
	if h.why == 0 {
		watching, h.watching = h.watching, nil
	}
	h.mu.Unlock()
	watching.end(h.lostToClose())
}

func (h *hold) lostToClose() *LostError {
	return &LostError{Name: h.name, Reason: Closed, Token: h.token}
}

// lostByLease ends a hold whose lease has ended by itself or by the answer
// that the caller just got, and returns the error to give to the user.
func (h *hold) lostByLease(otherwise Reason) *LostError {
	reason := otherwise
	if otherwise == TrustEnded {
		h.lease.Expire() // it knows which end that was
	}
	if !h.lease.Release() {
		if r, ok := h.lease.Lost(); ok {
			reason = r // the watchdog found it first
		} else if h.is(closed) {
			reason = Closed
		}
	}
	h.Lost(reason)
	h.c.table.Forget(h)
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostErrorLocked()
}

// lostErrorLocked is the error of a hold that is lost, nil of others.
func (h *hold) lostErrorLocked() *LostError {
	if h.why == 0 {
		return nil
	}
	e := &LostError{Name: h.name, Reason: h.why, Token: h.token}
	for w := h.watching; w != nil; w = w.next {
		if w.hold == nil {
			e.Err = w.Cause()
		}
	}
	return e
}
