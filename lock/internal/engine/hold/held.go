package hold

import (
	"context"
	"runtime"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/watch"
	"github.com/wheellock/wheellock/lock/internal/support/record"
)

// Name returns the lock's key in Redis.
func (x *Held) Name() string { return x.h.name }

// Token returns the fencing token, or 0 if the kind has none.
func (x *Held) Token() int64 { return x.h.token }

// Permits returns the ids of permits in Redisson's form, or nil for a lock.
func (x *Held) Permits() []string {
	if x.h.kind != Permits {
		return nil
	}
	return permitIDs(x.h.owner).hex()
}

// Count returns how many Helds share this hold now, including this one.
func (x *Held) Count() int {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return int(x.h.count)
}

// Valid reports whether x is held now: not unlocked, not lost, and safe by the clock.
func (x *Held) Valid() bool { return x.state.Load() == stateHeld && x.h.lease.Valid() }

// Deadline returns the time until which x is safe, as it is now.
func (x *Held) Deadline() time.Time { return x.h.lease.Deadline() }

// Done returns a channel that is closed when x ends, or when the client begins to close.
func (x *Held) Done() <-chan struct{} { return x.watched().Done() }

// Err returns why x has ended, or nil while x is held. It reads the clock.
func (x *Held) Err() error {
	_ = x.h.Look()
	x.h.mu.Lock()
	w := x.watch
	err := x.errLocked()
	x.h.mu.Unlock()
	if err != nil && w != nil {
		w.End(err)
	}
	return err
}

// errLocked returns the result of Err, which is also the cause of the end of x's contexts.
func (x *Held) errLocked() error {
	h := x.h
	switch {
	case x.state.Load() != stateHeld:
		return h.engine.errors.NotHeld(h.name)
	case h.has(lost):
		return h.ends.lost
	case h.closing:
		return h.lostToClose()
	case h.has(leaving): // its Unlock went unanswered
		return h.engine.errors.NotHeld(h.name)
	}
	return nil
}

// Context returns a context that carries the owner and ends with x.
func (x *Held) Context(parent context.Context) context.Context {
	return x.watched().Context(parent)
}

// watched returns x's watch, which ends with x.
func (x *Held) watched() *heldWatch {
	h := x.h
	_ = h.Look()
	h.mu.Lock()
	w := x.watch
	if w == nil {
		w = h.newWatchLocked()
		x.watch = w
	}
	cause := x.errLocked()
	h.mu.Unlock()
	if cause != nil {
		w.End(cause)
	}
	return w
}

// anotherHeld is a Held outside its Hold, for a re-entry or to notice a forgotten Held.
func (h *Hold) anotherHeld(renewed bool) *Held {
	x := &Held{}
	x.begin(h, renewed)
	if h.engine.cfg.DropForgotten {
		x.notice()
	}
	return x
}

// heldWatch has the channel and the contexts of a Held. Most Helds never need one.
type heldWatch struct {
	watch.Watch
	hold *Hold // immutable; nil before Init
	// guarded by hold.mu
	next     *heldWatch // see ends
	rested   bool       // its Held wants no renewal any more
	unlisted bool       // it does not end with the hold any more
}

// ends has what ends with a hold, and the error of its loss. The first Done or Context of a Held, or
// the loss, makes it. Hold.mu guards the fields, and is not held while a watch ends.
type ends struct {
	first  heldWatch     // of the Held that asked first; other watches that end with the hold follow it
	onLoss []func(error) // see OnLoss
	lost   error         // made once; nil while the hold is not lost
}

// newWatchLocked makes the watch of a Held.
func (h *Hold) newWatchLocked() *heldWatch {
	e := h.endsLocked()
	w := &e.first
	if w.hold != nil {
		w = &heldWatch{next: e.first.next}
		e.first.next = w
	}
	w.hold = h
	w.Init(h)
	return w
}

// endsLocked makes h.ends, if it is not there.
func (h *Hold) endsLocked() *ends {
	if h.ends == nil {
		h.ends = new(ends)
	}
	return h.ends
}

// unlistLocked drops w, which ends before its hold.
func (h *Hold) unlistLocked(w *heldWatch) {
	w.unlisted = true
	for p := &h.ends.first.next; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			return
		}
	}
}

// takeWatchesLocked takes the watches from h. The caller ends them without h.mu.
func (h *Hold) takeWatchesLocked() (first, others *heldWatch) {
	e := h.ends
	if e == nil {
		return nil, nil
	}
	if e.first.hold != nil && !e.first.unlisted {
		first, e.first.unlisted = &e.first, true
	}
	others, e.first.next = e.first.next, nil
	return first, others
}

// endWatches ends what takeWatchesLocked has returned.
func endWatches(cause error, first, others *heldWatch) {
	if first != nil {
		first.End(cause)
	}
	for w := others; w != nil; w = w.next {
		w.End(cause)
	}
}

// notice makes the client notice a forgotten x. That is a Held without Unlock that the
// garbage collector finds unreachable.
func (x *Held) notice() {
	runtime.AddCleanup(x, forgotten, forgettable{x.watched(), x.renewed})
}

// DropsForgotten reports whether x is dropped if it is forgotten.
func (x *Held) DropsForgotten() bool { return x.h.engine.cfg.DropForgotten }

// Forget drops x, because the lock of several members to which x belongs was forgotten.
func (x *Held) Forget() {
	if x.DropsForgotten() && x.Renewed() && x.Valid() {
		x.h.engine.cfg.Logger.Log(record.HeldDropped, x.h.name)
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
	h.engine.cfg.Logger.Log(record.HeldDropped, h.name)
	h.settle()
}

// The methods below are for locks of several members, and for members that are taken again.

// Watch ends when x does, see Done.
func (x *Held) Watch() *watch.Watch { return &x.watched().Watch }

// OnLoss calls f with the cause when the hold is lost, or at once if it is lost already. The watch may
// have ended before, because the client began to close. The watchdog calls f, so f must not block.
func (x *Held) OnLoss(f func(cause error)) {
	x.h.mu.Lock()
	cause := x.h.lostErrorLocked()
	if cause == nil {
		e := x.h.endsLocked()
		e.onLoss = append(e.onLoss, f)
	}
	x.h.mu.Unlock()
	if cause != nil {
		f(cause)
	}
}

// Ended reports whether the hold is lost. Close may have released its lease before, see
// Config.ReleaseOnClose.
func (x *Held) Ended() bool { return x.h.IsLost() || x.h.IsLeaseLost() }

// Renewed reports whether x needs renewal.
func (x *Held) Renewed() bool {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return x.renewed
}

// MaxHoldEnd returns when Config.MaxHold ends the hold, or zero if it does not.
func (h *Hold) MaxHoldEnd() time.Time { return h.lease.MaxHoldEnd() }

// Valid reports whether the lease has not ended, as far as the clock can tell.
func (h *Hold) Valid() bool { return h.lease.Valid() }

// InBackground runs f, which unlocks x as a member, on a goroutine that Close waits for. f must be short
// once the client is closed.
func (x *Held) InBackground(f func()) {
	k, name := x.h.engine, x.h.name
	k.Table.Begin(name, false)
	go k.cfg.Labeler.Label("unlock a member", func() {
		defer k.Table.End(name)
		f()
	})()
}
