package lock

import (
	"context"
	"errors"
	"sync"
)

// watch is what a Held gives out to be told by: a channel and contexts. Most
// Helds never need one.
type watch struct {
	hold *hold
	// guarded by hold.mu
	next   *watch // in hold.watching
	rested bool   // its Held wants no renewal any more

	done chan struct{}

	mu      sync.Mutex                  // guards what follows; taken last
	cause   error                       // why it ended; nil before
	shared  map[<-chan struct{}]*shared // by the Done channel of the parents; nil is that of those that never end
	cancels map[int]context.CancelCauseFunc
	nextID  int
}

// watched returns x's watch, which ends with x.
func (x *Held) watched() *watch {
	h := x.h
	h.mu.Lock()
	w := x.watch
	if w == nil {
		w = &watch{hold: h, done: make(chan struct{})}
		x.watch = w
		w.next, h.watching = h.watching, w
	}
	err := x.errLocked()
	h.mu.Unlock()
	if err != nil {
		w.endOne(err)
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
	w.endOne(ErrNotHeld)
}

// end ends all of a list that no longer belongs to its hold.
func (w *watch) end(cause error) {
	for ; w != nil; w = w.next {
		w.endOne(cause)
	}
}

// endOne closes the channel and cancels the contexts, once.
func (w *watch) endOne(cause error) {
	w.mu.Lock()
	if w.cause != nil {
		w.mu.Unlock()
		return
	}
	w.cause = cause
	contexts, cancels := w.shared, w.cancels
	w.shared, w.cancels = nil, nil
	close(w.done)
	w.mu.Unlock()
	for _, s := range contexts {
		s.stop()
		s.cancel(causeOf(cause))
	}
	for _, cancel := range cancels {
		cancel(causeOf(cause))
	}
}

// cancelWith makes cancel be called when w ends, unless ctx, which it cancels,
// has ended by then.
func (w *watch) cancelWith(ctx context.Context, cancel context.CancelCauseFunc) {
	w.mu.Lock()
	if w.cause != nil {
		cause := w.cause
		w.mu.Unlock()
		cancel(causeOf(cause))
		return
	}
	if w.cancels == nil {
		w.cancels = make(map[int]context.CancelCauseFunc)
	}
	id := w.nextID
	w.nextID++
	w.cancels[id] = cancel
	w.mu.Unlock()
	context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.cancels, id)
	})
}

// causeOf is what a context that ends with err has as its cause.
func causeOf(err error) error {
	if errors.Is(err, ErrNotHeld) {
		return context.Canceled // the ordinary end: it was unlocked
	}
	return err
}
