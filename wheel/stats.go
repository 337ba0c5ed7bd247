package wheel

import "time"

// Stats is a snapshot of a wheel. While no call is in progress, Armed ==
// Pending + Fired + Stopped + Returned.
type Stats struct {
	Pending  int   // timers that wait, as Len
	Armed    int64 // armings: each Schedule, and each Reset or Next of a timer that was not pending
	Fired    int64 // armings that ended by the claim, whatever became of the callback
	Stopped  int64 // armings that ended by Timer.Stop
	Returned int64 // armings that ended by Wheel.Stop

	// What the driver does now. A callback that hangs shows here; the counters
	// below count it only when it has returned.
	Running    *Timer        // the timer whose callback, or hand-over to the Executor, runs on the driver; nil if there is none
	RunningFor time.Duration // how long that callback has been running, to a millisecond
	Behind     time.Duration // how long ago the earliest tick was due that is not finished; 0 if none is due

	WakeUps         int64         // how often the driver goroutine woke from its sleep
	LargestLateness time.Duration // the longest time from a deadline to the start of its callback (or its hand-over to the Executor) in the last one to two minutes
	SkippedPeriods  int64         // periods that Next and Every skipped because they had passed
	SlowCallbacks   int64         // callbacks that took longer than Config.SlowCallback
	Panics          int64         // callbacks that panicked or called runtime.Goexit
}

// Len returns the number of pending timers. It is exact while no call is in
// progress.
func (w *Wheel) Len() int { return w.Stats().Pending }

// Stats returns a snapshot. It takes the lock of every shard, one after the
// other, for less than a microsecond each. It does not wait for callbacks.
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
