package lock

import (
	"context"
	"errors"

	"github.com/wheellock/wheellock/lock/internal/watch"
)

// heldWatch is what a Held gives out to be told by. Most Helds never need one.
type heldWatch struct {
	watch.Watch
	hold *hold // immutable; nil of an error that is kept as one, see lostErrorLocked
	// guarded by hold.mu
	next   *heldWatch // in hold.watching
	rested bool       // its Held wants no renewal any more
}

// Value implements watch.Subject: contexts carry the owner, but a permit has none.
func (h *hold) Value(key any) any {
	if h.kind == permitKind {
		return nil
	}
	return h.owner.Value(key)
}

// watched returns x's watch, which ends with x.
func (x *Held) watched() *heldWatch {
	h := x.h
	_ = h.Look()
	h.mu.Lock()
	w := x.watch
	if w == nil {
		w = &heldWatch{hold: h}
		w.Init(h)
		x.watch = w
		w.next, h.watching = h.watching, w
	}
	err := x.errLocked()
	h.mu.Unlock()
	if err != nil {
		w.End(causeOf(err))
	}
	return w
}

// end ends x's watch, because Unlock of x was called.
func (x *Held) end() {
	h := x.h
	h.mu.Lock()
	w := x.watch
	if w == nil {
		h.mu.Unlock()
		return
	}
	for p := &h.watching; *p != nil; p = &(*p).next {
		if *p == w {
			*p = w.next
			break
		}
	}
	h.mu.Unlock()
	w.End(causeOf(ErrNotHeld))
}

// end ends all of a list that no longer belongs to its hold.
func (w *heldWatch) end(cause error) {
	for ; w != nil; w = w.next {
		w.End(causeOf(cause))
	}
}

// causeOf is what a context that ends with err has as its cause.
func causeOf(err error) error {
	if errors.Is(err, ErrNotHeld) {
		return context.Canceled // the ordinary end: it was unlocked
	}
	return err
}
