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

	WakeUps         int64         // times that the driver goroutine woke from its sleep
	LargestLateness time.Duration // the longest time from a deadline to the start of its callback (or its hand-over to the Executor)
	SkippedPeriods  int64         // periods that Next and NextAll passed over because they had gone by
	SlowCallbacks   int64         // callbacks that took longer than Config.SlowCallback
	Panics          int64         // callbacks that panicked or called runtime.Goexit
}

// Len returns the number of pending timers. It is exact when no call is in progress.
func (w *Wheel) Len() int { return w.Stats().Pending }

// Stats returns a snapshot. It takes each shard's lock in turn, for a few nanoseconds each.
func (w *Wheel) Stats() Stats {
	st := Stats{
		WakeUps:         w.wakeUps.Load(),
		LargestLateness: time.Duration(w.lateness.Load()),
		SlowCallbacks:   w.slow.Load(),
		Panics:          w.panics.Load(),
	}
	for _, set := range *w.sets.Load() {
		for i := range set.shards {
			s := &set.shards[i]
			s.mu.Lock()
			st.Armed += s.armed
			st.Fired += s.fired
			st.Stopped += s.stopped
			st.Returned += s.returned
			st.SkippedPeriods += s.skipped
			s.mu.Unlock()
		}
	}
	st.Pending = int(st.Armed - st.Fired - st.Stopped - st.Returned)
	return st
}
