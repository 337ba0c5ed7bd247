package wheel_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

func TestTouchMovesAPendingTimerAndNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		ts := newFireTimes()
		var timer wheel.Timer
		require.False(t, timer.Touch(time.Second), "never scheduled")
		require.NoError(t, w.Schedule(&timer, time.Second, ts))
		advance(700 * ms)
		require.True(t, timer.Touch(time.Second), "later")
		advance(900 * ms)
		require.Empty(t, ts.all())
		require.True(t, timer.Touch(20*ms), "earlier")
		advance(time.Second)
		require.Equal(t, []time.Duration{1620 * ms}, ts.all())
		require.False(t, timer.Touch(time.Second), "fired")
		require.Equal(t, wheel.Fired, timer.State())
		advance(time.Minute)
		require.Len(t, ts.all(), 1)
		_, err := timer.Reset(time.Second)
		require.NoError(t, err)
		require.True(t, timer.Stop())
		require.False(t, timer.Touch(time.Second), "stopped")
		require.Equal(t, wheel.Stopped, timer.State())
		_, err = timer.Reset(time.Hour)
		require.NoError(t, err)
		require.Len(t, w.Stop(), 1)
		require.False(t, timer.Touch(time.Second), "returned")
		requireAllEnded(t, w)
	})
}

func TestTouchOfADueTimerSucceedsUntilItsClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		timers := make([]wheel.Timer, 100)
		fired := 0
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], time.Second, taskFunc(func(timer *wheel.Timer) {
				if fired++; fired == 1 {
					require.False(t, timer.Touch(time.Hour), "its own claim was before")
					for j := range timers {
						require.Equal(t, &timers[j] != timer, timers[j].Touch(time.Hour))
					}
				}
			})))
		}
		advance(2 * time.Second)
		require.Equal(t, 1, fired)
		requireAllEnded(t, w)
		advance(2 * time.Hour)
		require.Equal(t, 100, fired)
		requireAllEnded(t, w)
	})
}

func TestScheduleWithinTakesTheRoundestTickWithinTheSlack(t *testing.T) {
	for _, c := range []struct{ now, d, slack, at time.Duration }{
		{0, 1000 * ms, 0, 1000 * ms},
		{0, 1000 * ms, -time.Second, 1000 * ms},
		{0, 1001 * ms, 5 * ms, 1010 * ms}, // no tick within: exact
		{0, 1001 * ms, 9 * ms, 1010 * ms},
		{0, 1000 * ms, 280 * ms, 1280 * ms},     // tick 128 of 100 to 128
		{0, 1000 * ms, 270 * ms, 1120 * ms},     // tick 112, four zeros, of 100 to 127
		{0, 1300 * ms, 300 * ms, 1600 * ms},     // tick 160, five zeros, of 130 to 160
		{70 * ms, 930 * ms, 20 * ms, 1000 * ms}, // tick 100, two zeros, of 100 to 102
		{0, 0, 100 * ms, 0},                     // tick 0 is the roundest
		{10 * ms, 0, 100 * ms, 80 * ms},         // tick 8 of 1 to 11
	} {
		t.Run(fmt.Sprint(c), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWheel(t, wheel.Config{})
				ts := newFireTimes()
				advance(c.now)
				var timer wheel.Timer
				require.NoError(t, w.ScheduleWithin(&timer, c.d, c.slack, ts))
				advance(time.Minute)
				require.Equal(t, []time.Duration{c.at}, ts.all())
				_, err := timer.Reset(130 * ms)
				require.NoError(t, err)
				require.Equal(t, 130*ms, time.Until(timer.Deadline()), "Reset is exact")
				require.True(t, timer.Touch(140*ms))
				require.Equal(t, 140*ms, time.Until(timer.Deadline()), "and Touch")
				require.NoError(t, timer.Next(150*ms))
				require.Equal(t, 290*ms, time.Until(timer.Deadline()), "and Next")
			})
		})
	}
}

func TestTimersWithinASlackShareWakeUps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		for i := range 1000 {
			require.NoError(t, w.ScheduleWithin(new(wheel.Timer), time.Minute+time.Duration(i)*7*ms, 3*time.Second, taskFunc(doNothing)))
		}
		synctest.Wait()
		before := w.Stats().WakeUps
		advance(2 * time.Minute)
		require.Equal(t, int64(1000), w.Stats().Fired)
		require.LessOrEqual(t, w.Stats().WakeUps-before, int64(5))
	})
}

