package wheel

import "time"

// Every calls f once a period, the first time one period from now, until the timer that it returns is stopped or the wheel
// is. It does not drift: deadlines are whole periods from the first, as with [Timer.Next]. Calls never overlap,
// in the Executor neither: the next one is armed when f has returned. Periods that have gone by then are skipped, and
// counted in Stats.SkippedPeriods. If f panics or calls runtime.Goexit, OnError is told and the calls go on.
// Stop ends them from within f too, where it reports false, since that call has begun.
// The error is ErrPeriod, or one of AfterFunc's.
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

// again arms the next call, unless f or somebody else has decided otherwise since this one was claimed.
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

// endPeriods is Stop of a timer that is not pending: it ends a periodic one whose call is under way. It lets mu go.
func (s *shard) endPeriods(t *Timer) bool {
	if _, ok := t.task.(*every); ok && t.state == Fired {
		t.state = Stopped
	}
	s.mu.Unlock()
	return false
}
