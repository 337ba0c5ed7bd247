package wheel_test

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

const ms = time.Millisecond

func TestConfigTellsAllFaultsAtOnce(t *testing.T) {
	_, err := wheel.New(wheel.Config{
		Tick: -time.Second, Slots: 1000, MaxBatch: -1, MaxPending: -2, SlowCallback: -3,
	})
	for _, want := range []string{
		"wheel: Config.Tick is -1s, it must be from 1µs to 1h0m0s",
		"wheel: Config.Slots is 1000, it must be a power of two from 1 to 1048576",
		"wheel: Config.MaxBatch is -1, it must be from 1 to 1048576",
		"wheel: Config.MaxPending is -2, it must be at least 1, or 0 for no limit",
		"wheel: Config.SlowCallback is -3ns, it must be at least 1ns",
	} {
		require.ErrorContains(t, err, want)
	}
	for _, cfg := range []wheel.Config{
		{}, {Tick: time.Microsecond}, {Tick: time.Hour}, {Slots: 1}, {Slots: 1 << 20}, {MaxBatch: 1}, {MaxBatch: 1 << 20},
	} {
		_, err := wheel.New(cfg)
		require.NoError(t, err, "%+v", cfg)
	}
	for _, cfg := range []wheel.Config{
		{Tick: time.Microsecond - 1}, {Tick: time.Hour + 1}, {Slots: -1}, {Slots: 1 << 21}, {MaxBatch: 1<<20 + 1},
	} {
		_, err := wheel.New(cfg)
		require.Error(t, err, "%+v", cfg)
	}
}

func TestNeverEarlyAtAnyTickSlotCountAndPhase(t *testing.T) {
	for _, tick := range []time.Duration{time.Microsecond, 7 * time.Microsecond, ms, 10 * ms, 333333, time.Second, time.Hour} {
		for _, slots := range []int{1, 2, 8, 1024} {
			t.Run(fmt.Sprintf("tick=%v/slots=%d", tick, slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := start(t, wheel.Config{Tick: tick, Slots: slots})
					span := tick * time.Duration(slots)
					for _, phase := range []time.Duration{0, 1, tick / 2, tick - 1} {
						time.Sleep(phase)
						for _, d := range []time.Duration{
							-1, 0, 1, tick - 1, tick, tick + 1, 3*tick/2 + 1, 2 * tick,
							span - 1, span, span + 1, 2 * span, 5*span + tick/3,
						} {
							armed := time.Now()
							fired := make(chan time.Duration, 1)
							_, err := w.AfterFunc(d, func() { fired <- time.Since(armed) })
							require.NoError(t, err)
							late := <-fired - max(d, 0)
							require.GreaterOrEqual(t, late, time.Duration(0), "d=%v phase=%v", d, phase)
							require.LessOrEqual(t, late, tick, "d=%v phase=%v", d, phase)
						}
						time.Sleep(100 * span) // long idleness before the next
					}
				})
			})
		}
	}
}

func TestExactlyAtItsTickWhenTheTickIsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		ts := newTimes()
		for _, d := range []time.Duration{0, 10 * ms, 11 * ms, 20 * ms, 24 * time.Hour} {
			_, err := w.AfterFunc(d, ts.note)
			require.NoError(t, err)
		}
		advance(25 * time.Hour)
		require.Equal(t, []time.Duration{0, 10 * ms, 20 * ms, 20 * ms, 24 * time.Hour}, ts.all())
	})
}

func TestNoDelayFiresAtTheNextTickBoundaryNotYetProcessed(t *testing.T) {
	for _, d := range []time.Duration{0, -1, math.MinInt64} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, wheel.Config{})
			ts := newTimes()
			advance(13 * ms)
			timer, err := w.AfterFunc(d, ts.note)
			require.NoError(t, err)
			require.True(t, timer.Deadline().Equal(time.Now()), "its deadline is now, not in the past")
			advance(time.Second)
			_, err = w.AfterFunc(d, func() {
				ts.note()
				_, _ = w.AfterFunc(d, ts.note) // in the tick being processed: the next one
			})
			require.NoError(t, err)
			advance(time.Second)
			require.Equal(t, []time.Duration{20 * ms, 1020 * ms, 1030 * ms}, ts.all())
		})
	}
}

