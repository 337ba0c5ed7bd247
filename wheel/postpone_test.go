package wheel_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

func TestAPostponementWaitsForNoLock(t *testing.T) {
	w := startWheel(t, wheel.Config{})
	var timer wheel.Timer
	require.NoError(t, w.Schedule(&timer, time.Hour, taskFunc(doNothing)))
	_, err := timer.Reset(2 * time.Hour)
	require.NoError(t, err)
	unlock := w.LockShards()
	moved := make(chan bool)
	go func() {
		pending, err := timer.Reset(3 * time.Hour)
		moved <- pending && err == nil
		moved <- timer.Touch(4 * time.Hour)
	}()
	require.True(t, bounded.Receive(t, moved))
	require.True(t, bounded.Receive(t, moved))
	unlock()
	require.Greater(t, time.Until(timer.Deadline()), 3*time.Hour)
	require.Equal(t, 1, w.Len())
	require.True(t, timer.Stop())
	require.False(t, timer.Touch(5*time.Hour))
	require.Less(t, time.Until(timer.Deadline()), 4*time.Hour+time.Second, "what ended is not moved")
}

func TestATimerOnItsSecondWheelIsMovedUnderItsLock(t *testing.T) {
	// A delayed Reset that began on the first wheel counts from the start of the first wheel.
	first, second := startWheel(t, wheel.Config{}), startWheel(t, wheel.Config{})
	var timer wheel.Timer
	touch := func(w *wheel.Wheel) (movable bool) {
		require.NoError(t, w.Schedule(&timer, time.Hour, taskFunc(doNothing)))
		require.True(t, timer.Touch(2*time.Hour))
		require.True(t, timer.Touch(3*time.Hour))
		require.Greater(t, time.Until(timer.Deadline()), 2*time.Hour)
		return timer.Movable()
	}
	require.True(t, touch(first))
	require.Len(t, first.Stop(), 1)
	require.False(t, timer.Movable(), "it is stopped")
	require.False(t, touch(second))
}

// TestTimersThatArePutOffAgainAndAgain postpones timers by some ticks, and by more than a revolution. Each timer fires once, at
// the tick of its last deadline.
func TestTimersThatArePutOffAgainAndAgain(t *testing.T) {
	for _, delay := range []time.Duration{95 * ms, 105 * ms, 300 * ms, 1000 * ms} {
		synctest.Test(t, func(t *testing.T) {
			w := startWheel(t, wheel.Config{Slots: 32})
			began := time.Now()
			timers := make([]wheel.Timer, 500)
			fired := make([]time.Duration, len(timers))
			for i := range timers {
				require.NoError(t, w.Schedule(&timers[i], delay, taskFunc(func(*wheel.Timer) {
					require.Zero(t, fired[i], "a second time")
					fired[i] = time.Since(began)
				})))
			}
			want := make([]time.Duration, len(timers))
			for round := range 20 {
				advance(90*ms + time.Microsecond)
				for i := range timers {
					if i%20 < round { // it is not postponed any more
						continue
					}
					if i%2 == 0 {
						require.True(t, timers[i].Touch(delay))
					} else {
						pending, err := timers[i].Reset(delay)
						require.True(t, pending)
						require.NoError(t, err)
					}
					want[i] = (time.Since(began) + delay + 10*ms - 1) / (10 * ms) * (10 * ms)
					require.Equal(t, time.Since(began)+delay, timers[i].Deadline().Sub(began))
				}
			}
			advance(time.Minute)
			require.Equal(t, want, fired)
			requireAllEnded(t, w)
			require.Equal(t, int64(len(timers)), w.Stats().Armed)
		})
	}
}

// TestNeverBeforeTheLastTouch postpones timers at the moment at which they are due. If Touch returns true, it has moved the
// timer. If it returns false, the timer has fired.
func TestNeverBeforeTheLastTouch(t *testing.T) {
	const goroutines, rounds = 8, 40
	w := startWheel(t, wheel.Config{Tick: time.Millisecond})
	var all sync.WaitGroup
	for range goroutines {
		all.Go(func() {
			for range rounds {
				var timer wheel.Timer
				fired := make(chan time.Time, 1)
				d := time.Duration(rand.N(int64(2 * time.Millisecond)))
				promised := time.Now().Add(d)
				if err := w.Schedule(&timer, d, taskFunc(func(*wheel.Timer) { fired <- time.Now() })); err != nil {
					t.Error(err)
					return
				}
				for left := 1000; left > 0; left-- {
					d := time.Duration(rand.N(int64(2 * time.Millisecond)))
					before := time.Now()
					if !timer.Touch(d) {
						break
					}
					promised = before.Add(d)
					if rand.N(4) == 0 {
						time.Sleep(time.Until(promised))
					}
				}
				if at := bounded.Receive(t, fired); at.Before(promised) {
					t.Errorf("fired %v early", promised.Sub(at))
				}
			}
		})
	}
	bounded.Wait(t, &all)
	requireAllEnded(t, w)
	require.Zero(t, w.Len())
}
