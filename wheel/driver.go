package wheel

import (
	"math"
	"time"
)

// collectAtOnce is how many timers are taken out of their buckets under one lock. Taking them touches
// them one right after the other, which lets their cache misses overlap.
const collectAtOnce = 128

// driver is the state of the driver goroutine. It is kept apart from the goroutine's stack so that a
// successor can go on where runtime.Goexit ended it.
type driver struct {
	// Plain timers, collected but not claimed.
	shard *shard // that they are of, nil if there are none; its due is a part of buf
	pos   int    // in shard.due, of the first that has not been seen
	buf   [collectAtOnce]*Timer

	// A group's timers, claimed but not handed over.
	claimed []*Timer
	oldest  int64 // the earliest deadline of them
	batch   Batch // that they are handed over in
}

// drive is the driver goroutine. It ends when the wheel is stopped.
func (w *Wheel) drive() {
	ended := false
	defer func() {
		if ended {
			w.unhold()
		} else {
			go w.drive() // a callback or a hook called Goexit; the hold on Done goes to the successor
		}
	}()
	timer := time.NewTimer(math.MaxInt64)
	timer.Stop() // it runs while the driver sleeps to a tick, and only then
	w.fireDue()
	for !w.stopped.Load() {
		tick := w.earliest()
		now := w.now()
		last := now / int64(w.cfg.Tick)
		if tick > last {
			w.sleep(timer, tick, now)
			continue
		}
		// Tick by tick, so that timers fire in the order of their ticks after a stall too; but what lies
		// more than a revolution back goes in one pass.
		tick = max(tick, last-int64(w.cfg.Slots)+1)
		w.open.Store(tick + 1)
		w.pass(tick)
	}
	ended = true
}

// earliest returns the earliest tick with something to do, never if there is none.
func (w *Wheel) earliest() int64 {
	tick := int64(never)
	for _, g := range *w.sets.Load() {
		for i := range g.shards {
			tick = min(tick, g.shards[i].next.Load())
		}
	}
	return tick
}

// sleep sleeps to tick, or until it is woken.
func (w *Wheel) sleep(timer *time.Timer, tick, now int64) {
	w.wakeAt.Store(tick)
	// A timer filed before this store was seen gave no signal: look once more, behind the store.
	// One filed later gives one.
	if w.earliest() >= tick && !w.stopped.Load() {
		if tick == never {
			<-w.wake
		} else {
			timer.Reset(time.Duration(tick*int64(w.cfg.Tick) - now))
			select {
			case <-timer.C:
			case <-w.wake:
				timer.Stop()
			}
		}
		w.wakeUps.Add(1)
	}
	w.wakeAt.Store(awake)
	select {
	case <-w.wake: // the word came late, it is awake
	default:
	}
}

// pass fires everything due at or before tick. If a callback calls Goexit, a further pass for the same
// tick finishes it: a shard's next stays as it is until all its due timers were collected.
func (w *Wheel) pass(tick int64) {
	for _, g := range *w.sets.Load() {
		for i := range g.shards {
			s := &g.shards[i]
			if s.next.Load() > tick {
				continue
			}
			if g.batch == nil {
				w.passPlain(s, tick)
			} else {
				w.passGroup(s, tick)
			}
		}
		if g.batch != nil {
			w.handOver(g)
		}
	}
}

// passPlain collects s's due timers and fires them one by one.
func (w *Wheel) passPlain(s *shard, tick int64) {
	d := w.driver
	for finished := false; !finished; {
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		var n int
		n, finished = s.ring.collect(tick, d.buf[:], due)
		s.due = d.buf[:n]
		if finished {
			s.next.Store(s.ring.next())
		}
		s.mu.Unlock()
		d.shard, d.pos = s, 0
		w.fireDue()
	}
}

// passGroup claims s's due timers, and hands them over whenever the batch is full. Between
// claim and hand-over nothing of the caller's runs, so they need no state between.
func (w *Wheel) passGroup(s *shard, tick int64) {
	d := w.driver
	for finished := false; !finished; {
		if d.claimed == nil {
			d.claimed = make([]*Timer, 0, w.cfg.MaxBatch)
		}
		if len(d.claimed) == 0 {
			d.oldest = never
		}
		had := len(d.claimed)
		room := d.claimed[had:min(had+collectAtOnce, cap(d.claimed))]
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			return
		}
		var n int
		n, finished = s.ring.collect(tick, room, Fired)
		for _, t := range room[:n] {
			d.oldest = min(d.oldest, t.deadline)
		}
		s.fired += int64(n)
		if finished {
			s.next.Store(s.ring.next())
		}
		s.mu.Unlock()
		w.release(n)
		d.claimed = d.claimed[:had+n]
		if len(d.claimed) == cap(d.claimed) {
			w.handOver(s.set)
		}
	}
}
