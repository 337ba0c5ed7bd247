package hold

// Rest says that x no longer needs renewal of the hold. When no Held needs renewal, the
// hold ends with its longest lease.
func (x *Held) Rest() {
	x.h.mu.Lock()
	last := x.restLocked()
	x.h.mu.Unlock()
	if last {
		x.h.settle()
	}
}

// restLocked is Rest, but for the watchdog. It reports whether no Held needs renewal any more, so
// that the caller must call settle, unless the lease has ended.
func (x *Held) restLocked() (last bool) {
	if !x.renewed {
		return false
	}
	x.renewed = false
	x.h.renewing--
	if x.watch != nil {
		x.watch.rested = true
	}
	return x.h.renewing == 0
}

// isRenewed reports whether some Held of h needs renewal.
func (h *Hold) isRenewed() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.renewing > 0
}

// settle makes the watchdog renew the hold, or stop renewing it, as its Helds need now.
func (h *Hold) settle() {
	for again := true; again; {
		fixed := !h.isRenewed()
		h.lease.SetFixed(fixed)
		if l := h.k.lane(h.name); l != nil && !fixed {
			l.Open()
		}
		h.mu.Lock()
		again = fixed != (h.renewing == 0) // changed meanwhile: who did that may have come before us
		h.mu.Unlock()
	}
}