func TestHugeDelaysSaturateAndNeverFire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		advance(time.Hour)
		var ts [3]wheel.Timer
		for i, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, math.MaxInt64 - time.Minute} {
			require.NoError(t, w.Schedule(&ts[i], d, taskFunc(func(*wheel.Timer) { t.Error("fired") })))
			require.True(t, ts[i].Deadline().After(time.Now().Add(250*365*24*time.Hour)))
		}
		_, err := w.AfterFunc(time.Second, func() {})
		require.NoError(t, err)
		advance(10 * 365 * 24 * time.Hour)
		require.Equal(t, int64(1), w.Stats().WakeUps)
		require.NoError(t, ts[0].Next(time.Hour), "never and an hour is never")
		_, err = ts[1].Reset(math.MaxInt64)
		require.NoError(t, err)
		advance(24 * time.Hour)
		require.Equal(t, 3, w.Len())
		was, err := ts[2].Reset(time.Second)
		require.NoError(t, err)
		require.True(t, was)
		require.True(t, ts[2].Stop(), "it can come back from there")
		require.Len(t, w.Stop(), 2)
	})
}

func TestSaturatedTimersNeedNoDriver(t *testing.T) {
	w := start(t, wheel.Config{})
	before := runtime.NumGoroutine()
	_, err := w.AfterFunc(math.MaxInt64, func() {})
	require.NoError(t, err)
	require.Equal(t, before, runtime.NumGoroutine())
}

func TestFarAndNearTimersInOneBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{Tick: ms, Slots: 8})
		ts := newTimes()
		for _, revolutions := range []time.Duration{5, 0, 1000, 1} {
			_, err := w.AfterFunc(3*ms+8*ms*revolutions, ts.note)
			require.NoError(t, err)
		}
		advance(time.Minute)
		require.Equal(t, []time.Duration{3 * ms, 11 * ms, 43 * ms, 8003 * ms}, ts.all())
	})
}

func TestFiresInTheOrderOfTicksAfterAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{SlowCallback: time.Hour})
		var got []int
		block := make(chan struct{})
		_, err := w.AfterFunc(10*ms, func() { <-block })
		require.NoError(t, err)
		for i := 99; i >= 0; i-- {
			_, err := w.AfterFunc(time.Duration(20+10*i)*ms, func() { got = append(got, i) })
			require.NoError(t, err)
		}
		advance(1100 * ms)
		require.Empty(t, got)
		close(block)
		synctest.Wait()
		require.Len(t, got, 100)
		require.IsIncreasing(t, got)
	})
}

func TestStalledDriverCatchesUp(t *testing.T) {
	for _, stall := range []time.Duration{15 * ms, 100 * 10 * ms, 24 * time.Hour} {
		t.Run(stall.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := start(t, wheel.Config{Slots: 64})
				const n = 1000
				var fired [n]int
				_, err := w.AfterFunc(10*ms, func() { time.Sleep(stall) })
				require.NoError(t, err)
				var timers [n]wheel.Timer
				for i := range timers {
					d := 20*ms + time.Duration(i)*stall/(n/2) // half of them due during the stall
					require.NoError(t, w.Schedule(&timers[i], d, taskFunc(func(*wheel.Timer) { fired[i]++ })))
				}
				advance(10*ms + stall + 10*ms)
				for i := range timers {
					due := 20*ms + time.Duration(i)*stall/(n/2)
					if due <= stall {
						require.Equal(t, 1, fired[i], "timer %d", i)
					}
				}
				advance(3 * stall)
				for i := range timers {
					require.Equal(t, 1, fired[i], "timer %d", i)
				}
				require.LessOrEqual(t, w.Stats().LargestLateness, stall)
			})
		})
	}
}

func TestCatchingUpCostsNoMoreThanTheSlots(t *testing.T) {
	// Ten million ticks were missed. In real time: a loop over all of them would show.
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{Tick: time.Microsecond})
		_, err := w.AfterFunc(0, func() { time.Sleep(10_000 * time.Hour) })
		require.NoError(t, err)
		ts := newTimes()
		_, err = w.AfterFunc(time.Second, ts.note)
		require.NoError(t, err)
		advance(10_001 * time.Hour)
		require.Len(t, ts.all(), 1)
		_, err = w.AfterFunc(time.Second, ts.note)
		require.NoError(t, err)
		advance(time.Minute)
		require.Equal(t, 10_001*time.Hour+time.Second, ts.all()[1])
	})
}

func TestResetCountsFromNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		ts := newTimes()
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
		w := start(t, wheel.Config{SlowCallback: time.Hour})
		ts := newTimes()
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

func TestNextMovesAPendingTimerAWholePeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(nothing)))
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
		w := start(t, wheel.Config{})
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
		account(t, w)
	})
}

func TestStopSucceedsUntilTheTimersOwnClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
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
		w := start(t, wheel.Config{})
		const n = 1000
		timers := make([]wheel.Timer, n)
		ts := newTimes()
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
	for _, grouped := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := start(t, wheel.Config{Slots: 2}) // so that the next ticks share its bucket
			ts := newTimes()
			again := func(timer *wheel.Timer) {
				ts.note()
				_, err := timer.Reset(0)
				require.NoError(t, err)
			}
			schedule := w.Schedule
			if grouped {
				schedule = w.Group(func(b *wheel.Batch) {
					for _, timer := range b.Timers() {
						again(timer)
					}
				}).Schedule
			}
			var timers [5]wheel.Timer
			for i := range timers {
				require.NoError(t, schedule(&timers[i], 10*ms, taskFunc(again)))
			}
			advance(105 * ms)
			at := ts.all()
			require.Len(t, at, 50)
			for i, d := range at {
				require.Equal(t, time.Duration(10+i/5*10)*ms, d)
			}
		})
	}
}

func TestBlockedCallbackBlocksNoCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
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
		w := start(t, wheel.Config{})
		var other, fresh wheel.Timer
		require.NoError(t, w.Schedule(&other, time.Hour, taskFunc(func(*wheel.Timer) { t.Error("stopped, but fired") })))
		ts := newTimes()
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
		account(t, w)
	})
}

func TestClearErrors(t *testing.T) {
	w, other := start(t, wheel.Config{}), start(t, wheel.Config{})
	task := taskFunc(nothing)
	var timer, idle wheel.Timer

	require.ErrorIs(t, w.Schedule(nil, 0, task), wheel.ErrNilTimer)
	require.ErrorIs(t, w.Schedule(&timer, 0, nil), wheel.ErrNilTask)
	require.ErrorIs(t, w.Group(nil).Schedule(&timer, 0, task), wheel.ErrNilTask)
	_, err := w.AfterFunc(0, nil)
	require.ErrorIs(t, err, wheel.ErrNilTask)
	require.Equal(t, wheel.Idle, timer.State())

	require.NoError(t, w.Schedule(&timer, time.Hour, task))
	require.ErrorIs(t, w.Schedule(&timer, time.Minute, task), wheel.ErrPending)
	require.ErrorIs(t, w.Group(func(*wheel.Batch) {}).Schedule(&timer, time.Minute, task), wheel.ErrPending)
	require.ErrorIs(t, other.Schedule(&timer, time.Minute, task), wheel.ErrOtherWheel)
	require.True(t, timer.Stop())
	require.ErrorIs(t, other.Schedule(&timer, time.Minute, task), wheel.ErrOtherWheel, "for its life")
	err = timer.Next(0)
	require.ErrorIs(t, err, wheel.ErrPeriod)
	require.EqualError(t, err, "wheel: period must be above zero: 0s")
	require.ErrorIs(t, timer.Next(-1), wheel.ErrPeriod)

	_, err = idle.Reset(0)
	require.ErrorIs(t, err, wheel.ErrNotScheduled)
	require.ErrorIs(t, idle.Next(time.Second), wheel.ErrNotScheduled)
	require.False(t, idle.Stop())
	require.Nil(t, idle.Task())
	require.Nil(t, idle.Wheel())
	require.True(t, idle.Deadline().IsZero())

	require.Empty(t, w.Stop())
	require.ErrorIs(t, w.Schedule(&timer, 0, task), wheel.ErrStopped)
	require.ErrorIs(t, w.Schedule(&idle, 0, task), wheel.ErrStopped)
	require.ErrorIs(t, w.Group(func(*wheel.Batch) {}).Schedule(&idle, 0, task), wheel.ErrStopped)
	_, err = timer.Reset(0)
	require.ErrorIs(t, err, wheel.ErrStopped)
	require.ErrorIs(t, timer.Next(1), wheel.ErrStopped)
	_, err = w.AfterFunc(0, func() {})
	require.ErrorIs(t, err, wheel.ErrStopped)
	require.Equal(t, wheel.Idle, idle.State())
	require.NoError(t, other.Schedule(&idle, time.Hour, task), "a refused timer is bound to nothing")
}

func TestTimerTellsWhereItStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		var timer wheel.Timer
		require.Equal(t, "idle", timer.State().String())
		task := newTimes()
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

func TestMaxPendingIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{MaxPending: 3})
		var timers [5]wheel.Timer
		task := taskFunc(nothing)
		for i := range 3 {
			require.NoError(t, w.Schedule(&timers[i], time.Second, task))
		}
		require.ErrorIs(t, w.Schedule(&timers[3], time.Second, task), wheel.ErrTooManyPending)
		require.Equal(t, wheel.Idle, timers[3].State())
		_, err := timers[0].Reset(time.Second)
		require.NoError(t, err, "a pending timer takes no second place")
		require.True(t, timers[0].Stop())
		require.NoError(t, w.Schedule(&timers[3], time.Second, task), "a stopped one gave its place back")
		_, err = timers[0].Reset(time.Second)
		require.ErrorIs(t, err, wheel.ErrTooManyPending)
		require.Equal(t, wheel.Stopped, timers[0].State())
		advance(2 * time.Second)
		for i := range 3 { // fired ones too
			_, err = timers[i].Reset(time.Second)
			require.NoError(t, err)
		}
		require.ErrorIs(t, timers[3].Next(time.Second), wheel.ErrTooManyPending)
		require.Equal(t, 3, w.Len())
		account(t, w)
	})
}

