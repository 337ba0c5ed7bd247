package hold

import (
	"runtime"

	"github.com/wheellock/wheellock/lock/internal/record"
)

// notice makes the client notice a forgotten x. That is a Held without Unlock that the
// garbage collector finds unreachable.
func (x *Held) notice() {
	runtime.AddCleanup(x, forgotten, forgettable{x.watched(), x.renewed})
}

// DropsForgotten reports whether x is dropped if it is forgotten.
func (x *Held) DropsForgotten() bool { return x.h.k.cfg.DropForgotten }

// Forget drops x, because a lock of several members of which x is one was forgotten.
func (x *Held) Forget() {
	if x.DropsForgotten() && x.Renewed() && x.Valid() {
		x.h.k.cfg.Logger.Log(record.HeldDropped, x.h.name)
		x.Rest()
	}
}

// forgettable has the data that is kept of a collected Held.
type forgettable struct {
	watch   *heldWatch
	renewed bool
}

// forgotten ends the renewal for a Held. The lock is lost when the lease ends. It is not
// released at once, because work may still go on under it.
func forgotten(x forgettable) {
	h := x.watch.hold
	h.mu.Lock()
	drop := x.renewed && !x.watch.rested && !h.has(leaving|lost)
	if drop {
		x.watch.rested = true
		h.renewing--
	}
	h.mu.Unlock()
	if !drop {
		return
	}
	h.k.cfg.Logger.Log(record.HeldDropped, h.name)
	h.settle()
}
