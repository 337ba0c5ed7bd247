package hold

import (
	"context"
	"time"
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
func (x *Held) Valid() bool { return x.state.Load() == isHeld && x.h.lease.Valid() }

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
	case x.state.Load() != isHeld:
		return h.k.errors.NotHeld(h.name)
	case h.has(lost):
		return h.ends.lost
	case h.closing:
		return h.lostToClose()
	case h.has(leaving): // its Unlock went unanswered
		return h.k.errors.NotHeld(h.name)
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
	if h.k.cfg.DropForgotten {
		x.notice()
	}
	return x
}
