package wheel

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// shardsPerWheel spreads timers over locks. A timer's shard does not depend on its
// deadline, because timers with one common delay are all in one bucket. The number
// is a power of two.
const shardsPerWheel = 16

// shard is a ring with a lock.
type shard struct {
	mu sync.Mutex // guards every field below that does not say otherwise, and the fields of the shard's timers except movable deadlines; never held while code outside this package runs

	// next is a lower bound of the earliest tick with something to do; written under mu, read without.
	next atomic.Int64

	ring ring

	// due has the timers that the driver has collected and may not have claimed
	// yet. It is empty unless the driver works on this shard. mu guards the
	// slice. The type dueSlot says what guards its elements.
	due         []dueSlot
	collections uint32 // counts the collections; shows whether due still has the collection into which a timer was put

	// The last Next that did not read the clock; see Timer.Next.
	blindTimer    uintptr // not a pointer, so that the shard does not keep the timer alive
	blindDeadline int64
	blindPeriod   int64

	isWheelStopped bool
	armCount       int64
	stopCount      int64
	collectCount   int64 // put into due
	revokeCount    int64 // taken out of due before the claim
	returnCount    int64
	skipCount      int64

	_ [384 - 360]byte // fills whole cache lines, because other processors use the neighbouring shards

	// wheel is immutable. It is in a line that is never written, because Reset reads it without the lock.
	wheel *Wheel
}

// dueSlot is a due timer. The first goroutine that changes its state, by one atomic
// operation, decides about this arming. The driver claims the timer without the
// shard's lock. A caller that holds the lock stops or moves the timer.
type dueSlot struct {
	state    uint32 // undecided, claimed or revoked; atomic, except in fill
	periodic bool   // the timer belongs to an Every; written by fill
	timer    *Timer // guarded by the shard's mu, and read by the driver after its claim; nil once it is revoked
	task     Task   // written by fill, then owned by the goroutine that decided
	deadline int64  // like task
}

// The states of a slot.
const (
	undecided uint32 = iota // to claimed by the driver, to revoked by a caller
	claimed                 // the driver runs the last claimed slot of a collection
	revoked
)

// fill puts a timer into the slot. Only the driver calls it, under the shard's lock. It needs no atomic operation, because
// callers come to the slot only under that lock, and the driver does not claim meanwhile.
func (s *dueSlot) fill(t *Timer) {
	s.timer, s.task, s.deadline = t, t.task, t.deadline.at()
	_, s.periodic = t.task.(*every)
	s.state = undecided
}

func (s *dueSlot) hasState(state uint32) bool { return atomic.LoadUint32(&s.state) == state }

// claim claims the timer for the driver. It returns nil if a caller was first.
func (s *dueSlot) claim() *Timer {
	if !atomic.CompareAndSwapUint32(&s.state, undecided, claimed) {
		return nil
	}
	return s.timer
}

// revoke takes the timer out for a caller, which holds the shard's lock, and reports whether it was first.
func (s *dueSlot) revoke() bool {
	if !atomic.CompareAndSwapUint32(&s.state, undecided, revoked) {
		return false
	}
	s.timer, s.task = nil, nil
	return true
}

// affinity chooses the shards that a processor uses: every shard whose index is class
// modulo the number of classes. So two processors seldom work on the same cache lines,
// which would cost more than the rest of Schedule and Stop. New timers take these shards
// in turn. Even if one goroutine has scheduled all timers, many goroutines can stop them
// without contention. sync.Pool keeps an affinity per processor.
type affinity struct {
	class uint32
	turn  uint32
	_     [56]byte // a cache line of its own
}

// pickShard returns a shard for a timer that has none.
func (w *Wheel) pickShard() *shard {
	a := w.affinities.Get().(*affinity)
	a.turn += w.classes
	s := &w.shards[(a.turn+a.class)%shardsPerWheel]
	w.affinities.Put(a)
	return s
}

