package main

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
	"github.com/zeromicro/go-zero/core/collection"

	"github.com/wheellock/wheellock/wheel"
)

const (
	tick  = 10 * time.Millisecond
	slots = 1024
)

// note is the caller's own part of a record: each fire writes to it.
type note struct {
	due   int64 // ns from the meter's start
	last  int32 // lateness of the last fire in the window, µs; worst is the largest
	worst int32
	fires int32
	early int32
}

const noteBytes = 24

// the is the meter of this process. Callbacks find it here, so that none of them has to hold it.
var the = &meter{start: time.Now(), done: make(chan int64, 1)}

// meter is what all callbacks share.
type meter struct {
	start  time.Time
	period time.Duration // re-arm after it; 0: do not
	watch  atomic.Bool   // the window is open
	left   atomic.Int64  // fires of a burst that are still to come
	first  atomic.Int64  // when the first fire of a burst came
	done   chan int64    // gets the time of the last fire of a burst
}

func (m *meter) now() int64 { return int64(time.Since(m.start)) }

// fired notes a fire at now. It returns the delay to the next one, counted from the nominal deadline.
func (m *meter) fired(n *note, now int64) time.Duration {
	late := now - n.due
	if late < 0 {
		n.early++
	}
	if m.watch.Load() {
		n.fires++
		n.last = int32(late / 1000)
		n.worst = max(n.worst, n.last)
	}
	for n.due += int64(m.period); n.due <= now; n.due += int64(m.period) {
	}
	return time.Duration(n.due - now)
}

// burst counts a fire of a burst.
func (m *meter) burst(n *note) {
	n.fires++
	if m.first.Load() == 0 {
		now := m.now()
		m.first.CompareAndSwap(0, now)
		if now < n.due {
			n.early++
		}
	}
	if m.left.Add(-1) == 0 {
		m.done <- m.now()
	}
}

func (m *meter) fire(n *note) (again time.Duration) {
	if m.period == 0 {
		m.burst(n)
		return 0
	}
	return m.fired(n, m.now())
}

// impl holds n timers, armed in random order with the given delays; each re-arms itself as the meter says.
type impl interface {
	notes() func(i int) *note
	wakeUps() int64
	close()
}

// arm arms n timers in random order. at is when each is due, counted from the meter's start.
func arm(name string, n int, at func() time.Duration) impl {
	order := rand.Perm(n)
	switch name {
	case "wheel":
		return armOurs(order, at)
	case "afterfunc":
		return armAfterFunc(order, at)
	case "timingwheel":
		return armTimingWheel(order, at)
	case "gozero":
		return armGoZero(order, at)
	case "antlabs":
		return armAntlabs(order, at)
	case "none":
		return none(make([]note, n))
	}
	panic("no such implementation: " + name)
}

func (m *meter) delay(n *note, at time.Duration) time.Duration {
	n.due = int64(at)
	return at - time.Duration(m.now())
}

type none []note

func (o none) notes() func(int) *note { return func(i int) *note { return &o[i] } }
func (o none) wakeUps() int64         { return 0 }
func (o none) close()                 {}

type oursRecord struct {
	timer wheel.Timer
	note
}

func (r *oursRecord) Fire(t *wheel.Timer) {
	if the.fire(&r.note) > 0 {
		_ = t.Next(the.period)
	}
}

type ours struct {
	w  *wheel.Wheel
	rs []oursRecord
}

func armOurs(order []int, at func() time.Duration) impl {
	w, err := wheel.New(wheel.Config{Tick: tick, Slots: slots})
	if err != nil {
		panic(err)
	}
	o := &ours{w, make([]oursRecord, len(order))}
	for _, i := range order {
		r := &o.rs[i]
		if err := w.Schedule(&r.timer, the.delay(&r.note, at()), r); err != nil {
			panic(err)
		}
	}
	return o
}

func (o *ours) notes() func(int) *note { return func(i int) *note { return &o.rs[i].note } }
func (o *ours) wakeUps() int64         { return o.w.Stats().WakeUps }
func (o *ours) close()                 { o.w.Stop(); <-o.w.Done() }

type afterFunc struct {
	rs []struct {
		timer *time.Timer
		note
	}
	stopped atomic.Bool
}

func armAfterFunc(order []int, at func() time.Duration) impl {
	a := &afterFunc{}
	a.rs = make([]struct {
		timer *time.Timer
		note
	}, len(order))
	for _, i := range order {
		r := &a.rs[i]
		r.timer = time.AfterFunc(the.delay(&r.note, at()), func() {
			if d := the.fire(&r.note); d > 0 && !a.stopped.Load() {
				r.timer.Reset(d)
			}
		})
	}
	return a
}

func (a *afterFunc) notes() func(int) *note { return func(i int) *note { return &a.rs[i].note } }
func (a *afterFunc) wakeUps() int64         { return 0 }
func (a *afterFunc) close() {
	a.stopped.Store(true)
	for i := range a.rs {
		a.rs[i].timer.Stop()
	}
}

type timingWheel struct {
	w  *timingwheel.TimingWheel
	rs []note
}

func armTimingWheel(order []int, at func() time.Duration) impl {
	t := &timingWheel{timingwheel.NewTimingWheel(tick, slots), make([]note, len(order))}
	t.w.Start()
	for _, i := range order {
		r := &t.rs[i]
		var f func()
		f = func() {
			if d := the.fire(r); d > 0 {
				t.w.AfterFunc(d, f)
			}
		}
		t.w.AfterFunc(the.delay(r, at()), f)
	}
	return t
}

func (t *timingWheel) notes() func(int) *note { return func(i int) *note { return &t.rs[i] } }
func (t *timingWheel) wakeUps() int64         { return 0 }
func (t *timingWheel) close()                 { t.w.Stop() }

type goZero struct {
	w  *collection.TimingWheel
	rs []note
}

func armGoZero(order []int, at func() time.Duration) impl {
	g := &goZero{rs: make([]note, len(order))}
	ready := make(chan struct{})
	w, err := collection.NewTimingWheel(tick, slots, func(key, value any) {
		<-ready
		r := value.(*note)
		if d := the.fire(r); d > 0 {
			_ = g.w.SetTimer(key, r, d)
		}
	})
	if err != nil {
		panic(err)
	}
	g.w = w
	close(ready)
	for _, i := range order {
		r := &g.rs[i]
		_ = w.SetTimer(i, r, the.delay(r, at()))
	}
	return g
}

func (g *goZero) notes() func(int) *note { return func(i int) *note { return &g.rs[i] } }
func (g *goZero) wakeUps() int64         { return 0 }
func (g *goZero) close()                 { g.w.Stop() }

type ant struct {
	w  antlabs.Timer
	rs []note
}

func armAntlabs(order []int, at func() time.Duration) impl {
	a := &ant{antlabs.NewTimer(antlabs.WithTimeWheel()), make([]note, len(order))}
	go a.w.Run()
	for _, i := range order {
		r := &a.rs[i]
		var f func()
		f = func() {
			if d := the.fire(r); d > 0 {
				a.w.AfterFunc(d, f)
			}
		}
		a.w.AfterFunc(the.delay(r, at()), f)
	}
	return a
}

func (a *ant) notes() func(int) *note { return func(i int) *note { return &a.rs[i] } }
func (a *ant) wakeUps() int64         { return 0 }
func (a *ant) close()                 { a.w.Stop() }
