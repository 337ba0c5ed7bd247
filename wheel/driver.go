package wheel

import (
	"context"
	"math"
	"runtime/pprof"
	"time"
)

// collectAtOnce is how many timers are taken out of their buckets under one lock. Taking them touches
// them one right after the other, which lets their cache misses overlap.
const collectAtOnce = 1 << dueBits

// driver is the state of the driver goroutine. It is kept apart from the goroutine's stack, so that after
// runtime.Goexit a successor can continue where the goroutine ended.
type driver struct {
	shard         *shard // of the timers that were collected, nil if there are none
	n             int    // the number of these timers
	pos           int    // of the first one that has not been seen
	slots         [collectAtOnce]dueSlot
	buf           [collectAtOnce]*Timer
	callbackBegan int64 // the last value of Wheel.callbackBegan

	lateness  Recorder
	unflushed latenessRun // of timers, not in lateness yet
}

// latenessRun counts timers that fired one after the other with about the same lateness. Most
// timers of a tick do, so lateness is written once for many timers.
type latenessRun struct {
	bucket       int // of lateness
	n            uint64
	sum, largest int64
}

// noteLateness notes how late a timer fired.
func (d *driver) noteLateness(late int64) {
	bucket := bucketOf(uint64(late / int64(time.Microsecond)))
	if r := &d.unflushed; bucket != r.bucket {
		d.flush()
		r.bucket = bucket
	}
	d.unflushed.n++
	d.unflushed.sum += late
	d.unflushed.largest = max(d.unflushed.largest, late)
}

// flush adds the timers of unflushed to lateness.
func (d *driver) flush() {
	if r := &d.unflushed; r.n > 0 {
		d.lateness.record(r.bucket, r.n, time.Duration(r.sum), time.Duration(r.largest))
		*r = latenessRun{bucket: r.bucket}
	}
}

// drive is the driver goroutine. It ends when the wheel is stopped.
func (w *Wheel) drive() {
	pprof.SetGoroutineLabels(context.Background()) // instead of the labels of the goroutine that scheduled first
	ended := false
	defer func() {
		if ended {
			w.finishOne()
		} else {
			go w.drive() // a callback or a hook called Goexit; the successor keeps Done open
		}
	}()
	timer := time.NewTimer(math.MaxInt64)
	timer.Stop() // the timer runs only while the driver sleeps until a tick
	w.fireDue()  // the rest of the pass that Goexit ended
	w.passing.Store(never)
	for !w.stopped.Load() {
		now := w.now()
		if until, sleep := w.step(now); sleep {
			w.sleep(timer, until, now)
			w.wakeUps.Add(1)
			w.stayAwake()
		}
	}
	ended = true
}

// step does one thing at time now: it passes a tick that is due, or else it publishes the tick until which the driver
// will sleep. After a sleep, and nowhere else, stayAwake must be called before the next step.
func (w *Wheel) step(now int64) (until int64, sleep bool) {
	tick := w.earliestTick()
	last := now / int64(w.cfg.Tick)
	if tick <= last {
		// The driver goes tick by tick, so that timers fire in the order of their ticks even after a stall. But
		// ticks that are more than a revolution back share one pass.
		w.rotateLateness(now)
		w.pass(max(tick, last-int64(w.cfg.Slots)+1))
		return 0, false
	}
	w.wakeAt.Store(tick)
	// A caller that filed its timer before it could see this store gave no signal. So look once more, after the
	// store. A caller that files its timer later gives a signal.
	if w.earliestTick() >= tick && !w.stopped.Load() {
		return tick, true
	}
	w.stayAwake()
	return 0, false
}

// sleep sleeps until tick, or until it is woken. now is the last reading of the clock.
func (w *Wheel) sleep(timer *time.Timer, tick, now int64) {
	if tick == never {
		<-w.wake
		return
	}
	due := tick * int64(w.cfg.Tick)
	for {
		timer.Reset(time.Duration(due - now))
		// If the process has stood still since now was read, the timer is late by that time.
		read := now
		if now = w.now(); now-read <= int64(w.cfg.Tick) || read >= due {
			break
		}
	}
	select {
	case <-timer.C:
	case <-w.wake:
		timer.Stop()
	}
}

// stayAwake withdraws the published tick, and removes a signal that was meant for the sleep until that tick.
func (w *Wheel) stayAwake() {
	w.wakeAt.Store(awake)
	select {
	case <-w.wake: // the signal came late, because the driver is already awake
	default:
	}
}

// earliestTick returns the earliest tick with something to do, never if there is none.
func (w *Wheel) earliestTick() int64 {
	tick := int64(never)
	for i := range w.shards {
		tick = min(tick, w.shards[i].next.Load())
	}
	return tick
}

// pass fires everything due at or before tick. If a callback calls Goexit, a further pass for the same tick finishes
// the work, because a shard's next stays as it is until all its due timers were collected.
func (w *Wheel) pass(tick int64) {
	// A caller may have filed a timer at a tick that was passed meanwhile. Then tick is below firstOpenTick, which must not
	// fall. Only the driver writes firstOpenTick.
	if tick >= w.firstOpenTick.Load() {
		w.firstOpenTick.Store(tick + 1)
	}
	w.passing.Store(tick)
	for i := range w.shards {
		if s := &w.shards[i]; s.next.Load() <= tick {
			w.visit(s, tick)
		}
	}
	w.passing.Store(never)
}

// visit collects s's due timers and fires them one by one.
func (w *Wheel) visit(s *shard, tick int64) {
	d := w.driver
	for finished := false; !finished; {
		s.mu.Lock()
		if s.isWheelStopped {
			s.mu.Unlock()
			return
		}
		var n int
		n, finished = s.ring.collect(tick, d.buf[:])
		if finished {
			s.next.Store(s.ring.earliestTick())
		}
		if n > 0 {
			s.setDue(d.slots[:], d.buf[:n])
			clear(d.buf[:n])
			d.shard, d.n, d.pos = s, n, 0
		}
		s.mu.Unlock()
		w.fireDue()
	}
}
