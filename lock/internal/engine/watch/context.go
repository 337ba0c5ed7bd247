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
	shared *sharedEnd      // has the end, which comes from the parent or from the Watch
	watch  *Watch
	outer  *derived // the nearest one of another subject from which parent was derived; nil if there is none
}

// outerKey is the key under which a context finds the nearest derived one.
type outerKey struct{}

func (c *derived) Deadline() (time.Time, bool) { return c.parent.Deadline() }

// Done calls checkSubject first, so that the channel is closed if the subject has ended.
func (c *derived) Done() <-chan struct{} {
	c.checkSubject()
	return c.shared.Done()
}

// Err calls checkSubject first, as Done does.
func (c *derived) Err() error {
	c.checkSubject()
	return c.shared.Err()
}

// checkSubject ends what c shares if its Watch has ended, or the Watch of a context from which c was
// derived. Contexts that were derived from c end with it.
func (c *derived) checkSubject() {
	for ; c != nil && c.shared.Err() == nil; c = c.outer {
		c.watch.Look()
		if cause := c.watch.Cause(); cause != nil {
			c.shared.cancel(cause)
		}
	}
}

// AfterFunc lets package context cancel children without a goroutine for each, see
// context.AfterFunc.
func (c *derived) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(c.shared, f) }

func (c *derived) Value(key any) any {
	switch {
	case key == outerKey{}:
		return c
	case ending.Value(key) != nil:
		c.checkSubject() // context.Cause may ask nothing else
		return c.shared.Value(key)
	}
	if value := c.watch.subject.Value(key); value != nil {
		return value
	}
	return c.parent.Value(key)
}

// ending has a value only for the private key by which package context finds the context that ends
// another one, and its cause.
var ending, _ = context.WithCancel(context.Background())

// end is a parent without its values, because these belong to one call of Context, and a
// sharedEnd lasts longer.
type end struct {
	context.Context
	isAsked    bool // Value was called
	isReplaced bool // Context is no longer the parent, see Value
}

// Value answers package context. No other package calls it. The first call comes when a context is
// derived from e. The answer to that call is the context by which e ends, so e needs nothing else of
// the parent from then on.
func (e *end) Value(key any) any {
	value := e.Context.Value(key)
	if !e.isAsked {
		e.isAsked = true
		if c, ok := value.(context.Context); ok && c.Done() == e.Done() {
			e.Context, e.isReplaced = c, true
		}
	}
	return value
}

// sharedEnd is a context that ends with its Watch, and with all parents that have one Done
// channel.
type sharedEnd struct {
	context.Context
	cancel context.CancelCauseFunc
	stop   func() bool // cancels the wait for its end, which would remove it from its Watch
	id     int         // its number in the Watch, in the order of creation
}

// Context returns a context that ends when parent or w ends. It also carries the values of w's
// Subject.
func (w *Watch) Context(parent context.Context) context.Context {
	outer, _ := parent.Value(outerKey{}).(*derived)
	for outer != nil && outer.watch.subject == w.subject { // they end together
		outer = outer.outer
	}
	return &derived{parent: parent, shared: w.sharedWith(parent), watch: w, outer: outer}
}

// sharedWith returns what contexts derived from parent share.
func (w *Watch) sharedWith(parent context.Context) *sharedEnd {
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
	s = &sharedEnd{Context: ctx, cancel: cancel}
	until := ctx
	if e.isReplaced || done == nil {
		until = e.Context // it already has a list of its waiters
	}
	w.mu.Lock()
	other, ok := w.shared[done]
	cause := w.cause
	if !ok && cause == nil {
		if w.shared == nil {
			w.shared = make(map[<-chan struct{}]*sharedEnd)
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