// bindTimer returns the shard of t, locked. A timer without a shard gets one. If t belongs to a wheel that is stopped, bindTimer also
// returns its old shard, locked, because t is still bound to that shard.
func (w *Wheel) bindTimer(t *Timer) (s, old *shard, err error) {
	if w.done == nil {
		return nil, nil, ErrStopped // a Wheel that New did not make
	}
	for {
		s = t.shard.Load()
		if s == nil {
			s = w.pickShard()
			s.mu.Lock()
			if t.shard.CompareAndSwap(nil, s) {
				return s, nil, nil
			}
			s.mu.Unlock()
			continue
		}
		s.mu.Lock()
		switch {
		case t.shard.Load() != s:
			s.mu.Unlock()
			continue
		case s.wheel == w:
			return s, nil, nil
		case !s.isWheelStopped:
			s.mu.Unlock()
			return nil, nil, ErrOtherWheel
		case w.stopped.Load():
			// This check comes before the second lock is taken. Two goroutines that move timers both ways between two
			// wheels would deadlock. But both wheels must be stopped for that, so one of the goroutines ends here.
			s.mu.Unlock()
			return nil, nil, ErrStopped
		}
		old, s = s, w.pickShard()
		s.mu.Lock()
		return s, old, nil
	}
}

// The functions below need mu, but skipPassedPeriods takes it. A tick that they return is for Wheel.wakeBy, after mu
// was unlocked.

// arm begins an arming of t, whose fields s.mu guards.
func (s *shard) arm(t *Timer, deadline int64, task Task) (tick int64, err error) {
	switch {
	case s.isWheelStopped:
		return never, ErrStopped
	case s.stateOf(t) == Pending:
		s.checkNotCopied(t)
		return never, ErrPending
	case !s.wheel.reservePending():
		return never, ErrTooManyPending
	}
	s.armCount++
	t.task = task
	if mark := markOf(t); t.mark != mark { // not written if it is right already, because callers that see a movable deadline read it without the lock
		t.mark = mark
	}
	return s.file(t, deadline), nil
}

// rearm moves the deadline of t, or arms it again if it is not pending.
func (s *shard) rearm(t *Timer, deadline int64) (tick int64, wasPending bool, err error) {
	if s.isWheelStopped {
		return never, false, ErrStopped
	}
	if tick, moved := s.move(t, deadline); moved {
		return tick, true, nil
	}
	tick, err = s.arm(t, deadline, t.task)
	return tick, false, err
}

// move moves the deadline of t if it is pending, and reports whether it was.
func (s *shard) move(t *Timer, deadline int64) (tick int64, moved bool) {
	switch t.state {
	case Pending:
		s.checkNotCopied(t)
		when, ok := s.ring.moveDeadline(t, deadline, s.wheel.firstOpenTick.Load())
		if !ok {
			s.panicCopied()
		}
		return s.lowerNext(when), true
	case due:
		if s.revoke(t) {
			return s.file(t, deadline), true
		}
	}
	return never, false
}

// rearmNext is rearm to the first deadline after now that is whole periods after t's last deadline.
func (s *shard) rearmNext(t *Timer, now, period int64) (tick int64, err error) {
	deadline, skipped := followingPeriod(t.deadline.fix(), now, period)
	tick, _, err = s.rearm(t, deadline)
	if err == nil {
		s.skipCount += skipped
	}
	return tick, err
}

// skipPassedPeriods skips the periods of t that have passed at now, which Next did not do
// because it did not read the clock in a slow callback. It takes mu.
func (s *shard) skipPassedPeriods(t *Timer, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := s.blindDeadline
	if t.shard.Load() != s || t.state != Pending || deadline > now ||
		s.blindTimer != uintptr(unsafe.Pointer(t)) || t.deadline.word.Load() != deadline {
		return // t was moved since, as every timer with a movable deadline was
	}
	skipped := (now-deadline)/s.blindPeriod + 1
	s.skipCount += skipped
	t.deadline.set(deadline + skipped*s.blindPeriod) // a later deadline needs no new place in the ring
}

// file puts t into the ring.
func (s *shard) file(t *Timer, deadline int64) (tick int64) {
	t.state = Pending
	return s.lowerNext(s.ring.add(t, deadline, s.wheel.firstOpenTick.Load()))
}

// lowerNext lowers next to the tick of when. It returns that tick if it did, else never.
func (s *shard) lowerNext(when int64) int64 {
	// Most timers are not the earliest. This test finds that out without a division.
	if next := s.next.Load(); when == never || next != never && when > (next-1)*s.ring.tickLength {
		return never
	}
	tick := s.ring.tickOf(when)
	s.next.Store(tick)
	return tick
}

