package wheel

import "time"

// Stats is a snapshot of a wheel. While no call is in progress, Armed ==
// Pending + Fired + Stopped + Returned.
type Stats struct {
	Pending  int   // timers that wait, as Len; the timer of an Every counts from the call of Every until it is stopped
	Armed    int64 // armings: each Schedule, each Reset or Next of a timer that was not pending, and each period of an Every
	Fired    int64 // armings that ended by the claim, whatever the callback did
	Stopped  int64 // armings that ended by Timer.Stop
	Returned int64 // armings that ended by Wheel.Stop

	// Running, RunningFor and Behind tell what the driver does now. They show a
	// callback that hangs. The counters below count a callback only when it has
	// returned.
	Running    *Timer        // the timer whose callback, or hand-over to the Executor, runs on the driver; nil if there is none
	RunningFor time.Duration // how long that callback has been running, to a millisecond
	Behind     time.Duration // how late the driver is with the earliest tick that is due; 0 if no tick is due

	WakeUps         int64         // how often the driver goroutine woke from its sleep
	LargestLateness time.Duration // the longest time from a deadline to the start of its callback (or its hand-over to the Executor) in the last one to two minutes
	Lateness        Distribution  // the time from deadline to start of all callbacks; those of the tick that is being processed may be missing
	SkippedPeriods  int64         // periods that Next and Every skipped because they had passed, or that Every skipped because its last call had not returned or the Executor refused the call
	SlowCallbacks   int64         // callbacks that took longer than Config.SlowCallback
	Panics          int64         // callbacks that panicked or called runtime.Goexit
}

// Since returns what was counted between the snapshot earlier and s. Pending,
// Running, RunningFor, Behind and LargestLateness are those of s. Lateness.Max is
// accurate to one part in 16.
func (s Stats) Since(earlier Stats) Stats {
	s.Armed -= earlier.Armed
	s.Fired -= earlier.Fired
	s.Stopped -= earlier.Stopped
	s.Returned -= earlier.Returned
	s.WakeUps -= earlier.WakeUps
	s.Lateness = s.Lateness.Since(earlier.Lateness)
	s.SkippedPeriods -= earlier.SkippedPeriods
	s.SlowCallbacks -= earlier.SlowCallbacks
	s.Panics -= earlier.Panics
	return s
}

// Len returns the number of pending timers. It is exact while no call is in
// progress.
func (w *Wheel) Len() int {
	n := int64(0)
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		n += s.armCount - s.countFired() - s.stopCount - s.returnCount
		s.mu.Unlock()
	}
	return int(n)
}

// Stats returns a snapshot. It takes the lock of every shard, one after the
// other, for less than a microsecond each. It does not wait for callbacks. It
// allocates 4 KiB, for Lateness.
func (w *Wheel) Stats() Stats {
	now := w.now()
	st := Stats{
		WakeUps:         w.wakeUps.Load(),
		LargestLateness: time.Duration(w.largestLateness(now)),
		SlowCallbacks:   w.slow.Load(),
		Panics:          w.panics.Load(),
	}
	w.mu.Lock()
	d := w.driver
	w.mu.Unlock()
	if d != nil {
		st.Lateness = d.lateness.Distribution()
	}
	tick := w.passing.Load()
	if !w.stopped.Load() { // after Stop nothing is due, whatever the shards have
		tick = min(tick, w.earliestTick())
	}
	if tick != never {
		st.Behind = time.Duration(max(0, now-tick*int64(w.cfg.Tick)))
	}
	for i := range w.shards {
		s := &w.shards[i]
		s.mu.Lock()
		if t := s.runningTimer(); t != nil {
			st.Running, st.RunningFor = t, time.Duration(max(0, now-w.callbackBegan.Load()))
		}
		st.Armed += s.armCount
		st.Fired += s.countFired()
		st.Stopped += s.stopCount
		st.Returned += s.returnCount
		st.SkippedPeriods += s.skipCount
		s.mu.Unlock()
	}
	st.Pending = int(st.Armed - st.Fired - st.Stopped - st.Returned)
	return st
}
