package wheel_test

import (
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

const ms = time.Millisecond

func TestConfigTellsAllFaultsAtOnce(t *testing.T) {
	_, err := wheel.New(wheel.Config{
		Tick: -time.Second, Slots: 1000, MaxPending: -2, SlowCallback: -3,
	})
	for _, want := range []string{
		"wheel: Config.Tick is -1s: it must be from 1µs to 1h0m0s",
		"wheel: Config.Slots is 1000: it must be a power of two from 1 to 1048576",
		"wheel: Config.MaxPending is -2: it must be at least 1, or 0 for no limit",
		"wheel: Config.SlowCallback is -3ns: it must be at least 1ns",
	} {
		require.ErrorContains(t, err, want)
	}
	for _, cfg := range []wheel.Config{
		{}, {Tick: time.Microsecond}, {Tick: time.Hour}, {Slots: 1}, {Slots: 1 << 20},
	} {
		_, err := wheel.New(cfg)
		require.NoError(t, err, "%+v", cfg)
	}
	for _, cfg := range []wheel.Config{
		{Tick: time.Microsecond - 1}, {Tick: time.Hour + 1}, {Slots: -1}, {Slots: 1 << 21},
	} {
		_, err := wheel.New(cfg)
		require.Error(t, err, "%+v", cfg)
	}
}

func TestClearErrors(t *testing.T) {
	w, other := startWheel(t, wheel.Config{}), startWheel(t, wheel.Config{})
	task := taskFunc(doNothing)
	var timer, idle wheel.Timer

	require.ErrorIs(t, w.Schedule(nil, 0, task), wheel.ErrNilTimer)
	for _, task := range []wheel.Task{nil, (*modelTimer)(nil), wheel.TaskFunc(nil), taskFunc(nil)} {
		require.ErrorIs(t, w.Schedule(&timer, 0, task), wheel.ErrNilTask, "%T", task)
		require.Equal(t, wheel.Idle, timer.State())
	}
	for _, task := range []wheel.Task{value{}, boxed{}, &value{}, number(0)} {
		var timer wheel.Timer
		require.NoError(t, w.Schedule(&timer, time.Hour, task), "%T is none", task)
		require.True(t, timer.Stop())
	}
	_, err := w.AfterFunc(0, nil)
	require.ErrorIs(t, err, wheel.ErrNilTask)
	require.Equal(t, wheel.Idle, timer.State())

	require.NoError(t, w.Schedule(&timer, time.Hour, task))
	require.ErrorIs(t, w.Schedule(&timer, time.Minute, task), wheel.ErrPending)
	require.ErrorIs(t, other.Schedule(&timer, time.Minute, task), wheel.ErrOtherWheel)
	require.True(t, timer.Stop())
	require.ErrorIs(t, other.Schedule(&timer, time.Minute, task), wheel.ErrOtherWheel, "as long as its wheel lives")
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
	_, err = timer.Reset(0)
	require.ErrorIs(t, err, wheel.ErrStopped)
	require.ErrorIs(t, timer.Next(1), wheel.ErrStopped)
	_, err = w.AfterFunc(0, func() {})
	require.ErrorIs(t, err, wheel.ErrStopped)
	require.Equal(t, wheel.Idle, idle.State())
	require.NoError(t, other.Schedule(&idle, time.Hour, task), "a refused timer is bound to nothing")
}

func TestMaxPendingIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{MaxPending: 3})
		var timers [5]wheel.Timer
		task := taskFunc(doNothing)
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
		requireAllEnded(t, w)
	})
}

func TestMaxPendingIsExactFromManyGoroutines(t *testing.T) {
	const limit = 100
	w := startWheel(t, wheel.Config{MaxPending: limit})
	var accepted, refused atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range limit {
				switch err := w.Schedule(new(wheel.Timer), time.Hour, taskFunc(doNothing)); {
				case err == nil:
					accepted.Add(1)
				case errors.Is(err, wheel.ErrTooManyPending):
					refused.Add(1)
				}
			}
		})
	}
	bounded.Wait(t, &wg)
	require.Equal(t, int64(limit), accepted.Load())
	require.Equal(t, int64(7*limit), refused.Load())
	require.Equal(t, limit, w.Len())
}

func TestNewWheelIsSmallAndHasNoGoroutine(t *testing.T) {
	const n = 5000
	goroutines := runtime.NumGoroutine()
	before := liveHeap()
	ws := make([]*wheel.Wheel, n)
	for i := range ws {
		w, err := wheel.New(wheel.Config{})
		require.NoError(t, err)
		ws[i] = w
	}
	require.LessOrEqual(t, runtime.NumGoroutine(), goroutines) // fewer if one of a test before has only now ended
	require.Less(t, (liveHeap()-before)/n, uint64(32<<10))
	for _, w := range ws {
		w.Stop()
		bounded.Receive(t, w.Done())
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
	require.Less(t, int64(liveHeap())-int64(before), int64(200<<20))
	for _, w := range ws {
		require.Len(t, w.Stop(), 1)
		bounded.Receive(t, w.Done())
	}
	clear(ws)
	for range 3 { // the pools of affinities go with the second collection
		runtime.GC()
	}
	require.Less(t, int64(liveHeap())-int64(before), int64(5<<20))
}

func liveHeap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

func TestNoCallAllocates(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("sync.Pool forgets under the race detector")
	}
	w := startWheel(t, wheel.Config{})
	task := &cancelTask{w: w}
	timers := make([]wheel.Timer, 100)
	{
		require.Zero(t, testing.AllocsPerRun(10, func() {
			for i := range timers {
				_ = w.Schedule(&timers[i], time.Duration(i)*time.Second+time.Hour, task)
				_, _ = timers[i].Reset(2 * time.Hour)
				_, _ = timers[i].Reset(time.Hour)
				_ = timers[i].Next(time.Second)
				_, _ = timers[i].State(), timers[i].Deadline()
				timers[i].Stop()
				_, _ = timers[i].Reset(time.Hour)
				timers[i].Stop()
				task.cancelled = task.cancelled[:0]
			}
		}))
	}
	require.InDelta(t, 1, testing.AllocsPerRun(1000, func() {
		timer, _ := w.AfterFunc(time.Hour, func() {})
		timer.Stop()
	}), 0.1, "AfterFunc's is the handle")
}

func TestFiringAllocatesNothing(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("the race detector allocates")
	}
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		again := taskFunc(func(timer *wheel.Timer) { _ = timer.Next(10 * ms) })
		timers := make([]wheel.Timer, 1000)
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], time.Duration(i%10)*ms, again))
		}
		advance(time.Second)
		allocs := testing.AllocsPerRun(1, func() { time.Sleep(10 * time.Second) })
		require.Less(t, allocs/1_000_000, 0.001, "of a million fires")
		require.Greater(t, w.Stats().Fired, int64(2_000_000))
	})
}

// Tasks that are no pointers.
type (
	value  struct{}
	boxed  struct{ _ *int } // which an interface holds as the pointer that it has
	number int
)

func (value) Fire(*wheel.Timer)  {}
func (boxed) Fire(*wheel.Timer)  {}
func (number) Fire(*wheel.Timer) {}