func TestMaxPendingIsExactFromManyGoroutines(t *testing.T) {
	const limit = 100
	w := start(t, wheel.Config{MaxPending: limit})
	var accepted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range limit {
				switch err := w.Schedule(new(wheel.Timer), time.Hour, taskFunc(nothing)); {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, wheel.ErrTooManyPending):
					refused.Add(1)
				}
			}
		})
	}
	wg.Wait()
	require.Equal(t, int64(limit), accepted.Load())
	require.Equal(t, int64(7*limit), refused.Load())
	require.Equal(t, limit, w.Len())
}

func TestAfterFuncHandleIsNeverReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
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
		w := start(t, wheel.Config{OnError: func(err *wheel.CallbackError) { told = append(told, err) }})
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

func TestNewWheelIsSmallAndHasNoGoroutine(t *testing.T) {
	const n = 5000
	goroutines := runtime.NumGoroutine()
	before := heap()
	ws := make([]*wheel.Wheel, n)
	for i := range ws {
		w, err := wheel.New(wheel.Config{})
		require.NoError(t, err)
		ws[i] = w
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines) // fewer if one of a test before has only now ended
	require.Less(t, (heap()-before)/n, uint64(32<<10))
	for _, w := range ws {
		w.Stop()
		<-w.Done()
	}
	ws = nil
	for i := range n { // used, they are still under 200 MB, and nothing is left of them
		w, err := wheel.New(wheel.Config{})
		require.NoError(t, err)
		_, err = w.AfterFunc(time.Hour, func() {})
		require.NoError(t, err)
		ws = append(ws, w)
		if i == 1000 {
			require.LessOrEqual(t, runtime.NumGoroutine(), goroutines+i+1)
		}
	}
	require.Less(t, int64(heap())-int64(before), int64(200<<20))
	for _, w := range ws {
		require.Len(t, w.Stop(), 1)
		<-w.Done()
	}
	ws = nil
	for range 3 { // the pools of affinities go with the second collection
		runtime.GC()
	}
	require.Less(t, int64(heap())-int64(before), int64(5<<20))
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestNoCallAllocates(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool forgets under the race detector")
	}
	w := start(t, wheel.Config{})
	g := w.Group(func(*wheel.Batch) {})
	task := &cancelTask{w: w}
	timers := make([]wheel.Timer, 100)
	for name, schedule := range map[string]func(*wheel.Timer, time.Duration, wheel.Task) error{"plain": w.Schedule, "group": g.Schedule} {
		require.Zero(t, testing.AllocsPerRun(10, func() {
			for i := range timers {
				_ = schedule(&timers[i], time.Duration(i)*time.Second+time.Hour, task)
				_, _ = timers[i].Reset(2 * time.Hour)
				_, _ = timers[i].Reset(time.Hour)
				_ = timers[i].Next(time.Second)
				_, _ = timers[i].State(), timers[i].Deadline()
				timers[i].Stop()
				_, _ = timers[i].Reset(time.Hour)
				timers[i].Stop()
				task.cancelled = task.cancelled[:0]
			}
		}), name)
	}
	require.InDelta(t, 1, testing.AllocsPerRun(1000, func() {
		timer, _ := w.AfterFunc(time.Hour, func() {})
		timer.Stop()
	}), 0.1, "AfterFunc's is the handle")
}

func TestFiringAllocatesNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates")
	}
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{MaxBatch: 64})
		again := taskFunc(func(timer *wheel.Timer) { _ = timer.Next(10 * ms) })
		g := w.Group(func(b *wheel.Batch) { _ = b.NextAll(b.Timers(), 10*ms) })
		timers := make([]wheel.Timer, 1000)
		for i := range timers {
			schedule := w.Schedule
			if i%2 == 0 {
				schedule = g.Schedule
			}
			require.NoError(t, schedule(&timers[i], time.Duration(i%10)*ms, again))
		}
		advance(time.Second)
		allocs := testing.AllocsPerRun(1, func() { time.Sleep(10 * time.Second) })
		require.Less(t, allocs/1_000_000, 0.001, "of a million fires")
		require.Greater(t, w.Stats().Fired, int64(2_000_000))
	})
}
