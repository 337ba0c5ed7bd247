package wheel

import "time"

// Group is a part of a wheel whose timers are fired in batches, for work that is cheaper many at
// a time. It lives as long as its wheel. Its methods are safe for concurrent use.
type Group struct{ set *set }

// Group makes a group. Its due timers are handed to f, at most Config.MaxBatch at once, where
// Fire is called for plain timers; their tasks' Fire is not called. After the wheel was
// stopped, or with a nil f, Schedule on it fails.
func (w *Wheel) Group(f func(*Batch)) *Group {
	g := &Group{set: newSet(w, f)}
	w.addSet(g.set)
	return g
}

// Schedule is Wheel.Schedule for a timer of the group. A timer that is not pending may go from
// one group of a wheel to another, and between plain and grouped.
func (g *Group) Schedule(t *Timer, d time.Duration, task Task) error {
	if g.set.batch == nil {
		return ErrNilTask
	}
	return g.set.schedule(t, d, task)
}

// Batch is what a group's callback gets. It is valid until the callback returns.
type Batch struct {
	wheel  *Wheel
	timers []*Timer
}

// Timers returns the timers of the batch, all claimed (in state Fired until somebody arms them). The
// slice is the caller's to reorder until the callback returns; then it is used again.
func (b *Batch) Timers() []*Timer { return b.timers }

// ResetAll is Reset(d) for each of ts, which need not be in the batch but must belong to its wheel,
// with one reading of the clock for all and one locking of each run of timers that share a shard, as the
// timers of a batch do. It goes on behind a timer that cannot be armed, and returns the first error.
func (b *Batch) ResetAll(ts []*Timer, d time.Duration) error {
	deadline := after(b.wheel.now(), d)
	return b.wheel.each(ts, func(s *shard, t *Timer) (int64, error) {
		return s.rearm(t, deadline)
	})
}

// NextAll is Next(period) for each of ts, otherwise like ResetAll.
func (b *Batch) NextAll(ts []*Timer, period time.Duration) error {
	if period <= 0 {
		return errPeriod(period)
	}
	now := b.wheel.now()
	return b.wheel.each(ts, func(s *shard, t *Timer) (int64, error) {
		return s.rearmNext(t, now, int64(period))
	})
}

// each calls f for each of ts with its shard locked, and wakes the driver where needed.
func (w *Wheel) each(ts []*Timer, f func(*shard, *Timer) (tick int64, err error)) (first error) {
	fail := func(err error) {
		if first == nil {
			first = err
		}
	}
	for i := 0; i < len(ts); {
		if ts[i] == nil {
			fail(ErrNilTimer)
			i++
			continue
		}
		s := ts[i].lock()
		switch {
		case s == nil:
			fail(ErrNotScheduled)
			i++
			continue
		case s.set.wheel != w:
			s.mu.Unlock()
			fail(ErrOtherWheel)
			i++
			continue
		}
		low := int64(never)
		for ; i < len(ts) && ts[i] != nil && ts[i].shard.Load() == s; i++ {
			tick, err := f(s, ts[i])
			if err != nil {
				fail(err)
			}
			low = min(low, tick)
		}
		s.mu.Unlock()
		w.kick(low)
	}
	return first
}
