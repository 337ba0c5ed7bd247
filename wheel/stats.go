package wheel

import "time"

// Stats is a snapshot of a wheel. When no call is in progress it adds up exactly:
// Armed == Pending + Fired + Stopped + Returned.
type Stats struct {
	Pending  int   // timers waiting, as Len
	Armed    int64 // armings: a Schedule, or a Reset or Next that found its timer not pending
	Fired    int64 // armings that ended by their claim, whatever became of the callback
	Stopped  int64 // armings that ended by Timer.Stop
	Returned int64 // armings that ended by Wheel.Stop

	// What the driver does now. A callback that hangs shows here, where the counters below wait for its end.
	Running    *Timer        // whose callback, or hand-over to the Executor, runs on the driver; nil if none does
	RunningFor time.Duration // for how long, to a millisecond
	Behind     time.Duration // how long ago the earliest tick was due that is not done with; 0 if none is due

	WakeUps         int64         // times that the driver goroutine woke from its sleep
	LargestLateness time.Duration // the longest time from a deadline to the start of its callback (or its hand-over to the Executor), of the last one to two minutes
	SkippedPeriods  int64         // periods that Next and Every passed over because they had gone by
	SlowCallbacks   int64         // callbacks that took longer than Config.SlowCallback
	Panics          int64         // callbacks that panicked or called runtime.Goexit
}

// Len returns the number of pending timers. It is exact when no call is in progress.
func (w *Wheel) Len() int { return w.Stats().Pending }

// Stats returns a snapshot. It takes each shard's lock in turn, for less than a microsecond each, and waits
// for no callback.
func (w *Wheel) Stats() Stats {
	now := w.now()
	st := Stats{
		WakeUps:         w.wakeUps.Load(),
		LargestLateness: time.Duration(w.largestLateness(now)),
		SlowCallbacks:   w.slow.Load(),
		Panics:          w.panics.Load(),
	}
	tick := w.passing.Load()
	if !w.stopped.Load() { // later nothing is due, whatever the shards had
		tick = min(tick, w.earliest())
	}
	if tick != never {
		st.Behind = time.Duration(max(0, now-tick*int64(w.cfg.Tick)))
	}
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		if t := s.running(); t != nil {
			st.Running, st.RunningFor = t, time.Duration(max(0, now-w.since.Load()))
		}
		st.Armed += s.armed
		st.Fired += s.fired()
		st.Stopped += s.stopped
		st.Returned += s.returned
		st.SkippedPeriods += s.skipped
		s.mu.Unlock()
	}
	st.Pending = int(st.Armed - st.Fired - st.Stopped - st.Returned)
	return st
}
