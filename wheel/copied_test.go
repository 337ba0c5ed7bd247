package wheel_test

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

const copied = "wheel: Timer was copied after first use"

// duplicate copies a record with its timer, which users must not do. It chooses an address
// by which the copy is recognized, because one address in 65,536 is not.
func duplicate(timer *wheel.Timer) *wheel.Timer {
	c := reflect.New(reflect.TypeFor[wheel.Timer]())
	for wheel.MarkOf(c.Interface().(*wheel.Timer)) == wheel.MarkOf(timer) {
		c = reflect.New(reflect.TypeFor[wheel.Timer]())
	}
	c.Elem().Set(reflect.ValueOf(timer).Elem()) // go vet would report a plain copy
	return c.Interface().(*wheel.Timer)
}

// each has all calls that change a pending timer.
var each = map[string]func(w *wheel.Wheel, timer *wheel.Timer){
	"Stop":        func(_ *wheel.Wheel, timer *wheel.Timer) { timer.Stop() },
	"Reset later": func(_ *wheel.Wheel, timer *wheel.Timer) { _, _ = timer.Reset(2 * time.Hour) },
	"Touch":       func(_ *wheel.Wheel, timer *wheel.Timer) { timer.Touch(2 * time.Hour) },
	"Reset":       func(_ *wheel.Wheel, timer *wheel.Timer) { _, _ = timer.Reset(time.Minute) },
	"Next":        func(_ *wheel.Wheel, timer *wheel.Timer) { _ = timer.Next(time.Hour) },
	"Schedule":    func(w *wheel.Wheel, timer *wheel.Timer) { _ = w.Schedule(timer, time.Hour, taskFunc(doNothing)) },
}

func TestACopiedTimerPanicsAndHarmsNoOther(t *testing.T) {
	for name, call := range each {
		for filed, fill := range map[string]int{"not in a bucket yet": 0, "in a bucket": 5000} {
			for i, state := range []string{"pending", "stopped", "pending and movable", "movable and stopped"} {
				gone, movable := i%2 == 1, i >= 2
				t.Run(name+"/"+filed+"/original "+state, func(t *testing.T) {
					w := startWheel(t, wheel.Config{})
					task := taskFunc(doNothing)
					var original wheel.Timer
					require.NoError(t, w.Schedule(&original, time.Hour, task))
					others := make([]wheel.Timer, fill)
					for i := range others {
						require.NoError(t, w.Schedule(&others[i], time.Hour, task))
					}
					if movable {
						require.True(t, original.Touch(time.Hour))
					}
					require.Equal(t, movable, original.Movable())
					c := duplicate(&original)
					if gone {
						require.True(t, original.Stop())
					}
					require.PanicsWithValue(t, copied, func() { call(w, c) })
					want := fill
					if !gone {
						want++
					}
					require.Equal(t, want, w.Len(), "and no lock is held")
					for i := range others {
						require.True(t, others[i].Stop(), "an innocent timer")
					}
					require.Equal(t, !gone, original.Stop())
					require.Zero(t, w.Len())
					require.Empty(t, w.Stop())
				})
			}
		}
	}
}

func TestACopyOfADueTimerPanics(t *testing.T) {
	for name, call := range each {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
				timers := make([]wheel.Timer, 200)
				var first *wheel.Timer
				fired := 0
				for i := range timers {
					require.NoError(t, w.Schedule(&timers[i], time.Second, taskFunc(func(timer *wheel.Timer) {
						if fired++; fired > 1 {
							return
						}
						first = timer
						for j := range timers {
							if &timers[j] != first && timers[j].State() == wheel.Pending {
								c := duplicate(&timers[j])
								require.PanicsWithValue(t, copied, func() { call(w, c) })
							}
						}
						c := duplicate(first) // it has fired: the copy is a timer that has fired
						require.False(t, c.Stop())
					})))
				}
				advance(2 * time.Second)
				require.Equal(t, 200, fired)
				requireAllEnded(t, w)
			})
		})
	}
}
