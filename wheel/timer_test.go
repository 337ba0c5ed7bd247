package wheel_test

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

func TestResetCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		ts := newFireTimes()
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, ts))
		advance(700 * ms)
		was, err := timer.Reset(time.Second) // later
		require.NoError(t, err)
		require.True(t, was)
		advance(900 * ms)
		require.Empty(t, ts.all())
		advance(200 * ms)
		require.Equal(t, []time.Duration{1700 * ms}, ts.all())
		was, err = timer.Reset(time.Hour) // fired: armed again
		require.NoError(t, err)
		require.False(t, was)
		_, err = timer.Reset(time.Second) // earlier
		require.NoError(t, err)
		advance(2 * time.Second)
		require.Equal(t, 2800*ms, ts.all()[1])
		_, err = timer.Reset(time.Second)
		require.NoError(t, err)
		require.True(t, timer.Stop())
		was, err = timer.Reset(-time.Hour) // stopped: armed again, at once
		require.NoError(t, err)
		require.False(t, was)
		advance(time.Second)
		require.Equal(t, 3800*ms, ts.all()[2])
		st := w.Stats()
		require.Equal(t, int64(4), st.Armed)
		require.Equal(t, int64(3), st.Fired)
		require.Equal(t, int64(1), st.Stopped)
	})
}

func TestNextDoesNotDriftAndCountsSkippedPeriods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
		ts := newFireTimes()
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, 105*ms, taskFunc(func(timer *wheel.Timer) {
			ts.note()
			n := len(ts.all())
			time.Sleep(ms) // a callback takes its time
			if n == 3 {
				time.Sleep(350 * ms)
			}
			require.NoError(t, timer.Next(105*ms))
		})))
		advance(1100 * ms)
		timer.Stop()
		// Deadlines 105, 210, 315, then 420, 525 and 630 have gone by at 671.
		require.Equal(t, []time.Duration{110 * ms, 210 * ms, 320 * ms, 740 * ms, 840 * ms, 950 * ms, 1050 * ms}, ts.all())
		require.Equal(t, int64(3), w.Stats().SkippedPeriods)
	})
}

// TestNextSkipsPeriodsThoughNoCallbackCountsAsSlow: another callback stalls the wheel.
func TestNextSkipsPeriodsThoughNoCallbackCountsAsSlow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: math.MaxInt64})
		_, err := w.AfterFunc(1500*ms, func() { time.Sleep(10 * time.Second) })
		require.NoError(t, err)
		ts := newFireTimes()
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(func(timer *wheel.Timer) {
			ts.note()
			require.NoError(t, timer.Next(time.Second))
		})))
		advance(13100 * ms)
		require.Equal(t, []time.Duration{time.Second, 11500 * ms, 12 * time.Second, 13 * time.Second}, ts.all())
		require.Equal(t, int64(9), w.Stats().SkippedPeriods)
	})
}

func TestNextMovesAPendingTimerAWholePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(doNothing)))
		at := timer.Deadline()
		require.NoError(t, timer.Next(time.Minute))
		require.Equal(t, time.Minute, timer.Deadline().Sub(at))
		require.True(t, timer.Stop())
		advance(10 * time.Minute)
		require.NoError(t, timer.Next(time.Minute), "a stopped timer goes on from its last deadline")
		require.Equal(t, 10*time.Minute, timer.Deadline().Sub(at))
		require.Equal(t, int64(8), w.Stats().SkippedPeriods)
		require.NoError(t, timer.Next(math.MaxInt64))
		advance(24 * 365 * time.Hour)
		require.Equal(t, wheel.Pending, timer.State())
	})
}

func TestStopActsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var timers [100]wheel.Timer
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], time.Second+time.Duration(i), taskFunc(func(*wheel.Timer) { t.Error("fired") })))
		}
		require.Equal(t, 100, w.Len())
		for i := range timers {
			require.True(t, timers[i].Stop())
			require.Equal(t, wheel.Stopped, timers[i].State())
			require.False(t, timers[i].Stop(), "twice")
			require.Equal(t, 99-i, w.Len())
		}
		advance(time.Minute)
		requireAllEnded(t, w)
	})
}

func TestStopSucceedsUntilTheTimersOwnClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		const n = 1000 // more than are collected at once
		timers := make([]wheel.Timer, n)
		fired := make([]bool, n)
		runs := 0
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], 10*ms, taskFunc(func(timer *wheel.Timer) {
				runs++
				require.False(t, timer.Stop(), "its own claim was before")
				require.Equal(t, wheel.Fired, timer.State())
				fired[i] = true
				if runs > 1 {
					t.Error("a second one fired")
					return
				}
				for j := range timers {
					if j != i {
						require.Equal(t, wheel.Pending, timers[j].State())
						require.True(t, timers[j].Stop(), "timer %d, in the bucket being expired", j)
					}
				}
			})))
		}
		advance(time.Second)
		require.Equal(t, 1, runs)
		st := w.Stats()
		require.Equal(t, int64(1), st.Fired)
		require.Equal(t, int64(n-1), st.Stopped)
	})
}

func TestResetWithinTheBucketBeingExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		const n = 1000
		timers := make([]wheel.Timer, n)
		ts := newFireTimes()
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], 10*ms, taskFunc(func(*wheel.Timer) {
				ts.note()
				if len(ts.all()) > 1 {
					return
				}
				for j := range timers {
					if j != i {
						was, err := timers[j].Reset(time.Second)
						require.NoError(t, err)
						require.True(t, was)
					}
				}
			})))
		}
		advance(time.Second)
		require.Len(t, ts.all(), 1)
		advance(time.Second)
		require.Len(t, ts.all(), n)
		require.Equal(t, int64(n), w.Stats().Armed, "a Reset of a pending timer is no new arming")
	})
}

func TestTimerReArmedInItsCallbackRunsOnceAPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{Slots: 2}) // so that the next ticks share its bucket
		ts := newFireTimes()
		again := func(timer *wheel.Timer) {
			ts.note()
			_, err := timer.Reset(0)
			require.NoError(t, err)
		}
		var timers [5]wheel.Timer
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], 10*ms, taskFunc(again)))
		}
		advance(105 * ms)
		at := ts.all()
		require.Len(t, at, 50)
		for i, d := range at {
			require.Equal(t, time.Duration(10+i/5*10)*ms, d)
		}
	})
}

func TestBlockedCallbackBlocksNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		block := make(chan struct{})
		_, err := w.AfterFunc(10*ms, func() { <-block })
		require.NoError(t, err)
		const n = 600
		timers := make([]wheel.Timer, n)
		var fired [n]int
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], 10*ms+time.Duration(i%3)*10*ms, taskFunc(func(*wheel.Timer) { fired[i]++ })))
		}
		advance(time.Second)
		blocked := fired // some may have gone before
		for i := range timers {
			if blocked[i] == 0 && i%2 == 0 {
				require.True(t, timers[i].Stop())
			}
		}
		_, err = timers[1].Reset(time.Minute)
		require.NoError(t, err)
		timer, err := w.AfterFunc(time.Hour, func() {})
		require.NoError(t, err)
		require.True(t, timer.Stop())
		close(block)
		advance(time.Second)
		for i := range timers {
			switch {
			case blocked[i] == 1 || i == 1:
				require.Equal(t, blocked[i], fired[i])
			case i%2 == 0:
				require.Zero(t, fired[i], "stopped while the driver was blocked")
			default:
				require.Equal(t, 1, fired[i])
			}
		}
	})
}

func TestCallbacksMayDoAnything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var other, fresh wheel.Timer
		require.NoError(t, w.Schedule(&other, time.Hour, taskFunc(func(*wheel.Timer) { t.Error("stopped, but fired") })))
		ts := newFireTimes()
		var rounds int
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, 10*ms, taskFunc(func(timer *wheel.Timer) {
			switch rounds++; rounds {
			case 1:
				require.NoError(t, w.Schedule(&fresh, 20*ms, ts))
				require.NoError(t, w.Schedule(timer, 50*ms, timer.Task()), "its own, by Schedule")
			case 2:
				require.True(t, other.Stop())
				_, err := fresh.Reset(20 * ms) // a tick behind the third round
				require.NoError(t, err)
				require.NoError(t, timer.Next(10*ms))
			case 3:
				require.Equal(t, 1, w.Len(), "fresh")
				require.Len(t, w.Stop(), 1)
				require.Nil(t, w.Stop())
				require.ErrorIs(t, timer.Next(10*ms), wheel.ErrStopped)
			}
		})))
		<-w.Done()
		require.Equal(t, 3, rounds)
		require.Equal(t, []time.Duration{30 * ms}, ts.all())
		requireAllEnded(t, w)
	})
}

func TestTimerTellsWhereItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var timer wheel.Timer
		require.Equal(t, "idle", timer.State().String())
		task := newFireTimes()
		require.NoError(t, w.Schedule(&timer, time.Second, task))
		require.Equal(t, "pending", timer.State().String())
		require.Same(t, task, timer.Task())
		require.Same(t, w, timer.Wheel())
		require.True(t, timer.Deadline().Equal(time.Now().Add(time.Second)))
		advance(2 * time.Second)
		require.Equal(t, "fired", timer.State().String())
		_, err := timer.Reset(time.Second)
		require.NoError(t, err)
		require.Same(t, task, timer.Task(), "with its task")
		require.True(t, timer.Stop())
		require.Equal(t, "stopped", timer.State().String())
	})
}

func TestAfterFuncHandleIsNeverReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		seen := map[*wheel.Timer]bool{}
		var fired int
		var stale []*wheel.Timer
		for range 1000 {
			timer, err := w.AfterFunc(10*ms, func() { fired++ })
			require.NoError(t, err)
			require.False(t, seen[timer])
			seen[timer] = true
			for _, old := range stale {
				require.False(t, old.Stop(), "a stale handle stops nothing")
			}
			advance(20 * ms)
			stale = append(stale[max(0, len(stale)-20):], timer)
		}
		require.Equal(t, 1000, fired)
	})
}

type cancelTask struct {
	w         *wheel.Wheel
	cancelled []*wheel.Timer
	panics    bool
}

func (c *cancelTask) Fire(*wheel.Timer) {}
func (c *cancelTask) Cancelled(timer *wheel.Timer) {
	_ = c.w.Len() // no lock is held
	_ = timer.State()
	c.cancelled = append(c.cancelled, timer)
	if c.panics {
		panic("cancelled")
	}
}

func TestCancelledIsCalledOnTheGoroutineThatStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []*wheel.CallbackError
		w := startWheel(t, wheel.Config{OnError: func(err *wheel.CallbackError) { told = append(told, err) }})
		task := &cancelTask{w: w}
		var a, b, c wheel.Timer
		require.NoError(t, w.Schedule(&a, time.Second, task))
		require.NoError(t, w.Schedule(&b, 10*time.Second, task))
		require.NoError(t, w.Schedule(&c, 10*time.Second, task))
		advance(2 * time.Second)
		require.False(t, a.Stop())
		require.Empty(t, task.cancelled, "not after it fired")
		require.True(t, b.Stop())
		require.Equal(t, []*wheel.Timer{&b}, task.cancelled, "before Stop returned")
		require.False(t, b.Stop())
		_, err := c.Reset(time.Hour)
		require.NoError(t, err)
		require.Len(t, task.cancelled, 1, "not by Reset")
		task.panics = true
		require.Equal(t, []*wheel.Timer{&c}, w.Stop())
		require.Equal(t, []*wheel.Timer{&b, &c}, task.cancelled)
		require.Len(t, told, 1)
		require.Equal(t, "cancelled", told[0].Panic)
		<-w.Done()
	})
}

func TestATimerSaysWhenItIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var timer wheel.Timer
		require.Equal(t, "wheel.Timer(idle)", timer.String())
		clock := func(d time.Duration, layout string) string { return time.Now().Add(d).Format(layout) }
		const day = "15:04:05.000"
		require.NoError(t, w.Schedule(&timer, 90*time.Second, taskFunc(doNothing)))
		require.Equal(t, "wheel.Timer(pending, due in 1m30s, at "+clock(90*time.Second, day)+", wheel_test.taskFunc)", timer.String())
		advance(88799 * ms)
		require.Equal(t, "wheel.Timer(pending, due in 1.201s, at "+clock(1201*ms, day)+", wheel_test.taskFunc)", timer.String())
		advance(2201 * ms)
		require.Equal(t, "wheel.Timer(fired, due 1s ago, at "+clock(-time.Second, day)+", wheel_test.taskFunc)", timer.String())
		require.NoError(t, w.Schedule(&timer, 48*time.Hour, taskFunc(doNothing)))
		require.Equal(t, "wheel.Timer(pending, due in 48h0m0s, at "+clock(48*time.Hour, time.DateTime)+", wheel_test.taskFunc)", timer.String())
		require.True(t, timer.Stop())
		require.NoError(t, w.Schedule(&timer, 1<<63-1, taskFunc(doNothing)))
		require.Equal(t, "wheel.Timer(pending, never due, wheel_test.taskFunc)", timer.String())
	})
}
