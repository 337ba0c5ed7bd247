package wheel

import (
	"sync/atomic"
	"time"
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

// funcTask lets a function be a Task; an interface holds it without a further allocation.
type funcTask func()

func (f funcTask) Fire(*Timer) { f() }

// Timer is a timer of a [Wheel]. It is meant to be a field of the caller's own struct, by value:
// its zero value is ready for [Wheel.Schedule], and no use of it allocates. It must not be copied
// after first use, and belongs to one wheel for its life. All methods are safe for concurrent use.
type Timer struct {
	_ noCopy

	// shard is whose lock guards the fields below. Set by the first Schedule; it changes only under the
	// lock of the shard it names, by a Schedule, and only while the timer is not pending.
	shard atomic.Pointer[shard]

	// What Stop and Reset need comes first: it is likely to be in the cache line that shard was in.
	deadline int64 // ns from the wheel's start; never for a delay beyond the clock's range
	place    place // of its entry while pending; its index in shard.due while due
	state    State
	task     Task
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

	// due: taken out of its bucket by the driver, but not claimed yet. From Pending; to Fired, Stopped,
	// or back to Pending by Reset or Next. To callers it is Pending, since it can still be stopped.
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
		s.ring.remove(t)
	case due:
		s.due[t.place] = nil
	default:
		s.mu.Unlock()
		return false
	}
	t.state = Stopped
	s.stopped++
	task := t.task
	s.mu.Unlock()
	w := s.set.wheel
	w.release(1)
	if c, ok := task.(canceller); ok {
		w.cancel(c, t)
	}
	return true
}

// Reset makes the timer fire d from now, with the task it was scheduled with, and reports whether
// it was pending. If it was not, this is a new arming. The error is ErrNotScheduled, ErrStopped or
// ErrTooManyPending; the timer is then as it was.
func (t *Timer) Reset(d time.Duration) (wasPending bool, err error) {
	s := t.shard.Load()
	if s == nil {
		return false, ErrNotScheduled
	}
	w := s.set.wheel
	deadline := after(w.now(), d)
	if s = t.lock(); s == nil {
		return false, ErrNotScheduled
	}
	if t.state == Pending && deadline >= t.deadline { // by far the most usual case, and rearm's first
		t.deadline = deadline
		s.mu.Unlock()
		return true, nil
	}
	wasPending = t.state.live()
	tick, err := s.rearm(t, deadline)
	s.mu.Unlock()
	w.kick(tick)
	return wasPending, err
}

// Next makes the timer fire one period after its own last deadline, so that a timer re-armed by
// it does not drift. If that has gone by already, whole periods are skipped, and counted in
// Stats.SkippedPeriods, until the deadline lies ahead. A pending timer is moved the same way.
// The error is ErrPeriod, or one of Reset's; the timer is then as it was.
func (t *Timer) Next(period time.Duration) error {
	if period <= 0 {
		return errPeriod(period)
	}
	s := t.shard.Load()
	if s == nil {
		return ErrNotScheduled
	}
	w := s.set.wheel
	now := w.now()
	if s = t.lock(); s == nil {
		return ErrNotScheduled
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
	defer s.mu.Unlock()
	if t.state == due {
		return Pending
	}
	return t.state
}

// Deadline returns when the timer is due, or was when it last fired or was stopped; the zero Time
// if it was never scheduled. A delay beyond the clock's range gives a time some 292 years after New.
func (t *Timer) Deadline() time.Time {
	s := t.lock()
	if s == nil {
		return time.Time{}
	}
	defer s.mu.Unlock()
	return s.set.wheel.start.Add(time.Duration(t.deadline))
}

// Wheel returns the wheel that the timer belongs to, nil before its first Schedule.
func (t *Timer) Wheel() *Wheel {
	s := t.shard.Load()
	if s == nil {
		return nil
	}
	return s.set.wheel
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

// live reports whether the arming has not ended yet.
func (s State) live() bool { return s == Pending || s == due }

// noCopy makes vet's copylocks check speak up for a copied Timer.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}
