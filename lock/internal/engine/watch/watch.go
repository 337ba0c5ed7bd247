package watch

import (
	"maps"
	"slices"
	"sync"
)

// Subject is what a Watch watches: a hold of one lock or of several locks.
type Subject interface {
	// Look returns why the subject has ended, or nil if it has not. It is called without any
	// mutex held, so it may end the subject, for example because the lock is no longer safe by
	// the clock.
	Look() error
	// Value returns what the contexts of the subject carry under a key, or nil.
	Value(key any) any
}

// Watch is a channel and contexts that end together, once, with a cause. Make one with
// Init. All methods are safe for concurrent use.
type Watch struct {
	subject Subject       // immutable
	done    chan struct{} // immutable

	mu     sync.Mutex                     // guards the fields below; taken last
	cause  error                          // why it ended; nil before
	shared map[<-chan struct{}]*sharedEnd // by the Done channel of the parents; the key nil is for parents that never end
	nextID int
	onEnd  []func(cause error) // see OnEnd

	cancelling sync.WaitGroup // the call of End that cancels the contexts; begun under mu
}

// Init makes the zero Watch watch a subject.
func (w *Watch) Init(of Subject) { w.subject, w.done = of, make(chan struct{}) }

// Done returns the channel that is closed when w ends.
func (w *Watch) Done() <-chan struct{} { return w.done }

// Look ends w if its subject has ended, even if another goroutine is about to end w.
func (w *Watch) Look() {
	if cause := w.subject.Look(); cause != nil {
		w.End(cause)
	}
}

// Cause returns why w has ended, or nil if it has not.
func (w *Watch) Cause() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.cause
}

// EndAll is End, and waits until all contexts are cancelled, even if another goroutine ends w. A
// function that was given to OnEnd must not call it.
func (w *Watch) EndAll(cause error) {
	w.End(cause)
	w.cancelling.Wait()
}

// End closes the channel and cancels the contexts, once. When End returns, the channel is closed.
// Another goroutine that ends w may still be cancelling contexts then.
func (w *Watch) End(cause error) {
	w.mu.Lock()
	if w.cause != nil {
		w.mu.Unlock()
		return
	}
	w.cause = cause
	contexts, onEnd := w.shared, w.onEnd
	w.shared, w.onEnd = nil, nil
	close(w.done)
	w.cancelling.Add(1)
	defer w.cancelling.Done()
	w.mu.Unlock()
	for _, s := range slices.SortedFunc(maps.Values(contexts), func(a, b *sharedEnd) int { return a.id - b.id }) { // in the order in which they were made
		s.stop()
		s.cancel(cause)
	}
	for _, f := range onEnd {
		f(cause)
	}
}

// OnEnd calls f with the cause when w ends, after it has cancelled the contexts, or at once if w has
// already ended.
func (w *Watch) OnEnd(f func(cause error)) {
	w.mu.Lock()
	cause := w.cause
	if cause == nil {
		w.onEnd = append(w.onEnd, f)
	}
	w.mu.Unlock()
	if cause != nil {
		f(cause)
	}
}

// Kept returns how many records w keeps for its contexts.
func (w *Watch) Kept() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.shared) + len(w.onEnd)
}