func TestEveryNeitherDriftsNorOverlaps(t *testing.T) {
	for _, executor := range []func(func()) error{nil, func(run func()) error { go run(); return nil }} {
		synctest.Test(t, func(t *testing.T) {
			w := startWheel(t, wheel.Config{SlowCallback: time.Hour, Executor: executor})
			ts := newFireTimes()
			running := false
			timer, err := w.Every(105*ms, func(*wheel.Timer) {
				require.False(t, running)
				running = true
				ts.note()
				time.Sleep(ms)
				if len(ts.all()) == 3 {
					time.Sleep(350 * ms)
				}
				running = false
			})
			require.NoError(t, err)
			advance(1105 * ms)
			require.True(t, timer.Stop())
			advance(time.Second)
			require.Equal(t, []time.Duration{110 * ms, 210 * ms, 320 * ms, 740 * ms, 840 * ms, 950 * ms, 1050 * ms}, ts.all())
			require.Equal(t, int64(3), w.Stats().SkippedPeriods)
			requireAllEnded(t, w)
		})
	}
}

func TestStopEndsEveryFromWithinItsCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		calls := 0
		timer, err := w.Every(time.Second, func(timer *wheel.Timer) {
			if calls++; calls == 3 {
				require.Equal(t, wheel.Pending, timer.State())
				require.True(t, timer.Stop(), "the next call does not come")
			}
		})
		require.NoError(t, err)
		advance(time.Minute)
		require.Equal(t, 3, calls)
		require.Equal(t, wheel.Stopped, timer.State())
		require.Zero(t, w.Len())
		_, err = timer.Reset(time.Second)
		require.NoError(t, err, "it can begin again")
		advance(10 * time.Second)
		require.Equal(t, 13, calls)
	})
}

func TestEveryGoesOnBehindAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r hookRecorder
		w := startWheel(t, r.config())
		calls := 0
		_, err := w.Every(time.Second, func(*wheel.Timer) { calls++; panic("boom") })
		require.NoError(t, err)
		advance(10500 * ms)
		require.Equal(t, 10, calls)
		require.Len(t, r.errs, 10)
		for _, f := range []func(*wheel.Timer){nil, func(*wheel.Timer) {}} {
			_, err = w.Every(0, f)
			require.ErrorIs(t, err, wheel.ErrPeriod)
		}
		_, err = w.Every(1, nil)
		require.ErrorIs(t, err, wheel.ErrNilTask)
	})
}

// TestEveryKeepsItsPlace: a full wheel does not end an Every, because its timer stays pending.
func TestEveryKeepsItsPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r hookRecorder
		cfg := r.config()
		cfg.MaxPending = 2
		w := startWheel(t, cfg)
		var taken []error
		timer, err := w.Every(time.Second, func(*wheel.Timer) {
			require.Equal(t, 1+min(len(taken), 1), w.Len(), "it is pending while its call runs")
			_, err := w.AfterFunc(time.Hour, func() {})
			taken = append(taken, err)
		})
		require.NoError(t, err)
		advance(3500 * ms)
		require.Empty(t, r.errs)
		require.Equal(t, []error{nil, wheel.ErrTooManyPending, wheel.ErrTooManyPending}, taken)
		require.True(t, timer.Stop())
		_, err = w.AfterFunc(time.Hour, func() {})
		require.NoError(t, err, "its place is free")
		_, err = timer.Reset(time.Second)
		require.ErrorIs(t, err, wheel.ErrTooManyPending)
	})
}

func TestEveryGoesOnBehindARefusal(t *testing.T) {
	full := errors.New("full")
	for how, refuse := range map[string]func() error{
		"an error":          func() error { return full },
		"Goexit":            func() error { runtime.Goexit(); return nil },
		"an error too late": nil,
	} {
		t.Run(how, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var r hookRecorder
				cfg := r.config()
				given, refused := 0, 0
				cfg.Executor = func(run func()) error {
					if given++; given%2 == 0 {
						refused++
						if refuse == nil {
							run()
							return full
						}
						return refuse()
					}
					run()
					return nil
				}
				w := startWheel(t, cfg)
				calls := 0
				_, err := w.Every(time.Second, func(*wheel.Timer) { calls++ })
				require.NoError(t, err)
				advance(10500 * ms)
				require.Equal(t, 10, given)
				require.Len(t, r.errs, refused)
				if refuse == nil {
					require.Equal(t, 10, calls)
					require.Zero(t, w.Stats().SkippedPeriods)
				} else {
					require.Equal(t, 5, calls)
					require.EqualValues(t, 5, w.Stats().SkippedPeriods)
					require.ErrorIs(t, r.errs[0], wheel.ErrRefused)
				}
				requireAllEnded(t, w)
			})
		})
	}
}

func TestTaskFuncGetsItsTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		var timer, got wheel.Timer
		at := &got
		require.NoError(t, w.Schedule(&timer, time.Second, wheel.TaskFunc(func(t *wheel.Timer) { at = t })))
		advance(2 * time.Second)
		require.Same(t, &timer, at)
	})
}

func TestNextSkipsWhatASlowCallbackTook(t *testing.T) {
	// The callback calls Next and is slow afterwards. The periods that pass in that time are skipped as well.
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{OnSlow: func(*wheel.Timer, time.Duration) {}})
		ts := newFireTimes()
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(func(timer *wheel.Timer) {
			ts.note()
			require.NoError(t, timer.Next(time.Second))
			if len(ts.all()) == 2 {
				time.Sleep(3500 * ms)
			}
		})))
		advance(8100 * ms)
		require.Equal(t, []time.Duration{time.Second, 2 * time.Second, 6 * time.Second, 7 * time.Second, 8 * time.Second}, ts.all())
		require.Equal(t, int64(3), w.Stats().SkippedPeriods)
	})
}

// TestNextSkipsWhatASlowCallbackTookThatFails: no call follows at once.
func TestNextSkipsWhatASlowCallbackTookThatFails(t *testing.T) {
	for name, fail := range map[string]func(){"panic": func() { panic("in a call") }, "goexit": runtime.Goexit} {
		for _, first := range []bool{true, false} { // Next comes first
			t.Run(fmt.Sprint(name, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					failures := 0
					w := startWheel(t, wheel.Config{OnError: func(*wheel.CallbackError) {
						failures++
						runtime.Goexit() // the hook fails, too
					}})
					ts := newFireTimes()
					var timer wheel.Timer
					next := func(now bool) {
						if now {
							require.NoError(t, timer.Next(200*ms))
						}
					}
					require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(func(*wheel.Timer) {
						ts.note()
						calls := len(ts.all())
						next(first)
						if calls == 1 {
							time.Sleep(450 * ms)
						}
						next(!first)
						if calls == 1 {
							fail()
						}
					})))
					advance(2100 * ms)
					require.Equal(t, []time.Duration{time.Second, 1600 * ms, 1800 * ms, 2 * time.Second}, ts.all())
					require.Equal(t, int64(2), w.Stats().SkippedPeriods)
					require.Equal(t, 1, failures)
				})
			})
		}
	}
}

func TestStatsShowACallbackThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		block := make(chan struct{})
		var hangs wheel.Timer
		require.NoError(t, w.Schedule(&hangs, time.Second, taskFunc(func(*wheel.Timer) { <-block })))
		for range 300 {
			require.NoError(t, w.Schedule(new(wheel.Timer), 1500*ms, taskFunc(doNothing)))
		}
		st := w.Stats()
		require.Nil(t, st.Running)
		require.Zero(t, st.RunningFor)
		require.Zero(t, st.Behind)
		advance(time.Minute)
		st = w.Stats()
		require.Same(t, &hangs, st.Running)
		require.InDelta(t, 59*time.Second, st.RunningFor, float64(ms))
		require.Equal(t, 59*time.Second, st.Behind)
		require.Equal(t, 300, st.Pending)
		require.Contains(t, st.Running.String(), "taskFunc")
		close(block)
		synctest.Wait()
		st = w.Stats()
		require.Nil(t, st.Running)
		require.Zero(t, st.Behind)
		requireAllEnded(t, w)
	})
}

func TestAStoppedWheelIsNotBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		require.NoError(t, w.Schedule(new(wheel.Timer), time.Second, taskFunc(doNothing)))
		w.Stop()
		advance(time.Minute)
		require.Zero(t, w.Stats().Behind)
	})
}

func TestStatsShowAnExecutorThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := make(chan struct{})
		w := startWheel(t, wheel.Config{Executor: func(run func()) error { <-block; run(); return nil }})
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Second, taskFunc(doNothing)))
		advance(10 * time.Second)
		require.Same(t, &timer, w.Stats().Running)
		require.Equal(t, 9*time.Second, w.Stats().Behind)
		close(block)
		synctest.Wait()
		require.Nil(t, w.Stats().Running)
	})
}

// TestLargestLatenessForgetsWhatIsLongAgo: it forgets a lateness after a minute at the earliest
// and two at the latest, however long the wheel has been running.
func TestLargestLatenessForgetsWhatIsLongAgo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
		_, err := w.Every(time.Second, func(*wheel.Timer) {})
		require.NoError(t, err)
		for range 5 {
			_, err = w.AfterFunc(10*time.Second, func() { time.Sleep(5 * time.Second) })
			require.NoError(t, err)
			advance(40 * time.Second)
			require.GreaterOrEqual(t, w.Stats().LargestLateness, 4*time.Second)
			advance(30 * time.Second)
			require.GreaterOrEqual(t, w.Stats().LargestLateness, 4*time.Second, "for a minute at least")
			advance(80 * time.Second)
			require.Zero(t, w.Stats().LargestLateness, "for two at most")
		}
	})
}

// TestLargestLatenessForgetsWhatWasBeforeALongSleep: nothing was due for minutes, and the
// first timer after that is not taken for a late one.
func TestLargestLatenessForgetsWhatWasBeforeALongSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
		soon := func() {}
		_, err := w.AfterFunc(time.Second, func() { time.Sleep(5 * time.Second) })
		require.NoError(t, err)
		_, err = w.AfterFunc(1500*time.Millisecond, soon) // it waits for the first; two of one tick fire in either order
		require.NoError(t, err)
		advance(10 * time.Second)
		require.GreaterOrEqual(t, w.Stats().LargestLateness, 4*time.Second)
		_, err = w.AfterFunc(3*time.Minute, soon)
		require.NoError(t, err)
		advance(3*time.Minute + 10*time.Second)
		require.Zero(t, w.Stats().LargestLateness)
	})
}

func TestARefusedTimerStaysWhereItWas(t *testing.T) {
	full, old := startWheel(t, wheel.Config{MaxPending: 1}), startWheel(t, wheel.Config{})
	var timer wheel.Timer
	task, other := taskFunc(doNothing), newFireTimes()
	require.NoError(t, old.Schedule(&timer, time.Hour, task))
	require.ErrorIs(t, full.Schedule(&timer, time.Hour, other), wheel.ErrOtherWheel)
	old.Stop()
	require.NoError(t, full.Schedule(new(wheel.Timer), time.Hour, task))
	require.ErrorIs(t, full.Schedule(&timer, time.Hour, other), wheel.ErrTooManyPending)
	require.Same(t, old, timer.Wheel())
	_, err := timer.Reset(time.Second)
	require.ErrorIs(t, err, wheel.ErrStopped, "it is its old wheel's still")
}

func TestARefusedTimerIsFreeToGoElsewhere(t *testing.T) {
	full, other := startWheel(t, wheel.Config{MaxPending: 1}), startWheel(t, wheel.Config{})
	require.NoError(t, full.Schedule(new(wheel.Timer), time.Hour, taskFunc(doNothing)))
	var timer wheel.Timer
	require.ErrorIs(t, full.Schedule(&timer, time.Hour, taskFunc(doNothing)), wheel.ErrTooManyPending)
	require.Nil(t, timer.Wheel())
	_, err := timer.Reset(time.Second)
	require.ErrorIs(t, err, wheel.ErrNotScheduled)
	require.NoError(t, other.Schedule(&timer, time.Hour, taskFunc(doNothing)))
	require.Same(t, other, timer.Wheel())
}

