package wheel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// shardsPerSet spreads timers over locks. They are spread by timer and not by bucket, since
// timers with one common delay all go to one bucket. A power of two.
const shardsPerSet = 16

// shard is a ring with a lock.
type shard struct {
	mu sync.Mutex // guards what is not said to be free of it, and all fields of the ring's timers; held for no call out of this package

	// next is a lower bound of the earliest tick with something to do; written under mu, read without.
	next atomic.Int64

	armed    int64
	stopped  int64
	set      *set   // immutable
	class    uint32 // immutable; see affinity
	closed   bool   // the wheel was stopped
	ring     ring
	fired    int64
	returned int64
	skipped  int64
	due      []*Timer // collected by the driver, to be claimed one by one; nil where claimed or stopped since

	_ [256 - 240]byte // to whole cache lines: the neighbours belong to other processors
}

// set is the shards of a wheel's plain timers, or of one group: a group's timers have rings of their
// own, so that its batches come out of dense buckets and no timer needs to know its group.
type set struct {
	shards [shardsPerSet]shard
	wheel  *Wheel
	batch  func(*Batch) // nil for plain timers
}

func newSet(w *Wheel, batch func(*Batch)) *set {
	g := &set{wheel: w, batch: batch}
	for i := range g.shards {
		s := &g.shards[i]
		s.set = g
		s.class = uint32(i) & w.classMask
		s.ring = ring{tick: int64(w.cfg.Tick), mask: int64(w.cfg.Slots) - 1, done: -1}
		s.next.Store(never)
	}
	return g
}

// affinity is what a processor keeps to so that two of them seldom work on the same cache lines, which
// costs more than all the rest of Schedule and Stop: one class of shards, those whose index is class
// modulo the number of classes. It takes them in turn, so that even timers that all come from one
// goroutine can be stopped from many. sync.Pool keeps one for each processor.
type affinity struct {
	class uint32
	turn  uint32
	waits uint32
	_     [52]byte // a cache line of its own
}

// shardFor returns the shard for the next timer.
func (a *affinity) shardFor(g *set) *shard {
	a.turn += g.wheel.classMask + 1
	return &g.shards[(a.turn+a.class)%shardsPerSet]
}

// lock locks s. If it has to wait often, another processor keeps to the same class: it goes to the next.
func (a *affinity) lock(s *shard) {
	if s.mu.TryLock() {
		return
	}
	if a.waits++; a.waits%256 == 0 {
		a.class = (a.class + 1) & s.set.wheel.classMask
	}
	s.mu.Lock()
}

// schedule arms t in one of the set's shards.
func (g *set) schedule(t *Timer, d time.Duration, task Task) error {
	if t == nil {
		return ErrNilTimer
	}
	if task == nil {
		return ErrNilTask
	}
	w := g.wheel
	deadline := after(w.now(), d)
	s := t.shard.Load()
	if s == nil || s.set != g || !s.stay(t) {
		var err error
		a := w.affinities.Get().(*affinity)
		s, err = g.bind(t, a)
		w.affinities.Put(a)
		if err != nil {
			return err
		}
	}
	tick, err := s.arm(t, deadline, task)
	if err != nil && t.state == Idle {
		t.shard.Store(nil) // a timer that was refused is bound to nothing
	}
	s.mu.Unlock()
	w.kick(tick)
	return err
}

// stay locks s for a timer of its set that was in it before, and reports whether it did. To ask each time
// whether the shard is still a good one for this processor would cost a tenth of Schedule and Stop.
func (s *shard) stay(t *Timer) bool {
	if !s.mu.TryLock() {
		return false
	}
	if s.armed%16 != 0 && t.shard.Load() == s {
		return true
	}
	s.mu.Unlock()
	return false
}

// bind makes t one of a shard of g, of class a.class if it is not pending, and returns that shard, locked.
func (g *set) bind(t *Timer, a *affinity) (*shard, error) {
	for {
		s := t.shard.Load()
		if s == nil {
			s = a.shardFor(g)
			a.lock(s)
			if t.shard.CompareAndSwap(nil, s) {
				return s, nil
			}
			s.mu.Unlock()
			continue
		}
		if s.set.wheel != g.wheel {
			return nil, ErrOtherWheel
		}
		a.lock(s)
		if t.shard.Load() == s {
			if s.set == g && s.class == a.class || s.closed || t.state.live() {
				return s, nil // for arm to refuse, or to take
			}
			t.shard.Store(a.shardFor(g))
		}
		s.mu.Unlock()
	}
}

// The functions below need mu. The tick that they return is for Wheel.kick, after mu was let go.

// arm begins an arming of t, which is bound to s.
func (s *shard) arm(t *Timer, deadline int64, task Task) (tick int64, err error) {
	switch {
	case s.closed:
		return never, ErrStopped
	case t.state.live():
		return never, ErrPending
	case !s.set.wheel.reserve():
		return never, ErrTooManyPending
	}
	s.armed++
	t.task = task
	return s.file(t, deadline), nil
}

// rearm moves the deadline of t, or arms it again if it is not pending.
func (s *shard) rearm(t *Timer, deadline int64) (tick int64, err error) {
	switch {
	case s.closed:
		return never, ErrStopped
	case t.state == Pending:
		return s.lower(s.ring.postpone(t, deadline, s.set.wheel.open.Load())), nil
	case t.state == due:
		s.due[t.place] = nil
		return s.file(t, deadline), nil
	}
	return s.arm(t, deadline, t.task)
}

// rearmNext is rearm to the first deadline after now that is whole periods from t's last.
func (s *shard) rearmNext(t *Timer, now, period int64) (tick int64, err error) {
	deadline, skipped := after(t.deadline, time.Duration(period)), int64(0)
	if deadline <= now {
		skipped = (now - t.deadline) / period
		deadline = after(t.deadline+skipped*period, time.Duration(period))
	}
	tick, err = s.rearm(t, deadline)
	if err == nil {
		s.skipped += skipped
	}
	return tick, err
}

// file puts t into the ring.
func (s *shard) file(t *Timer, deadline int64) (tick int64) {
	t.state = Pending
	return s.lower(s.ring.add(t, deadline, s.set.wheel.open.Load()))
}

// lower lowers next to tick. It returns tick if it did, else never.
func (s *shard) lower(tick int64) int64 {
	if tick >= s.next.Load() {
		return never
	}
	s.next.Store(tick)
	return tick
}

// close refuses further timers and appends those that were still unclaimed to ts.
func (s *shard) close(ts []*Timer) []*Timer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	n := len(ts)
	for i, t := range s.due {
		if t != nil {
			s.due[i] = nil
			ts = append(ts, t)
		}
	}
	s.ring.drain(func(t *Timer) { ts = append(ts, t) })
	for _, t := range ts[n:] {
		t.state = Stopped
	}
	s.returned += int64(len(ts) - n)
	return ts
}

// after returns now + d for d above zero, now for others, never for what lies beyond the clock's range.
func after(now int64, d time.Duration) int64 {
	if d <= 0 {
		return now
	}
	if int64(d) > latest-now {
		return never
	}
	return now + int64(d)
}

func errPeriod(period time.Duration) error {
	return fmt.Errorf("%w: %v", ErrPeriod, period)
}
