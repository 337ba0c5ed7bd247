package watch

import (
	"context"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/wait"
)

// derived is what Context returns. It has the values of its own parent, and its end from the
// context that all parents with the same Done channel share. So a Watch keeps one record for
// each such channel, not for each call.
type derived struct {
	parent context.Context // has the values and the deadline
	shared *shared         // has the end, which comes from the parent or from the Watch
	watch  *Watch
	outer  *derived // the one from which parent was derived; nil if there is none
}

// outerKey is the key under which a context finds the nearest derived one.
type outerKey struct{}

func (c *derived) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done calls look first, so that the channel is closed if the subject has ended.
func (c *derived) Done() <-chan struct{} {
	c.look()
	return c.shared.Done()
}

// Err calls look first, as Done does.
func (c *derived) Err() error {
	c.look()
	return c.shared.Err()
}

// look ends what c shares if its Watch has ended, or the Watch of a context from which c was
// derived. Contexts that were derived from c end with it.
func (c *derived) look() {
	for ; c != nil && c.shared.Err() == nil; c = c.outer {
		c.watch.Look()
		if cause := c.watch.Cause(); cause != nil {
			c.shared.cancel(cause)
		}
	}
}

// AfterFunc lets children be cancelled without a goroutine of theirs, see
// context.AfterFunc.
func (c *derived) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.shared, f) }

func (c *derived) Value(key any) any {
	switch {
	case key == outerKey{}:
		return c
	case key != nil && key == cancelKey():
		c.look() // context.Cause asks only for this key
		return c.shared.Value(key)
	}
	if value := c.watch.of.Value(key); value != nil {
		return value
	}
	return c.parent.Value(key)
}

// cancelKey is the key under which package context finds the nearest context
// that can be cancelled, to attach children to it and to read its cause.
var cancelKey = sync.OnceValue(func() any {
	asked := &keyNote{Context: context.Background()}
	_ = context.Cause(asked)
	return asked.key
})

// keyNote is a context that has ended and notes which value it is asked for
// first.
type keyNote struct {
	context.Context
	key any
}

func (p *keyNote) Err() error { return context.Canceled }

func (p *keyNote) Value(key any) any {
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
	stop   func() bool // ends the wait that removes it from its Watch
	id     int         // its number in the Watch, in the order of creation
}

// Context returns a context that ends when parent or w ends. It also carries the values of w's
// Subject.
func (w *Watch) Context(parent context.Context) context.Context {
	outer, _ := parent.Value(outerKey{}).(*derived)
	for outer != nil && outer.watch.of == w.of { // they end together
		outer = outer.outer
	}
	return &derived{parent: parent, shared: w.sharedWith(parent), watch: w, outer: outer}
}

// sharedWith returns what contexts derived from parent share.
func (w *Watch) sharedWith(parent context.Context) *shared {
	done := parent.Done()
	w.mu.Lock()
	s, ok := w.shared[done]
	w.mu.Unlock()
	if ok {
		return s
	}
	base := context.Background() // enough for a parent that never ends
	if done != nil {
		base = wait.Sound(parent)
		// The contexts in between only add values, and those belong to one call.
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
		s.id = w.nextID
		w.nextID++
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
		cancel(cause)
	}
	return s
}
