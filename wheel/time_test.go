package wheel_test

import (
	"fmt"
	"math"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

func TestNeverEarlyAtAnyTickSlotCountAndPhase(t *testing.T) {
	for _, tick := range []time.Duration{time.Microsecond, 7 * time.Microsecond, ms, 10 * ms, 333333, time.Second, time.Hour} {
		for _, slots := range []int{1, 2, 8, 1024} {
			t.Run(fmt.Sprintf("tick=%v/slots=%d", tick, slots), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := startWheel(t, wheel.Config{Tick: tick, Slots: slots})
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
		w := startWheel(t, wheel.Config{})
		ts := newFireTimes()
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
			w := startWheel(t, wheel.Config{})
			ts := newFireTimes()
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
		w := startWheel(t, wheel.Config{})
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
	w := startWheel(t, wheel.Config{})
	before := runtime.NumGoroutine()
	_, err := w.AfterFunc(math.MaxInt64, func() {})
	require.NoError(t, err)
	require.LessOrEqual(t, runtime.NumGoroutine(), before) // fewer if one of a test before has only now ended
}

func TestFarAndNearTimersInOneBucket(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{Tick: ms, Slots: 8})
		ts := newFireTimes()
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
		w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
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
				w := startWheel(t, wheel.Config{Slots: 64})
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
		w := startWheel(t, wheel.Config{Tick: time.Microsecond})
		_, err := w.AfterFunc(0, func() { time.Sleep(10_000 * time.Hour) })
		require.NoError(t, err)
		ts := newFireTimes()
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

func TestCatchingUpOverMoreThanARevolutionIsOnePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, slots = 5000, 8
		w := startWheel(t, wheel.Config{Slots: slots, SlowCallback: time.Hour})
		_, err := w.AfterFunc(0, func() { time.Sleep(n * 11 * ms) })
		require.NoError(t, err)
		passes, fired := map[int64]bool{}, 0
		timers := make([]wheel.Timer, n)
		for i := range timers { // each at a tick of its own
			require.NoError(t, w.Schedule(&timers[i], time.Duration(i+1)*10*ms, taskFunc(func(*wheel.Timer) {
				passes[w.Passing()] = true
				fired++
			})))
		}
		advance(n * 11 * ms)
		require.Equal(t, n, fired)
		require.LessOrEqual(t, len(passes), slots)
	})
}
