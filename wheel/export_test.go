package wheel

import (
	"time"
	"unsafe"
)

// CacheLines is how many bytes a shard is over a whole number of cache lines.
const CacheLines = unsafe.Sizeof(shard{}) % 64

// Ring is the ring, for tests that move its time.
type Ring struct{ ring }

func NewRing(tick, slots int64) *Ring {
	return &Ring{ring{tickLength: tick, mask: slots - 1, visitedTo: -1}}
}

func (r *Ring) Add(t *Timer, deadline, open int64) int64 { return r.at(r.add(t, deadline, open)) }
func (r *Ring) Remove(t *Timer)                          { r.remove(t) }
func (r *Ring) Postpone(t *Timer, deadline, open int64) int64 {
	when, _ := r.moveDeadline(t, deadline, open)
	return r.at(when)
}
func (r *Ring) Next() int64                                  { return r.earliestTick() }
func (r *Ring) Collect(tick int64, buf []*Timer) (int, bool) { return r.collect(tick, buf) }
func (r *Ring) Deadline(t *Timer) int64                      { return t.deadline.at() }
func (r *Ring) SpareChunks() int                             { return int(r.chunks.spare) }
func (r *Ring) Headers() int                                 { return cap(r.chunks.all) + cap(r.chunks.vacant) }

// Far returns how many timers are in far buckets.
func (r *Ring) Far() (n int) {
	for i := r.firstFar; i < int64(len(r.buckets)); i++ {
		for number := r.buckets[i].head; number != 0; number = r.chunks.all[number].next {
			n += int(r.chunks.all[number].n)
		}
	}
	return n
}

// PostponeUnlocked is what Reset and Touch do without the shard's lock.
func (r *Ring) PostponeUnlocked(t *Timer, deadline int64) bool {
	return t.deadline.postpone(t.deadline.word.Load(), deadline)
}

// MarkOf returns the mark by which the wheel finds that a timer is a copy of t.
func MarkOf(t *Timer) uint16 { return markOf(t) }

// Movable reports whether t can be postponed without its shard's lock.
func (t *Timer) Movable() bool { return t.deadline.word.Load() < 0 }

// LockShards takes the locks of all shards.
func (w *Wheel) LockShards() (unlock func()) {
	for i := range w.shards {
		w.shards[i].mu.Lock()
	}
	return func() {
		for i := range w.shards {
			w.shards[i].mu.Unlock()
		}
	}
}

func (r *Ring) at(when int64) int64 {
	if when == never {
		return never
	}
	return r.tickOf(when)
}

// StepByHand makes the test step the driver of w. w never starts a driver goroutine.
func (w *Wheel) StepByHand() { w.started.Store(true); w.wakeAt.Store(awake); w.driver = &driver{} }

// Step steps the driver at time now until it would sleep, and returns the tick that it would sleep to.
func (w *Wheel) Step(now int64) int64 {
	for {
		if until, sleep := w.step(now); sleep {
			w.stayAwake()
			return until
		}
	}
}

// SleepFrom sleeps until tick, as the driver does if it has read the clock at now. It returns how long it has slept.
func (w *Wheel) SleepFrom(now, tick int64) time.Duration {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	began := time.Now()
	w.sleep(timer, tick, now)
	return time.Since(began)
}

// Now returns the time since New.
func (w *Wheel) Now() int64 { return w.now() }

// Open returns the tick that a caller reads before it files a timer.
func (w *Wheel) Open() int64 { return w.firstOpenTick.Load() }

// File does what the caller does then, in the given shard.
func (w *Wheel) File(t *Timer, shard int, deadline, open int64, task Task) {
	s := &w.shards[shard]
	s.mu.Lock()
	defer s.mu.Unlock()
	t.shard.Store(s)
	t.state, t.task = Pending, task
	s.armCount++
	s.lowerNext(s.ring.add(t, deadline, open))
}

// Passing returns the tick on which the driver works.
func (w *Wheel) Passing() int64 { return w.passing.Load() }
