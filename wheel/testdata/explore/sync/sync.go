// Package sync replaces the standard one where the wheel is explored: see sched.
package sync

import "explored/sched"

// Mutex is a lock, which must be watched. There is a point before it is taken.
type Mutex struct {
	o      sched.Object
	locked bool
	holder any
}

// Held reports whether the running thread has m.
func (m *Mutex) Held() bool { return m.locked && m.holder == sched.Current() }

func (m *Mutex) free() bool { return !m.locked }

func (m *Mutex) Lock() {
	if sched.Off() {
		return
	}
	sched.PointIf(&m.o, "lock", m.free)
	m.locked, m.holder = true, sched.Current()
	sched.See(sched.Value(&m.o))
	sched.Set(&m.o, 1)
}

func (m *Mutex) Unlock() {
	if sched.Off() {
		return
	}
	m.locked = false
	sched.History(&m.o)
}

// Pool always gives the same object.
type Pool struct {
	New func() any
	x   any
}

func (p *Pool) Get() any {
	if p.x == nil {
		p.x = p.New()
	}
	return p.x
}

func (p *Pool) Put(any) {}

// Watch makes Lock of m a point.
func (m *Mutex) Watch(name string) { sched.Watch(&m.o, name) }
