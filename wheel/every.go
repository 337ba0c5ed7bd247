package wheel

import "time"

// Every calls f once per period, the first time one period from now, until the
// returned timer or the wheel is stopped. It does not drift: deadlines are
// whole periods after the first, as with [Timer.Next]. Calls never overlap, not
// even in the Executor, because the next call is armed when f has returned.
// Periods that have passed by then are skipped and counted in
// Stats.SkippedPeriods. If f panics or calls runtime.Goexit, OnError is called
// and the calls continue. f may stop the timer itself; Stop then returns false,
// because the present call has already begun. The error is ErrPeriod, or one of
// AfterFunc's.
func (w *Wheel) Every(period time.Duration, f func()) (*Timer, error) {
	if period <= 0 {
		return nil, errPeriod(period)
	}
	if f == nil {
		return nil, ErrNilTask
	}
	e := &every{period: period, f: f}
	if err := w.schedule(&e.timer, period, 0, e); err != nil {
		return nil, err
	}
	return &e.timer, nil
}

// every is the record of a periodic call.
type every struct {
	timer  Timer
	period time.Duration
	f      func()
}

func (e *every) Fire(t *Timer) {
	defer e.again() // also if f panics
	e.f()
}

// again arms the next call, unless f or somebody else has armed or stopped the
// timer since its claim.
func (e *every) again() {
	t := &e.timer
	s := t.lock()
	w := s.wheel
	if s.stateOf(t) != Fired {
		s.mu.Unlock()
		return
	}
	tick, err := s.rearmNext(t, w.now(), int64(e.period))
	s.mu.Unlock()
	w.kick(tick)
	if err == ErrTooManyPending {
		w.cfg.OnError(&CallbackError{Timers: []*Timer{t}, Err: err})
	}
}

// endPeriods is Stop of a timer that is not pending. It ends a periodic timer
// whose call is under way. It unlocks mu.
func (s *shard) endPeriods(t *Timer) bool {
	if _, ok := t.task.(*every); ok && t.state == Fired {
		t.state = Stopped
	}
	s.mu.Unlock()
	return false
}
