package wheel

import (
	"fmt"
	"sync/atomic"
	"time"
	"unsafe"
)

// Task is what the wheel calls when a timer fires. Fire runs on the wheel's
// driver goroutine, or where the Executor runs it. No lock is held, so Fire may
// schedule, stop and re-arm any timer, its own included, and stop the wheel.
// While Fire runs, other timers wait, so it should be short.
//
// A task may also have a method Cancelled(*Timer). The wheel calls Cancelled when
// Timer.Stop or Wheel.Stop has stopped the timer. It calls Cancelled on the
// goroutine of that Stop, before that Stop returns, with no lock held.
type Task interface {
	Fire(*Timer)
}

type canceller interface {
	Cancelled(*Timer)
}

// TaskFunc makes a function a Task. The function gets the timer that fired, so it
// may Reset it.
type TaskFunc func(*Timer)

// Fire calls f.
func (f TaskFunc) Fire(t *Timer) { f(t) }

// funcTask makes a function without arguments a Task. An interface holds it without a further allocation.
type funcTask func()

func (f funcTask) Fire(*Timer) { f() }

// Timer is a timer of a [Wheel]. Make it a field of your own struct, by value. Its
// zero value is ready for [Wheel.Schedule]. All methods are safe for concurrent
// use. A Timer must not be copied after its first use. A call that meets a copy of
// a pending timer panics. A Timer belongs to one wheel until that wheel is
// stopped. Its methods allocate only when the wheel has to grow.
type Timer struct {
	_ noCopy

	// shard has the lock that guards the fields below, except a movable
	// deadline. The first Schedule sets it. It changes only when its wheel is
	// stopped and another wheel schedules the timer, under the locks of both
	// shards.
	shard atomic.Pointer[shard]

	deadline deadline // atomic; see the type
	place    place    // of its entry while pending; of its slot while due
	mark     uint16   // a hash of the timer's own address, while pending or due; finds all copies but one in 65,536
	state    State
	migrated bool // the timer was of another wheel before, so its deadline is never movable
	task     Task
}

// markOf returns a hash of t's address.
func markOf(t *Timer) uint16 {
	return uint16(uint64(uintptr(unsafe.Pointer(t))) * 0x9e3779b97f4a7c15 >> 48)
}

// State is the state of a timer.
type State uint8

