package wheel_test

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

func TestNoWakeUpWhenNothingIsDue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{Slots: 8})
		ts := newFireTimes()
		for range 1000 { // in all buckets, many revolutions ahead
			_, err := w.AfterFunc(30*24*time.Hour+rand.N(time.Hour), ts.note)
			require.NoError(t, err)
		}
		synctest.Wait()
		before := w.Stats().WakeUps // each insert that was earlier than all others may have woken the driver
		advance(24 * time.Hour)
		require.Equal(t, before, w.Stats().WakeUps, "24 h idle")
		advance(30 * 24 * time.Hour)
		require.Len(t, ts.all(), 1000)
		require.LessOrEqual(t, w.Stats().WakeUps-before, int64(1000))
	})
}

func TestADayLongTimerIsOneWakeUpAndExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		ts := newFireTimes()
		_, err := w.AfterFunc(24*time.Hour, ts.note)
		require.NoError(t, err)
		advance(24*time.Hour - 1)
		require.Zero(t, w.Stats().WakeUps)
		advance(time.Hour)
		require.Equal(t, []time.Duration{24 * time.Hour}, ts.all())
		require.Equal(t, int64(1), w.Stats().WakeUps)
	})
}

func TestAtMostOneWakeUpForAStoppedOrMovedDeadline(t *testing.T) {
	for name, move := range map[string]func(*wheel.Timer){
		"stopped":     func(timer *wheel.Timer) { timer.Stop() },
		"moved later": func(timer *wheel.Timer) { _, _ = timer.Reset(1000 * time.Hour) },
		"moved often": func(timer *wheel.Timer) {
			for i := range 100 {
				_, _ = timer.Reset(1000*time.Hour + time.Duration(i))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWheel(t, wheel.Config{})
				const n = 100
				var timers [n]wheel.Timer
				for i := range timers {
					require.NoError(t, w.Schedule(&timers[n-1-i], time.Duration(n-i)*time.Minute, taskFunc(doNothing)))
				}
				synctest.Wait()
				before := w.Stats().WakeUps
				for i := range timers {
					move(&timers[i])
				}
				advance(900 * time.Hour)
				require.LessOrEqual(t, w.Stats().WakeUps-before, int64(n))
				require.Zero(t, w.Stats().Fired)
			})
		})
	}
}

func TestAnEarlierInsertWakesTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		ts := newFireTimes()
		_, err := w.AfterFunc(24*time.Hour, ts.note)
		require.NoError(t, err)
		synctest.Wait() // it sleeps to that
		_, err = w.AfterFunc(time.Hour, ts.note)
		require.NoError(t, err)
		synctest.Wait()
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, 48*time.Hour, ts))
		_, err = timer.Reset(time.Minute)
		require.NoError(t, err)
		synctest.Wait()
		var near wheel.Timer
		require.NoError(t, w.Schedule(&near, time.Second, ts))
		advance(25 * time.Hour)
		require.Equal(t, []time.Duration{time.Second, time.Minute, time.Hour, 24 * time.Hour}, ts.all())
	})
}

// TestAStandstillBeforeASleepDoesNotLengthenIt: the process may stand still after the driver has read the clock.
func TestAStandstillBeforeASleepDoesNotLengthenIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, err := wheel.New(wheel.Config{})
		require.NoError(t, err)
		for _, still := range []time.Duration{0, 11 * ms, 4 * time.Second, 5 * time.Second, 20 * time.Second} {
			now := w.Now()
			tick := now/int64(10*ms) + 500
			due := time.Now().Add(time.Duration(tick*int64(10*ms) - now))
			time.Sleep(still)
			want := max(time.Until(due), 0)
			require.Equal(t, want, w.SleepFrom(now, tick), still)
		}
	})
}

func TestNoWakeUpIsLost(t *testing.T) {
	// In real time, timers are inserted while the driver is about to sleep. If a wake-up were lost, the timer
	// would wait for the next insert, which never comes.
	w := startWheel(t, wheel.Config{Tick: time.Microsecond})
	_, err := w.AfterFunc(time.Hour, func() {})
	require.NoError(t, err)
	fired := make(chan struct{}, 1)
	task := taskFunc(func(*wheel.Timer) { fired <- struct{}{} })
	var timer wheel.Timer
	var spun atomic.Int64
	for i := range 50_000 {
		for range i % 512 { // each time the driver is a little nearer to its sleep
			spun.Add(1)
		}
		require.NoError(t, w.Schedule(&timer, 0, task))
		bounded.Receive(t, fired)
	}
}