// TestARefusedTimerKeepsItsTask: a timer that has fired or was stopped runs its old task if
// it is reset.
func TestARefusedTimerKeepsItsTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{MaxPending: 1})
		task, other := newFireTimes(), newFireTimes()
		var fired, filler wheel.Timer
		require.NoError(t, w.Schedule(&fired, time.Second, task))
		advance(2 * time.Second)
		require.Len(t, task.all(), 1)
		require.NoError(t, w.Schedule(&filler, time.Hour, other))
		require.ErrorIs(t, w.Schedule(&fired, time.Second, other), wheel.ErrTooManyPending)
		require.True(t, filler.Stop())
		_, err := fired.Reset(time.Second)
		require.NoError(t, err)
		advance(2 * time.Second)
		require.Len(t, task.all(), 2)
		require.Empty(t, other.all())
	})
}

func TestATimerOfAStoppedWheelGoesToAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ts := newFireTimes()
		var timer wheel.Timer
		for range 5 {
			w := startWheel(t, wheel.Config{})
			for range 2 {
				require.NoError(t, w.Schedule(&timer, time.Second, ts))
				advance(2 * time.Second)
			}
			require.Same(t, w, timer.Wheel())
			_, err := timer.Reset(time.Hour)
			require.NoError(t, err)
			require.Equal(t, []*wheel.Timer{&timer}, w.Stop())
			require.ErrorIs(t, w.Schedule(&timer, 0, ts), wheel.ErrStopped)
		}
		require.Len(t, ts.all(), 10)
	})
}

// mover goes to another wheel when its own is stopped.
type mover struct {
	timer wheel.Timer
	to    *wheel.Wheel
	told  int
}

func (m *mover) Fire(*wheel.Timer) {}
func (m *mover) Cancelled(timer *wheel.Timer) {
	m.told++
	_ = m.to.Schedule(timer, time.Hour, m)
}

func TestCancelledMayGiveItsTimerToAnotherWheel(t *testing.T) {
	a, b := startWheel(t, wheel.Config{}), startWheel(t, wheel.Config{})
	ms := make([]mover, 100)
	for i := range ms {
		ms[i].to = b
		require.NoError(t, a.Schedule(&ms[i].timer, time.Hour, &ms[i]))
	}
	require.Len(t, a.Stop(), 100)
	require.Equal(t, 100, b.Len())
	require.Len(t, b.Stop(), 100)
	for i := range ms {
		require.Equal(t, 2, ms[i].told)
	}
}

func TestTimersThatMoveBetweenStoppedWheelsMeetNoDeadlock(t *testing.T) {
	for range 200 {
		a, b := startWheel(t, wheel.Config{}), startWheel(t, wheel.Config{})
		timers := make([]wheel.Timer, 16)
		for i := range timers {
			require.NoError(t, []*wheel.Wheel{a, b}[i%2].Schedule(&timers[i], time.Hour, taskFunc(doNothing)))
		}
		var wg sync.WaitGroup
		for i := range timers {
			wg.Go(func() {
				for range 10 {
					_ = []*wheel.Wheel{b, a}[i%2].Schedule(&timers[i], time.Hour, taskFunc(doNothing))
				}
			})
		}
		wg.Go(func() { a.Stop() })
		wg.Go(func() { b.Stop() })
		bounded.Wait(t, &wg)
		requireAllEnded(t, a)
		requireAllEnded(t, b)
	}
}

func TestATimerCanBePrintedWhileTheDriverHasIt(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: time.Millisecond})
	var timer wheel.Timer
	require.Equal(t, "wheel.Timer(idle)", timer.String())
	fired := make(chan struct{})
	n := 0
	require.NoError(t, w.Schedule(&timer, 0, taskFunc(func(timer *wheel.Timer) {
		if n++; n == 100 {
			close(fired)
			return
		}
		_, _ = timer.Reset(0)
	})))
	for running := true; running; {
		select {
		case <-fired:
			running = false
		default:
			_ = fmt.Sprintf("%v %s %+v", &timer, &timer, &timer)
		}
	}
	require.Contains(t, fmt.Sprint(&timer), "wheel.Timer(fired, due ")
	require.Contains(t, fmt.Sprint(&timer), ", wheel_test.taskFunc)")
}

func TestTheDriverHasNobodysLabels(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: time.Millisecond})
	ran, block := make(chan struct{}), make(chan struct{})
	pprof.Do(context.Background(), pprof.Labels("request", "of-whoever-was-first"), func(context.Context) {
		_, err := w.AfterFunc(0, func() { close(ran); <-block })
		require.NoError(t, err)
	})
	bounded.Receive(t, ran)
	var text strings.Builder
	require.NoError(t, pprof.Lookup("goroutine").WriteTo(&text, 1))
	close(block)
	require.Contains(t, text.String(), "wheel.(*Wheel).drive")
	require.NotContains(t, text.String(), "of-whoever-was-first")
}

