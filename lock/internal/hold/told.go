package hold

import "context"

// Returned records that a call returns with h. It reports whether that call is the first one,
// because later calls are re-entries. A hold that no call has returned with is not reported to
// users.
func (h *Hold) Returned() (first bool) { return !h.set(seen, true) }

// Announced records that users were told of h. If h was lost before, Announced returns why, and
// the caller must report the loss. If h is lost later, Observer.Lost is called.
func (h *Hold) Announced() error {
	if h.marks.Or(announced)&untold == 0 {
		return nil
	}
	return h.lostError()
}

// tellLoss reports the loss of h, or leaves that to the caller of Announced.
func (h *Hold) tellLoss() {
	if h.marks.Or(untold)&announced == 0 {
		return
	}
	h.k.cfg.Observer.Lost(h, h.lostError())
}

// tellReleased counts the last Unlock of h, and reports how it ended.
func (h *Hold) tellReleased(ctx context.Context, err error) {
	if !h.is(seen) {
		return
	}
	if err == nil {
		h.k.Counts.Released.Add(1)
	}
	h.k.cfg.Observer.Released(ctx, h, err)
}
