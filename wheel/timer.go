package wheel

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Task is what a timer is for. Fire runs on the wheel's driver goroutine (or where the Executor
// runs it), with no lock held, so it may schedule, stop and re-arm any timer, this one included,
// and stop the wheel. While it runs other timers wait: it should be short.
//
// A task that has a method Cancelled(*Timer) besides gets it called when its timer was stopped,
// by Timer.Stop or Wheel.Stop, on the goroutine that stopped it and before that call returns,
// with no lock held.
type Task interface {
	Fire(*Timer)
}

type canceller interface {
	Cancelled(*Timer)
}

// TaskFunc is a function as a Task: its timer is what it gets.
type TaskFunc func(*Timer)

// Fire calls f.
func (f TaskFunc) Fire(t *Timer) { f(t) }

// funcTask lets a function be a Task; an interface holds it without a further allocation.
type funcTask func()

func (f funcTask) Fire(*Timer) { f() }

// Timer is a timer of a [Wheel]. It is meant to be a field of the caller's own struct, by value:
// its zero value is ready for [Wheel.Schedule], and no call of it allocates but where the wheel's buckets have to
// grow. It must not be copied after first use: a call that meets a copy of a pending timer panics. It belongs to one
// wheel until that is stopped. All methods are safe for concurrent use.
type Timer struct {
	_ noCopy

	// shard is whose lock guards the fields below, but for a movable deadline. Set by the first Schedule. It changes only if that
	// wheel is stopped, by a Schedule of another, under the locks of both shards.
	shard atomic.Pointer[shard]

	deadline deadline // atomic: see there
	place    place    // of its entry while pending; of its slot while due
	mark     uint16   // of the timer's own address, while pending or due; tells a copy
	state    State
	migrated bool // was of another wheel before: its deadline is never movable
	task     Task
}

// markOf returns a hash of t's address.
func markOf(t *Timer) uint16 {
	return uint16(uint64(uintptr(unsafe.Pointer(t))) * 0x9e3779b97f4a7c15 >> 48)
}

// State is where a timer stands.
type State uint8

const (
	// Idle: never scheduled; to Pending by Schedule.
	Idle State = iota
	// Pending: waiting for its deadline; from any other state by Schedule, from Fired and Stopped by
	// Reset and Next too; to Fired by its claim, to Stopped by Timer.Stop or Wheel.Stop.
	Pending
	// Fired: claimed, so its callback has run, is running or is about to; to Pending by Schedule, Reset or Next.
	Fired
	// Stopped: ended by Timer.Stop or Wheel.Stop; to Pending by Schedule, Reset or Next.
	Stopped

	// due: taken out of its bucket by the driver. From Pending. Until the claim it is Pending to callers: to Stopped,
	// or back to Pending by Reset, Next or Touch. The claim does not touch the timer: whether it has come says
	// the slot in shard.due. From then on it is Fired to callers, and becomes that when one of them changes it.
	due
)

func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Pending, due:
		return "pending"
	case Fired:
		return "fired"
	case Stopped:
		return "stopped"
	}
	return "unknown"
}

// Stop ends the timer and reports whether it did: true means that its callback will not run for
// this arming and that the wheel holds no reference to the timer or its task any more; false that
// it was not pending. It succeeds until the timer's own claim, just before its callback, and never
// waits for a callback.
func (t *Timer) Stop() bool {
	s := t.lock()
	if s == nil {
		return false
	}
	switch t.state {
	case Pending:
		if !s.ring.remove(t) {
			s.copied()
		}
		t.deadline.fix()
	case due:
		if !s.revoke(t) {
			return s.endPeriods(t)
		}
	default:
		return s.endPeriods(t)
	}
	t.state = Stopped
	s.stopped++
	task := t.task
	s.mu.Unlock()
	w := s.wheel
	w.release(1)
	if c, ok := task.(canceller); ok {
		w.cancel(c, t)
	}
	return true
}

// Reset makes the timer fire d from now, with the task it was scheduled with, and reports whether
// it was pending. If it was not, this is a new arming: Touch moves pending timers only. The error is
// ErrNotScheduled, ErrStopped, ErrTooManyPending or ErrBubble; the timer is then as it was.
func (t *Timer) Reset(d time.Duration) (wasPending bool, err error) {
	seen := t.deadline.word.Load() // before the shard: see postpone
	s := t.shard.Load()
	if s == nil {
		return false, ErrNotScheduled
	}
	w := s.wheel
	now := w.now()
	if w.elsewhere(now) {
		return false, ErrBubble
	}
	deadline := after(now, d)
	if t.postpone(seen, deadline) {
		return true, nil
	}
	if s = t.lock(); s == nil {
		return false, ErrNotScheduled
	}
	if s.wheel != w { // to which it went meanwhile; its time is another
		s.mu.Unlock()
		return t.Reset(d)
	}
	tick, wasPending, err := s.rearm(t, deadline)
	s.mu.Unlock()
	w.kick(tick)
	return wasPending, err
}