func TestAWheelIsUsedInTheBubbleThatItWasMadeIn(t *testing.T) {
	outside := startWheel(t, wheel.Config{})
	var used wheel.Timer
	require.NoError(t, outside.Schedule(&used, time.Hour, taskFunc(doNothing)))
	var inside *wheel.Wheel
	synctest.Test(t, func(t *testing.T) {
		inside = startWheel(t, wheel.Config{})
		advance(25 * 365 * 24 * time.Hour)
		var timer wheel.Timer
		require.NoError(t, inside.Schedule(&timer, time.Second, taskFunc(doNothing)), "however long the test's time is")
		require.ErrorIs(t, outside.Schedule(new(wheel.Timer), time.Second, taskFunc(doNothing)), wheel.ErrBubble)
		_, err := outside.AfterFunc(time.Second, func() {})
		require.ErrorIs(t, err, wheel.ErrBubble)
		_, err = used.Reset(time.Second)
		require.ErrorIs(t, err, wheel.ErrBubble)
		require.ErrorIs(t, used.Next(time.Second), wheel.ErrBubble)
		require.False(t, used.Touch(time.Second))
		_, err = outside.Every(time.Second, func(*wheel.Timer) {})
		require.ErrorIs(t, err, wheel.ErrBubble)
	})
	require.ErrorIs(t, inside.Schedule(new(wheel.Timer), time.Second, taskFunc(doNothing)), wheel.ErrBubble)
	require.True(t, used.Stop())
}

func TestAWheelThatNewDidNotMakeRefusesAndIsDone(t *testing.T) {
	var w wheel.Wheel
	require.Error(t, w.Schedule(new(wheel.Timer), 0, taskFunc(doNothing)))
	require.Empty(t, w.Stop())
	select {
	case <-w.Done():
	default:
		t.Fatal("not done")
	}
	require.Zero(t, w.Len())
}

// TestSessionExpires is what doc.go shows.
func TestSessionExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, _ := wheel.New(wheel.Config{}) // inside the bubble
		defer w.Stop()
		expired := false
		_, _ = w.AfterFunc(time.Hour, func() { expired = true })
		time.Sleep(time.Hour) // takes no time
		synctest.Wait()
		require.True(t, expired)
	})
}

func TestDocShowsTheTestInABubble(t *testing.T) {
	text, err := os.ReadFile("calls_test.go")
	require.NoError(t, err)
	doc, err := os.ReadFile("doc.go")
	require.NoError(t, err)
	_, shown, _ := strings.Cut(string(text), "// TestSessionExpires is what doc.go shows.\n")
	shown, _, _ = strings.Cut(shown, "\n}\n")
	require.NotEmpty(t, shown)
	for line := range strings.Lines(shown + "\n}\n") {
		require.Contains(t, string(doc), "//\t"+line)
	}
}

func TestEveryGoesToAnotherWheelWhileItsCallRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		old, other := startWheel(t, wheel.Config{}), startWheel(t, wheel.Config{})
		began := time.Now()
		var calls []time.Duration
		timer, err := old.Every(time.Second, func(*wheel.Timer) {
			calls = append(calls, time.Since(began))
			time.Sleep(2700 * ms)
		})
		require.NoError(t, err)
		advance(1500 * ms)
		require.Equal(t, []*wheel.Timer{timer}, old.Stop())
		require.NoError(t, other.Schedule(timer, 500*ms, timer.Task()))
		advance(2400 * ms)
		require.Equal(t, []time.Duration{time.Second}, calls, "the call on the old wheel has not returned at 2 and 3 s")
		require.Equal(t, int64(2), other.Stats().SkippedPeriods)
		advance(4 * time.Second)
		require.Equal(t, []time.Duration{time.Second, 4 * time.Second, 7 * time.Second}, calls)
		require.Equal(t, int64(4), other.Stats().SkippedPeriods, "5 and 6 s, too")
		require.Equal(t, 1, other.Len())
		require.True(t, timer.Stop())
		require.Zero(t, other.Len())
	})
}
