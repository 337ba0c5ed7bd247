package wheel

import (
	"errors"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"
)

// beganPrecision is how much earlier than the true time Wheel.callbackBegan may be. The
// driver writes Wheel.callbackBegan only when the error would be larger.
const beganPrecision = int64(time.Millisecond)

// fireDue fires the remaining due timers.
func (w *Wheel) fireDue() {
	for w.driver.shard != nil {
		w.fireUntilFailure()
	}
}

// fireUntilFailure claims and fires due timers until none is left or a callback fails. After a failure it must be
// called again. A whole run needs one deferred call, and one reading of the clock between two callbacks.
func (w *Wheel) fireUntilFailure() {
	d := w.driver
	s := d.shard
	var running *Timer
	defer func() {
		if running != nil {
			v := recover()
			s.skipPassedPeriods(running, w.now())
			w.reportFailure(running, v)
		}
	}()
	now := w.now()
	for d.pos < d.n {
		slot := &d.slots[d.pos]
		d.pos++
		var t *Timer
		if slot.periodic {
			t = s.claimPeriodic(slot, now) // the timer still counts as pending
		} else if t = slot.claim(); t != nil {
			w.releasePending(1)
		}
		if t == nil { // it was stopped or moved meanwhile, or the last call of an Every still runs
			continue
		}
		task, late := slot.task, now-slot.deadline
		slot.task = nil
		w.noteLateness(late)
		d.noteLateness(max(late, 0))
		if now-d.callbackBegan >= beganPrecision {
			d.callbackBegan = now
			w.callbackBegan.Store(now)
		}
		if w.cfg.Executor != nil {
			w.execute(t, task)
			now = w.now()
			continue
		}
		running = t
		task.Fire(t)
		running = nil
		end := w.now()
		if took := time.Duration(end - now); took > w.cfg.SlowCallback {
			s.skipPassedPeriods(t, end)
			w.reportSlow(t, took)
			end = w.now()
		}
		now = end
	}
	d.flush()
	s.mu.Lock()
	for i := range s.due {
		s.due[i].timer = nil // the garbage collector may free a timer that has fired
	}
	s.due = nil // the driver uses the slots for the next shard
	s.mu.Unlock()
	d.shard = nil
}

// execute gives a callback to the Executor.
func (w *Wheel) execute(t *Timer, task Task) {
	w.unfinished.Add(1)
	var used atomic.Bool // run was called, or must not be called any more
	refused := func(stack []byte, err error) {
		if !used.Swap(true) {
			if e, ok := task.(*every); ok {
				e.refuseCall()
			}
			w.finishOne()
		}
		w.cfg.OnError(&CallbackError{Timer: t, Stack: stack, Err: fmt.Errorf("%w: %w", ErrRefused, err)})
	}
	returned := false
	defer func() {
		if !returned && !used.Load() { // the Executor called Goexit, or its panic is crashing the process
			refused(debug.Stack(), errNoReturn)
		}
	}()
	err := w.cfg.Executor(func() {
		if !used.Swap(true) {
			defer w.finishOne()
			w.runCallback(t, task)
		}
	})
	returned = true
	if err != nil {
		refused(nil, err)
	}
}

// errNoReturn is why an Executor that called runtime.Goexit has refused.
var errNoReturn = errors.New("it did not return")

// runCallback calls a callback, recovers its panic, and reports how it ended.
func (w *Wheel) runCallback(t *Timer, task Task) {
	began := w.now()
	if w.callGuarded(t, task.Fire) {
		if took := time.Duration(w.now() - began); took > w.cfg.SlowCallback {
			w.reportSlow(t, took)
		}
	}
}

// callGuarded calls f with t, and reports whether it returned.
func (w *Wheel) callGuarded(t *Timer, f func(*Timer)) (returned bool) {
	defer func() {
		if !returned {
			w.reportFailure(t, recover())
		}
	}()
	f(t)
	return true
}

// callAllCancelled calls Cancelled for all of cs.
func (w *Wheel) callAllCancelled(cs []cancellation) {
	defer func() {
		if len(cs) > 0 { // a Cancelled called Goexit; the remaining ones are still called
			w.callAllCancelled(cs)
		}
	}()
	for len(cs) > 0 {
		c := cs[0]
		cs = cs[1:]
		w.callCancelled(c.task, c.timer)
	}
}

// callCancelled calls c.Cancelled.
func (w *Wheel) callCancelled(c canceller, t *Timer) {
	w.callGuarded(t, c.Cancelled)
}

// reportFailure reports a callback that panicked with v, or called Goexit if v is nil.
func (w *Wheel) reportFailure(t *Timer, v any) {
	err := &CallbackError{Timer: t, Panic: v, Stack: debug.Stack()}
	if e, ok := v.(error); ok {
		err.Err = e
	} else if v == nil {
		err.Err = ErrGoexit
	}
	w.panics.Add(1)
	w.cfg.OnError(err)
}

func (w *Wheel) reportSlow(t *Timer, took time.Duration) {
	w.slow.Add(1)
	w.cfg.OnSlow(t, took)
}

// latenessWindow is how long Stats.LargestLateness remembers at least.
const latenessWindow = int64(time.Minute)

// noteLateness raises lateness. Only the driver calls it.
func (w *Wheel) noteLateness(late int64) {
	if late > w.lateness.Load() {
		w.lateness.Store(late)
	}
}

// rotateLateness begins another window if the present one is over at now. Only the driver calls it.
func (w *Wheel) rotateLateness(now int64) {
	if age := now - w.windowStart.Load(); age >= latenessWindow {
		before := w.lateness.Swap(0)
		if age >= 2*latenessWindow {
			before = 0
		}
		w.latenessBefore.Store(before)
		w.windowStart.Store(now)
	}
}

// largestLateness returns the largest of the present window and the one before.
func (w *Wheel) largestLateness(now int64) int64 {
	switch age := now - w.windowStart.Load(); {
	case age < latenessWindow:
		return max(w.lateness.Load(), w.latenessBefore.Load())
	case age < 2*latenessWindow:
		return w.lateness.Load()
	}
	return 0
}
