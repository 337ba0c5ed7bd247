package watch

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
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
	case ending.Value(key) != nil:
		c.look() // context.Cause may ask nothing else
		return c.shared.Value(key)
	}
	if value := c.watch.of.Value(key); value != nil {
		return value
	}
	return c.parent.Value(key)
}

// ending has no values but those by which package context finds out when and why a context ends.
var ending, _ = context.WithCancel(context.Background())

// end is a parent without its values, because they belong to one call of Context. What is shared
// lasts longer.
type end struct {
	context.Context
	asked bool // Value was called
	found bool // the Context is no longer the parent, see Value
}

// Value answers package context, which alone asks it: first in the call that derives a context from
// e. The answer is the context by which e ends. From then on e needs nothing else of the parent.
func (e *end) Value(key any) any {
	value := e.Context.Value(key)
	if !e.asked {
		e.asked = true
		if c, ok := value.(context.Context); ok && c.Done() == e.Done() {
			e.Context, e.found = c, true
		}
	}
	return value
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
	e := &end{Context: context.Background()} // enough for a parent that never ends
	if done != nil {
		e.Context = wait.Sound(parent)
	}
	ctx, cancel := context.WithCancelCause(e)
	s = &shared{Context: ctx, cancel: cancel}
	until := ctx
	if e.found || done == nil {
		until = e.Context // its list of what waits for it exists already
	}
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
		s.stop = context.AfterFunc(until, func() {
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
