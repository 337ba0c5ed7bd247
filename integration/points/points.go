// Package points has the places at which a Scheduler stops the goroutines of the
// product. They are Here, and a Mutex and a Once that replace sync.Mutex and
// sync.Once. Without a Scheduler these two do the same as in package sync.
//
// A goroutine that holds a Mutex is never stopped, so a Mutex is always free when
// all goroutines are. A goroutine that waited for a sync.Mutex would not count as
// blocked in a bubble of testing/synctest.
package points

import (
	"sync"
	"sync/atomic"
)

// current is the scheduler of this process; nil if there is none.
var current atomic.Pointer[Scheduler]

// Here is a point: a Scheduler may stop the running goroutine here. place is the kind of the point.
func Here(place string) {
	if s := current.Load(); s != nil {
		s.stopAt(place)
	}
}

// Mutex is a sync.Mutex with a point before Lock and one after Unlock.
type Mutex struct {
	mu sync.Mutex
}

var _ sync.Locker = (*Mutex)(nil)

// Lock is sync.Mutex.Lock.
func (m *Mutex) Lock() {
	Here("lock")
	m.mu.Lock()
	addHeldMutexes(1)
}

// TryLock is sync.Mutex.TryLock.
func (m *Mutex) TryLock() bool {
	Here("try")
	if !m.mu.TryLock() {
		return false
	}
	addHeldMutexes(1)
	return true
}

// Unlock is sync.Mutex.Unlock.
func (m *Mutex) Unlock() {
	m.mu.Unlock()
	addHeldMutexes(-1)
	Here("unlock")
}

// addHeldMutexes notes that the running goroutine holds one mutex more, or less.
func addHeldMutexes(n int) {
	if s := current.Load(); s != nil {
		s.addHeldMutexes(n)
	}
}

// Once is a sync.Once whose function may stop at points. Goroutines that wait for its end
// count as blocked.
type Once struct {
	mu   sync.Mutex
	done chan struct{} // closed when f has returned; nil before Do; guarded by mu
}

// Do is sync.Once.Do.
func (o *Once) Do(f func()) {
	o.mu.Lock()
	done := o.done
	if done == nil {
		o.done = make(chan struct{})
	}
	o.mu.Unlock()
	if done != nil {
		<-done
		return
	}
	defer close(o.done)
	f()
}
