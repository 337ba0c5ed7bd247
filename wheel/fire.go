package wheel

import (
	"fmt"
	"runtime/debug"
	"slices"
	"sync/atomic"
	"time"
)

// fireDue fires what is left of the due timers.
func (w *Wheel) fireDue() {
	for w.driver.shard != nil {
		w.fireRun()
	}
}

// fireRun claims and fires due timers until there are none left or a callback fails; it is to be called
// again then. One deferred call and one reading of the clock between two callbacks serve a whole run.
func (w *Wheel) fireRun() {
	d := w.driver
	s := d.shard
	var running *Timer
	defer func() {
		if running != nil {
			w.failed([]*Timer{running}, recover())
		}
	}()
	now := w.now()
	for d.pos < len(s.due) {
		s.mu.Lock()
		t := s.due[d.pos]
		s.due[d.pos] = nil
		d.pos++
		if t == nil { // stopped or moved meanwhile
			s.mu.Unlock()
			continue
		}
		t.state = Fired
		s.fired++
		task, late := t.task, now-t.deadline
		s.mu.Unlock()
		w.release(1)
		w.noteLateness(late)
		if w.cfg.Executor != nil {
			w.execute([]*Timer{t}, func() { task.Fire(t) })
			now = w.now()
			continue
		}
		running = t
		task.Fire(t)
		running = nil
		end := w.now()
		if took := time.Duration(end - now); took > w.cfg.SlowCallback {
			w.tellSlow([]*Timer{t}, took)
			end = w.now()
		}
		now = end
	}
	s.mu.Lock()
	s.due = nil // the buffer goes to the next shard
	s.mu.Unlock()
	d.shard = nil
}

// handOver calls g's callback with the claimed timers.
func (w *Wheel) handOver(g *set) {
	d := w.driver
	ts := d.claimed
	if len(ts) == 0 {
		return
	}
	w.noteLateness(w.now() - d.oldest)
	if w.cfg.Executor == nil {
		defer w.clearClaimed() // also on Goexit
		d.batch = Batch{wheel: w, timers: slices.Clip(ts)}
		w.run(ts, func() { g.batch(&d.batch) })
		return
	}
	own := slices.Clone(ts)
	w.clearClaimed()
	w.execute(own, func() { g.batch(&Batch{wheel: w, timers: own}) })
}

func (w *Wheel) clearClaimed() {
	clear(w.driver.claimed)
	w.driver.claimed = w.driver.claimed[:0]
}

// execute gives a callback to the Executor.
func (w *Wheel) execute(ts []*Timer, call func()) {
	w.holds.Add(1)
	var used atomic.Bool // by run, or because there will be no run
	returned := false
	defer func() {
		if !returned && !used.Swap(true) { // it called Goexit, or is crashing the process
			w.unhold()
			w.cfg.OnError(&CallbackError{Timers: ts, Stack: debug.Stack(), Err: fmt.Errorf("%w: it did not return", ErrRefused)})
		}
	}()
	err := w.cfg.Executor(func() {
		if !used.Swap(true) {
			defer w.unhold()
			w.run(ts, call)
		}
	})
	returned = true
	if err != nil {
		if !used.Swap(true) {
			w.unhold()
		}
		w.cfg.OnError(&CallbackError{Timers: ts, Err: fmt.Errorf("%w: %w", ErrRefused, err)})
	}
}

// run calls a callback, survives its panic, and tells how it went.
func (w *Wheel) run(ts []*Timer, call func()) {
	began := w.now()
	if w.guard(ts, call) {
		if took := time.Duration(w.now() - began); took > w.cfg.SlowCallback {
			w.tellSlow(ts, took)
		}
	}
}

// guard calls f on behalf of ts, and reports whether it returned.
func (w *Wheel) guard(ts []*Timer, f func()) (returned bool) {
	defer func() {
		if !returned {
			w.failed(ts, recover())
		}
	}()
	f()
	return true
}

// cancelAll calls Cancelled for those of ts that have it.
func (w *Wheel) cancelAll(ts []*Timer) {
	defer func() {
		if len(ts) > 0 { // Goexit in a Cancelled of the caller's own: the rest is still told
			w.cancelAll(ts)
		}
	}()
	for len(ts) > 0 {
		t := ts[0]
		ts = ts[1:]
		if c, ok := t.task.(canceller); ok { // no lock: nobody can arm it any more
			w.cancel(c, t)
		}
	}
}

// cancel calls c.Cancelled.
func (w *Wheel) cancel(c canceller, t *Timer) {
	w.guard([]*Timer{t}, func() { c.Cancelled(t) })
}

// failed reports a callback that panicked with v, or called Goexit if v is nil.
func (w *Wheel) failed(ts []*Timer, v any) {
	err := &CallbackError{Timers: slices.Clone(ts), Panic: v, Stack: debug.Stack()}
	if e, ok := v.(error); ok {
		err.Err = e
	} else if v == nil {
		err.Err = ErrGoexit
	}
	w.panics.Add(1)
	w.cfg.OnError(err)
}

func (w *Wheel) tellSlow(ts []*Timer, took time.Duration) {
	w.slow.Add(1)
	w.cfg.OnSlow(ts, took)
}

// noteLateness has the driver for its only writer.
func (w *Wheel) noteLateness(late int64) {
	if late > w.lateness.Load() {
		w.lateness.Store(late)
	}
}
