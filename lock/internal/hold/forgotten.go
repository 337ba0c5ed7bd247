package hold

import "runtime"

// notice makes the client notice if x is forgotten: if the collector finds that
// nobody has it any more, and it was not unlocked.
func (x *Held) notice() {
	runtime.AddCleanup(x, forgotten, forgettable{x.watched(), x.renewed})
}

// forgettable is what is left of a Held that was collected.
type forgettable struct {
	watch   *heldWatch
	renewed bool
}

// forgotten ends the renewal that a Held asked for. Its lock is lost when the
// lease ends: only time tells that nothing works under it any more.
func forgotten(x forgettable) {
	h := x.watch.hold
	h.mu.Lock()
	drop := x.renewed && !x.watch.rested && h.why == 0 && !h.is(leaving)
	if drop {
		x.watch.rested = true
		h.renewing--
	}
	h.mu.Unlock()
	if !drop {
		return
	}
	h.k.cfg.Logger.Warn("lock: a Held was dropped without Unlock; its lock is not renewed any more: unlock every Held", "name", h.name)
	h.settle()
}