// postpone makes the deadline later without the lock if it is movable, and reports whether it did. at is of the clock of
// the wheel that t.shard named, and seen is the deadline's word, read before t.shard: a movable deadline is of the timer's
// first wheel, because one that has gone to another is never movable again, and so is at.
func (t *Timer) postpone(seen, at int64) bool {
	return seen < 0 && t.mark == markOf(t) && t.deadline.postpone(seen, at)
}

// Touch makes the timer fire d from now if it is pending, and reports whether it was. It never arms a timer: one that has
// fired or was stopped meanwhile stays so.
func (t *Timer) Touch(d time.Duration) bool {
	seen := t.deadline.word.Load() // before the shard: see postpone
	s := t.shard.Load()
	if s == nil {
		return false
	}
	w := s.wheel
	now := w.now()
	if w.elsewhere(now) {
		return false
	}
	deadline := after(now, d)
	if t.postpone(seen, deadline) {
		return true
	}
	if s = t.lock(); s == nil {
		return false
	}
	if s.wheel != w {
		s.mu.Unlock()
		return t.Touch(d)
	}
	tick, moved := s.move(t, deadline)
	s.mu.Unlock()
	w.kick(tick)
	return moved
}

// Next makes the timer fire one period after its own last deadline, so that a timer re-armed by
// it does not drift. If that has gone by already, whole periods are skipped, and counted in
// Stats.SkippedPeriods, until the deadline lies ahead. A pending timer is moved the same way.
// The error is ErrPeriod, or one of Reset's; the timer is then as it was.
func (t *Timer) Next(period time.Duration) error {
	if period <= 0 {
		return errPeriod(period)
	}
	s := t.lock()
	if s == nil {
		return ErrNotScheduled
	}
	w := s.wheel
	if t.state == due && w.cfg.Executor == nil && s.runs(t) {
		// The timer whose callback runs needs no reading of the clock if the deadline lies further ahead than a callback
		// takes that is not slow. If this one is slow, the driver skips what has gone by when it returns. This is by far
		// the most usual case, and the short way of what is below.
		deadline := after(t.deadline.at(), period)
		if deadline > w.since.Load()+sincePrecision+int64(w.cfg.SlowCallback) && !s.closed && w.reserve() {
			s.blindTimer, s.blindDeadline, s.blindPeriod = uintptr(unsafe.Pointer(t)), deadline, int64(period)
			s.armed++
			tick := s.file(t, deadline)
			s.mu.Unlock()
			w.kick(tick)
			return nil
		}
	}
	now := w.now()
	if w.elsewhere(now) {
		s.mu.Unlock()
		return ErrBubble
	}
	tick, err := s.rearmNext(t, now, int64(period))
	s.mu.Unlock()
	w.kick(tick)
	return err
}

// Task returns the task of the last Schedule, nil before it.
func (t *Timer) Task() Task {
	s := t.lock()
	if s == nil {
		return nil
	}
	task := t.task
	s.mu.Unlock()
	return task
}

// State returns where the timer stands at this moment.
func (t *Timer) State() State {
	s := t.lock()
	if s == nil {
		return Idle
	}
	state := s.stateOf(t)
	s.mu.Unlock()
	return state
}

// Deadline returns when the timer is due, or was when it last fired or was stopped; the zero Time
// if it was never scheduled. A delay beyond the clock's range gives a time some 292 years after New.
func (t *Timer) Deadline() time.Time {
	s := t.lock()
	if s == nil {
		return time.Time{}
	}
	defer s.mu.Unlock()
	return s.wheel.start.Add(time.Duration(t.deadline.at()))
}

// Wheel returns the wheel that the timer belongs to, nil before its first Schedule.
func (t *Timer) Wheel() *Wheel {
	s := t.shard.Load()
	if s == nil {
		return nil
	}
	return s.wheel
}

// lock returns the timer's shard, locked, or nil if it has none.
func (t *Timer) lock() *shard {
	for {
		s := t.shard.Load()
		if s == nil {
			return nil
		}
		s.mu.Lock()
		if t.shard.Load() == s {
			return s
		}
		s.mu.Unlock()
	}
}

// String says where the timer stands and what it is for. It is for logs.
func (t *Timer) String() string {
	s := t.lock()
	if s == nil {
		return "wheel.Timer(idle)"
	}
	state, task, deadline := s.stateOf(t), t.task, t.deadline.at()
	s.mu.Unlock()
	if task == nil {
		return fmt.Sprintf("wheel.Timer(%v)", state)
	}
	if deadline == never {
		return fmt.Sprintf("wheel.Timer(%v, never due, %T)", state, task)
	}
	return fmt.Sprintf("wheel.Timer(%v, due at %v, %T)", state, time.Duration(deadline), task)
}

// noCopy makes vet's copylocks check speak up for a copied Timer.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