// setDue fills slots with timers that were collected, and makes them the due
// timers.
func (s *shard) setDue(slots []dueSlot, ts []*Timer) {
	s.collections++
	s.due = slots[:len(ts)]
	s.collectCount += int64(len(ts))
	for i, t := range ts {
		t.state, t.place = due, s.duePlace(i)
		slots[i].fill(t)
	}
}

const dueBits = 7 // of collectAtOnce

// duePlace is the place of a timer that is in due[i].
func (s *shard) duePlace(i int) place { return place(s.collections<<dueBits | uint32(i)) }

// dueSlotOf returns the slot of a timer in state due, or nil if the timer was claimed.
func (s *shard) dueSlotOf(t *Timer) *dueSlot {
	i := int(t.place & (1<<dueBits - 1))
	if i >= len(s.due) || t.place != s.duePlace(i) {
		return nil // the driver has finished that collection
	}
	slot := &s.due[i]
	if !slot.hasState(undecided) {
		return nil
	}
	if slot.timer != t {
		s.checkNotCopied(t)
		return nil
	}
	return slot
}

// runningTimer returns the timer whose callback the driver runs, or has run until just now. It returns nil if the driver does
// not work on this shard.
func (s *shard) runningTimer() *Timer {
	for i := len(s.due) - 1; i >= 0; i-- {
		if s.due[i].hasState(claimed) {
			return s.due[i].timer
		}
	}
	return nil
}

// isRunning reports whether runningTimer would return t, which is in state due. It looks at as few slots as possible.
func (s *shard) isRunning(t *Timer) bool {
	i := int(t.place & (1<<dueBits - 1))
	if i >= len(s.due) || t.place != s.duePlace(i) || s.due[i].timer != t || !s.due[i].hasState(claimed) {
		return false
	}
	for i++; i < len(s.due) && !s.due[i].hasState(undecided); i++ {
		if s.due[i].hasState(claimed) {
			return false
		}
	}
	return true
}

// revoke takes t, which is in state due, from the driver. If the driver was first, t has fired.
func (s *shard) revoke(t *Timer) bool {
	if slot := s.dueSlotOf(t); slot != nil && slot.revoke() {
		s.revokeCount++
		return true
	}
	t.state = Fired
	return false
}

// stateOf returns t's state as callers see it. due is Pending until the claim and Fired from then on.
func (s *shard) stateOf(t *Timer) State {
	if t.state != due {
		return t.state
	}
	if s.dueSlotOf(t) != nil {
		return Pending
	}
	return Fired
}

// countFired returns how many timers were claimed.
func (s *shard) countFired() int64 {
	n := s.collectCount - s.revokeCount
	for i := range s.due {
		if s.due[i].hasState(undecided) {
			n--
		}
	}
	return n
}

// checkNotCopied panics if t is a copy. The state of t must be pending.
func (s *shard) checkNotCopied(t *Timer) {
	if t.mark != markOf(t) {
		s.panicCopied()
	}
}

// panicCopied panics. It unlocks mu before, so that the wheel keeps working.
func (s *shard) panicCopied() {
	s.mu.Unlock()
	panic("wheel: Timer was copied after first use")
}

// cancellation is a timer that Wheel.Stop has ended, and the task whose Cancelled
// must be called. The task is noted under the lock, because without the lock the
// timer can move to another wheel with another task.
type cancellation struct {
	task  canceller
	timer *Timer
}

// close refuses further timers. It appends the timers that were not claimed to
// ts, and those with a method Cancelled to cs.
func (s *shard) close(ts []*Timer, cs []cancellation) ([]*Timer, []cancellation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.isWheelStopped = true
	n := len(ts)
	for i := range s.due {
		slot := &s.due[i]
		if t := slot.timer; slot.revoke() {
			s.revokeCount++
			ts = append(ts, t)
		}
	}
	s.ring.drain(func(t *Timer) { ts = append(ts, t) })
	for _, t := range ts[n:] {
		t.deadline.fix()
		t.state = Stopped
		if c, ok := t.task.(canceller); ok {
			cs = append(cs, cancellation{c, t})
		}
	}
	s.returnCount += int64(len(ts) - n)
	return ts, cs
}

// deadlineAfter returns now + d if d is above zero, else now. It returns never for a
// time beyond the clock's range.
func deadlineAfter(now int64, d time.Duration) int64 {
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
