package hold

import "context"

// Returned notes that a call returns with h, and reports whether it is the first one: others
// have re-entered. Nothing is told of a hold that no call has returned with.
func (h *Hold) Returned() (first bool) { return !h.set(seen, true) }

// Announced notes that users were told of h. If it was lost before, it returns why, and who
// announces h tells of the loss; if it is lost later, Observer.Lost is called.
func (h *Hold) Announced() error {
	if h.marks.Or(announced)&untold == 0 {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lostErrorLocked()
}

// tellLoss tells of the loss of h, or leaves that to Announced.
func (h *Hold) tellLoss() {
	if h.marks.Or(untold)&announced == 0 {
		return
	}
	h.mu.Lock()
	err := h.lostErrorLocked()
	h.mu.Unlock()
	h.k.cfg.Observer.Lost(h, err)
}

// tellReleased counts the last Unlock of h, and tells how it ended.
func (h *Hold) tellReleased(ctx context.Context, err error) {
	if !h.is(seen) {
		return
	}
	if err == nil {
		h.k.Counts.Released.Add(1)
	}
	h.k.cfg.Observer.Released(ctx, h, err)
}
