package main

import (
	"sync/atomic"
	"time"

	"github.com/RussellLuo/timingwheel"
	antlabs "github.com/antlabs/timer"
	"github.com/zeromicro/go-zero/core/collection"

	"github.com/wheellock/wheellock/wheel"
)

// keeper holds n timers for callers that arm, stop and move them at any time. A
// timer that fires calls its owner.
type keeper interface {
	arm(i int, d time.Duration)
	stop(i int)
	move(i int, d time.Duration) // of a pending timer
	close()
}

// owner has the callers' records.
type owner struct {
	fire  func(i int) // called by a timer that fires
	slots int         // of wheels that have a ring
	due   []atomic.Int64
	late  lateness
}

func newOwner(n, slots int) *owner { return &owner{slots: slots, due: make([]atomic.Int64, n)} }

// promise notes when timer i is due, before it is armed or moved.
func (o *owner) promise(i int, d time.Duration) time.Duration {
	o.due[i].Store(the.now() + int64(d))
	return d
}

// fired is what every callback calls.
func (o *owner) fired(i int) {
	o.late.note(the.now() - o.due[i].Load())
	if o.fire != nil {
		o.fire(i)
	}
}

// keep makes the implementation with this name.
func keep(name string, o *owner) keeper {
	switch name {
	case "wheel":
		w, err := wheel.New(wheel.Config{Tick: tick, Slots: o.slots})
		if err != nil {
			panic(err)
		}
		k := &oursKeeper{w, make([]oursKept, len(o.due))}
		for i := range k.rs {
			k.rs[i].o, k.rs[i].i = o, int32(i)
		}
		return k
	case "afterfunc":
		return &goKeeper{o, make([]atomic.Pointer[time.Timer], len(o.due))}
	case "timingwheel":
		k := &timingKeeper{o, timingwheel.NewTimingWheel(tick, int64(o.slots)), make([]atomic.Pointer[timingwheel.Timer], len(o.due))}
		k.w.Start()
		return k
	case "gozero":
		ready := make(chan struct{})
		w, err := collection.NewTimingWheel(tick, o.slots, func(key, _ any) {
			<-ready
			o.fired(key.(int))
		})
		if err != nil {
			panic(err)
		}
		close(ready)
		return &zeroKeeper{w}
	case "antlabs":
		k := &antKeeper{o, antlabs.NewTimer(antlabs.WithTimeWheel()), make([]atomic.Pointer[antlabs.TimeNoder], len(o.due))}
		go k.w.Run()
		return k
	case "none":
		return noKeeper{}
	}
	panic("no such implementation: " + name)
}

type noKeeper struct{}

func (noKeeper) arm(int, time.Duration)  {}
func (noKeeper) stop(int)                {}
func (noKeeper) move(int, time.Duration) {}
func (noKeeper) close()                  {}

type oursKept struct {
	timer wheel.Timer
	o     *owner
	i     int32
}

func (r *oursKept) Fire(*wheel.Timer) { r.o.fired(int(r.i)) }

type oursKeeper struct {
	w  *wheel.Wheel
	rs []oursKept
}

func (k *oursKeeper) arm(i int, d time.Duration)  { _ = k.w.Schedule(&k.rs[i].timer, d, &k.rs[i]) }
func (k *oursKeeper) stop(i int)                  { k.rs[i].timer.Stop() }
func (k *oursKeeper) move(i int, d time.Duration) { k.rs[i].timer.Touch(d) }
func (k *oursKeeper) close()                      { k.w.Stop(); <-k.w.Done() }

// A new timer is stored when its callback may already run. In the row of retries this callback
// arms the timer again. So all keepers that store pointers store them atomically.

type goKeeper struct {
	o  *owner
	ts []atomic.Pointer[time.Timer]
}

func (k *goKeeper) arm(i int, d time.Duration) {
	k.ts[i].Store(time.AfterFunc(d, func() { k.o.fired(i) }))
}
func (k *goKeeper) stop(i int)                  { k.ts[i].Load().Stop() }
func (k *goKeeper) move(i int, d time.Duration) { k.ts[i].Load().Reset(d) }
func (k *goKeeper) close() {
	for i := range k.ts {
		if t := k.ts[i].Load(); t != nil {
			t.Stop()
		}
	}
}

// timingKeeper moves a timer by stopping it and making another: it has no Reset.
type timingKeeper struct {
	o  *owner
	w  *timingwheel.TimingWheel
	ts []atomic.Pointer[timingwheel.Timer]
}

func (k *timingKeeper) arm(i int, d time.Duration) {
	k.ts[i].Store(k.w.AfterFunc(d, func() { k.o.fired(i) }))
}
func (k *timingKeeper) stop(i int) { k.ts[i].Load().Stop() }
func (k *timingKeeper) move(i int, d time.Duration) {
	k.stop(i)
	k.arm(i, d)
}
func (k *timingKeeper) close() { k.w.Stop() }

type zeroKeeper struct{ w *collection.TimingWheel }

func (k *zeroKeeper) arm(i int, d time.Duration)  { _ = k.w.SetTimer(i, nil, d) }
func (k *zeroKeeper) stop(i int)                  { _ = k.w.RemoveTimer(i) }
func (k *zeroKeeper) move(i int, d time.Duration) { _ = k.w.MoveTimer(i, d) }
func (k *zeroKeeper) close()                      { k.w.Stop() }

// antKeeper moves a timer by stopping it and making another, because Reset deadlocks
// on a lock that it holds itself if the timer stays in its list.
type antKeeper struct {
	o  *owner
	w  antlabs.Timer
	ts []atomic.Pointer[antlabs.TimeNoder]
}

func (k *antKeeper) arm(i int, d time.Duration) {
	t := k.w.AfterFunc(d, func() { k.o.fired(i) })
	k.ts[i].Store(&t)
}
func (k *antKeeper) stop(i int) { (*k.ts[i].Load()).Stop() }
func (k *antKeeper) move(i int, d time.Duration) {
	k.stop(i)
	k.arm(i, d)
}
func (k *antKeeper) close() { k.w.Stop() }