const (
	// Idle: the timer was never scheduled. Schedule leads to Pending.
	Idle State = iota
	// Pending: the timer waits for its deadline. Schedule leads here from every
	// other state. Reset and Next lead here from Fired and Stopped. The claim leads
	// to Fired. Timer.Stop and Wheel.Stop lead to Stopped.
	Pending
	// Fired: the driver has claimed the timer. Its callback has run, is running or
	// is about to run, unless the Executor refused it. Schedule, Reset and Next
	// lead to Pending.
	Fired
	// Stopped: Timer.Stop or Wheel.Stop ended it. Schedule, Reset and Next lead
	// to Pending.
	Stopped

	// due: the driver has taken the timer out of its bucket. It comes from
	// Pending. Until the claim, callers see the state as Pending. Stop leads to
	// Stopped, and Reset, Next and Touch lead back to Pending. The claim does not
	// write to the timer. The slot in shard.due tells whether the timer was
	// claimed. From the claim on, callers see the timer as Fired. The state becomes
	// Fired when one of them changes the timer.
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

// Stop ends the timer and reports whether it did. If Stop returns true, the
// callback will not run for this arming, and the wheel holds no reference to
// the timer or its task any more. If Stop returns false, the timer was not
// pending. Stop succeeds until the timer is claimed, just before its callback. It
// never waits for a callback.
func (t *Timer) Stop() bool {
	s := t.lock()
	if s == nil {
		return false
	}
	switch t.state {
	case Pending:
		if !s.ring.remove(t) {
			s.panicCopied()
		}
		t.deadline.fix()
	case due:
		if !s.revoke(t) {
			s.mu.Unlock()
			return false
		}
	default:
		s.mu.Unlock()
		return false
	}
	t.state = Stopped
	s.stopCount++
	task := t.task
	s.mu.Unlock()
	w := s.wheel
	w.releasePending(1)
	if c, ok := task.(canceller); ok {
		w.callCancelled(c, t)
	}
	return true
}

// Reset makes the timer fire after d, with the task of its last Schedule, and
// reports whether the timer was pending. If it was not, Reset arms the timer
// again. To move only a pending timer, use Touch. The error is ErrNotScheduled,
// ErrStopped, ErrTooManyPending or ErrBubble. After an error the timer is as it
// was.
func (t *Timer) Reset(d time.Duration) (wasPending bool, err error) {
	seen := t.deadline.word.Load() // before the shard: see postpone
	s := t.shard.Load()
	if s == nil {
		return false, ErrNotScheduled
	}
	w := s.wheel
	now := w.now()
	if w.isOtherBubble(now) {
		return false, ErrBubble
	}
	deadline := deadlineAfter(now, d)
	if t.postpone(seen, deadline) {
		return true, nil
	}
	if s = t.lock(); s == nil {
		return false, ErrNotScheduled
	}
	if s.wheel != w { // the timer has moved to another wheel meanwhile, whose time is another
		s.mu.Unlock()
		return t.Reset(d)
	}
	tick, wasPending, err := s.rearm(t, deadline)
	s.mu.Unlock()
	w.wakeBy(tick)
	return wasPending, err
}

// postpone makes a movable deadline later without the lock, and reports whether
// it did. seen is the deadline's word, read before t.shard. at is a time of the
// wheel to which t.shard belonged. Both are times of the same wheel. The reason is
// that a movable deadline is always of the timer's first wheel, because a timer
// that has moved to another wheel never has a movable deadline again.
func (t *Timer) postpone(seen, at int64) bool {
	return seen < 0 && t.mark == markOf(t) && t.deadline.postpone(seen, at)
}

// Touch makes the timer fire after d if it is pending, and reports whether it was
// pending. Touch never arms a timer. A timer that has fired or was stopped in the
// meantime stays fired or stopped. Where Reset returns ErrBubble, Touch returns
// false and leaves the timer as it is.
func (t *Timer) Touch(d time.Duration) bool {
	seen := t.deadline.word.Load() // before the shard: see postpone
	s := t.shard.Load()
	if s == nil {
		return false
	}
	w := s.wheel
	now := w.now()
	if w.isOtherBubble(now) {
		return false
	}
	deadline := deadlineAfter(now, d)
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
	w.wakeBy(tick)
	return moved
}

// Next makes the timer fire one period after its last deadline, so a timer that
// is re-armed by Next does not drift. If that time has passed, Next skips whole
// periods until the deadline lies ahead, and counts them in
// Stats.SkippedPeriods. Next moves a pending timer in the same way. The error is
// ErrPeriod, or one of Reset's errors. After an error the timer is as it was.
func (t *Timer) Next(period time.Duration) error {
	if period <= 0 {
		return errPeriod(period)
	}
	s := t.lock()
	if s == nil {
		return ErrNotScheduled
	}
	w := s.wheel
	if t.state == due && w.cfg.Executor == nil && s.isRunning(t) {
		// In the timer's own callback, Next need not read the clock if the new deadline lies further ahead than
		// a callback takes that is not slow. If this callback turns out to be slow, the driver skips the periods
		// that have passed when it returns. This is by far the most usual case, and a short cut for the code below.
		deadline := deadlineAfter(t.deadline.at(), period)
		if deadline-w.callbackBegan.Load()-beganPrecision > int64(w.cfg.SlowCallback) && !s.isWheelStopped && w.reservePending() {
			s.blindTimer, s.blindDeadline, s.blindPeriod = uintptr(unsafe.Pointer(t)), deadline, int64(period)
			s.armCount++
			tick := s.file(t, deadline)
			s.mu.Unlock()
			w.wakeBy(tick)
			return nil
		}
	}
	now := w.now()
	if w.isOtherBubble(now) {
		s.mu.Unlock()
		return ErrBubble
	}
	tick, err := s.rearmNext(t, now, int64(period))
	s.mu.Unlock()
	w.wakeBy(tick)
	return err
}

// Task returns the task of the last Schedule, or nil before the first.
func (t *Timer) Task() Task {
	s := t.lock()
	if s == nil {
		return nil
	}
	task := t.task
	s.mu.Unlock()
	return task
}

// State returns the state of the timer at this moment.
func (t *Timer) State() State {
	s := t.lock()
	if s == nil {
		return Idle
	}
	state := s.stateOf(t)
	s.mu.Unlock()
	return state
}

// Deadline returns when the timer is due, or was due when it last fired or was
// stopped. It is the zero Time if the timer was never scheduled. A delay beyond
// the clock's range gives a time about 292 years after New.
func (t *Timer) Deadline() time.Time {
	s := t.lock()
	if s == nil {
		return time.Time{}
	}
	defer s.mu.Unlock()
	return s.wheel.start.Add(time.Duration(t.deadline.at()))
}

// Wheel returns the wheel to which the timer belongs, or nil before its first
// Schedule.
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

// String describes the timer's state, deadline and task, for logs:
//
//	wheel.Timer(pending, due in 1.2s, at 15:04:05.000, *main.session)
//
// The time of day is by the wall clock as it is now. The text has a date if the
// deadline is a day or more away.
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
	w := s.wheel
	until := time.Duration(deadline - w.now())
	layout := "15:04:05.000"
	if until.Abs() >= 24*time.Hour {
		layout = time.DateTime
	}
	return fmt.Sprintf("wheel.Timer(%v, due %s, at %s, %T)", state, fromNow(until), time.Now().Add(until).Format(layout), task)
}

// fromNow returns a text that says how far away a deadline is, to a millisecond, or
// to a second if the deadline is further away than a minute.
func fromNow(d time.Duration) string {
	to := time.Millisecond
	if d.Abs() > time.Minute {
		to = time.Second
	}
	if d < 0 {
		return fmt.Sprintf("%v ago", (-d).Round(to))
	}
	return fmt.Sprintf("in %v", d.Round(to))
}
