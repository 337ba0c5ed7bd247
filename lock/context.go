package lock

import (
	"context"
	"sync"
	"time"
)

// heldContext is what Held.Context returns: a view of the context that its
// parents of one Done channel share, with the values of its own parent. So a
// hold keeps something for each such channel, not for each call.
type heldContext struct {
	parent context.Context // its values and its deadline
	shared context.Context // its end: that of the parent or of the Held
	owner  owner           // zero if it carries none
}

func (c *heldContext) Deadline() (time.Time, bool) { return c.parent.Deadline() }
func (c *heldContext) Done() <-chan struct{}       { return c.shared.Done() }
func (c *heldContext) Err() error                  { return c.shared.Err() }

// AfterFunc lets children be cancelled without a goroutine of theirs, see
// context.AfterFunc.
func (c *heldContext) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.shared, f) }

func (c *heldContext) Value(key any) any {
	switch {
	case key == ownerKey{} && c.owner != owner{}:
		return ownerOrError{owner: c.owner}
	case key != nil && key == cancelKey():
		return c.shared.Value(key)
	}
	return c.parent.Value(key)
}

// cancelKey is the key under which package context finds the nearest context
// that can be cancelled, to attach children to it and to read its cause.
var cancelKey = sync.OnceValue(func() any {
	asked := &keyProbe{Context: context.Background()}
	_ = context.Cause(asked)
	return asked.key
})

// keyProbe is a context that has ended and notes which value it is asked for
// first.
type keyProbe struct {
	context.Context
	key any
}

func (p *keyProbe) Err() error { return context.Canceled }

func (p *keyProbe) Value(key any) any {
	if p.key == nil {
		p.key = key
	}
	return nil
}

// shared is a context that ends with those parents that have the same Done
// channel, and with its watch.
type shared struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   func() bool // forgets it no more when it ends
}

// context returns a context that ends with parent and with w, and carries o if
// it is not zero.
func (w *watch) context(parent context.Context, o owner) context.Context {
	return &heldContext{parent: parent, shared: w.sharedWith(parent), owner: o}
}

// sharedWith returns what contexts derived from parent share.
func (w *watch) sharedWith(parent context.Context) context.Context {
	done := parent.Done()
	w.mu.Lock()
	s, ok := w.shared[done]
	w.mu.Unlock()
	if ok {
		return s
	}
	base := context.Background() // of a parent that never ends nothing is needed
	if done != nil {
		base = parent
		// The values that stand between are those of one call.
		if c, ok := parent.Value(cancelKey()).(context.Context); ok && c.Done() == done {
			base = c
		}
	}
	ctx, cancel := context.WithCancelCause(base)
	s = &shared{Context: ctx, cancel: cancel}
	w.mu.Lock()
	other, ok := w.shared[done]
	cause := w.cause
	if !ok && cause == nil {
		if w.shared == nil {
			w.shared = make(map[<-chan struct{}]*shared)
		}
		w.shared[done] = s
		s.stop = context.AfterFunc(ctx, func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			if w.shared[done] == s {
				delete(w.shared, done)
			}
		})
	}
	w.mu.Unlock()
	switch {
	case ok:
		cancel(nil)
		return other
	case cause != nil:
		cancel(causeOf(cause))
	}
	return s
}
