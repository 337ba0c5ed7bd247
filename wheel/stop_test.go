package wheel_test

import (
	"context"
	"errors"
	"math"
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

func TestStopReturnsEveryUnclaimedTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{})
		task := taskFunc(doNothing)
		want := map[*wheel.Timer]bool{}
		for i := range 1000 {
			timer := new(wheel.Timer)
			d := time.Duration(i) * time.Second
			switch i % 4 {
			case 0:
				require.NoError(t, w.Schedule(timer, 2*time.Hour+d, task))
			case 1:
				require.NoError(t, w.Schedule(timer, time.Hour+d, task))
			case 2:
				require.NoError(t, w.Schedule(timer, time.Hour+d, task))
				_, err := timer.Reset(3*time.Hour + d)
				require.NoError(t, err)
			case 3:
				require.NoError(t, w.Schedule(timer, math.MaxInt64, task))
			}
			if i%10 == 9 {
				require.True(t, timer.Stop())
			} else {
				want[timer] = true
			}
		}
		ts := w.Stop()
		require.Len(t, ts, len(want))
		for _, timer := range ts {
			require.True(t, want[timer])
			delete(want, timer)
			require.Equal(t, wheel.Stopped, timer.State())
			require.False(t, timer.Stop())
		}
		<-w.Done()
		require.Zero(t, w.Len())
		require.Equal(t, int64(900), w.Stats().Returned)
		requireAllEnded(t, w)
	})
}

func TestStopReturnsTimersOfTheBucketBeingExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		w := startWheel(t, wheel.Config{})
		timers := make([]wheel.Timer, n)
		fired := 0
		var returned []*wheel.Timer
		for i := range timers {
			require.NoError(t, w.Schedule(&timers[i], time.Second, taskFunc(func(*wheel.Timer) {
				if fired++; fired == 10 {
					returned = w.Stop()
				}
			})))
		}
		<-w.Done()
		require.Equal(t, 10, fired)
		require.Len(t, returned, n-10)
		requireAllEnded(t, w)
	})
}

func TestStopNeverWaitsAndDoneDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: 24 * time.Hour})
		block := make(chan struct{})
		returned := false
		_, err := w.AfterFunc(10*ms, func() { <-block; returned = true })
		require.NoError(t, err)
		advance(time.Second)
		require.Empty(t, w.Stop())
		synctest.Wait()
		select {
		case <-w.Done():
			t.Fatal("done while a callback runs")
		default:
		}
		close(block)
		<-w.Done()
		require.True(t, returned)
	})
}

func TestStopOfAWheelWithoutADriverIsDoneAtOnce(t *testing.T) {
	w, err := wheel.New(wheel.Config{})
	require.NoError(t, err)
	require.NoError(t, w.Schedule(new(wheel.Timer), math.MaxInt64, taskFunc(doNothing)))
	require.Len(t, w.Stop(), 1)
	select {
	case <-w.Done():
	default:
		t.Fatal("not done")
	}
}

func TestStopFromManyGoroutinesReturnsEachTimerOnce(t *testing.T) {
	w := startWheel(t, wheel.Config{})
	for range 1000 {
		require.NoError(t, w.Schedule(new(wheel.Timer), time.Hour, taskFunc(doNothing)))
	}
	var wg sync.WaitGroup
	var total, lists atomic.Int64
	for range 16 {
		wg.Go(func() {
			if ts := w.Stop(); ts != nil {
				total.Add(int64(len(ts)))
				lists.Add(1)
			}
		})
	}
	bounded.Wait(t, &wg)
	bounded.Receive(t, w.Done())
	require.Equal(t, int64(1000), total.Load())
	require.Equal(t, int64(1), lists.Load())
}

func TestScheduleThatRacesStopIsFiredReturnedOrRefused(t *testing.T) {
	for range 100 {
		w, err := wheel.New(wheel.Config{Tick: time.Microsecond})
		require.NoError(t, err)
		var fired, accepted atomic.Int64
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(func() {
				for j := 0; ; j++ {
					err := w.Schedule(new(wheel.Timer), time.Duration(j%3)*10*time.Microsecond, taskFunc(func(*wheel.Timer) { fired.Add(1) }))
					if errors.Is(err, wheel.ErrStopped) {
						return
					}
					accepted.Add(1)
				}
			})
		}
		for range 3 {
			runtime.Gosched()
		}
		returned := len(w.Stop())
		bounded.Wait(t, &wg)
		bounded.Receive(t, w.Done())
		require.Equal(t, accepted.Load(), fired.Load()+int64(returned))
		requireAllEnded(t, w)
	}
}

func TestGoexitInCancelledLeavesNoTimerUntold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var r hookRecorder
		w := startWheel(t, r.config())
		task := &exitTask{}
		for range 5 {
			require.NoError(t, w.Schedule(new(wheel.Timer), time.Hour, task))
		}
		go w.Stop()
		<-w.Done()
		require.Equal(t, 5, task.told)
		require.Len(t, r.errs, 5)
	})
}

type exitTask struct{ told int }

func (e *exitTask) Fire(*wheel.Timer)      {}
func (e *exitTask) Cancelled(*wheel.Timer) { e.told++; runtime.Goexit() }

func TestShutdownWaitsForCallbacks(t *testing.T) {
	for _, executor := range []func(func()) error{nil, func(run func()) error { go run(); return nil }} {
		synctest.Test(t, func(t *testing.T) {
			w := startWheel(t, wheel.Config{SlowCallback: time.Hour, Executor: executor})
			returned := false
			running, err := w.Every(time.Second, func(*wheel.Timer) { time.Sleep(10 * time.Second); returned = true })
			require.NoError(t, err)
			waiting, err := w.AfterFunc(time.Hour, func() {})
			require.NoError(t, err)
			advance(1500 * ms)
			began := time.Now()
			timers, err := w.Shutdown(t.Context())
			require.NoError(t, err)
			require.True(t, returned)
			require.Equal(t, 9500*ms, time.Since(began), "it fired at 1 s")
			require.ElementsMatch(t, []*wheel.Timer{running, waiting}, timers)
			timers, err = w.Shutdown(t.Context())
			require.NoError(t, err)
			require.Empty(t, timers)
			requireAllEnded(t, w)
		})
	}
}

func TestShutdownThatDoesNotWaitAnyLongerReturnsTheTimers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := startWheel(t, wheel.Config{SlowCallback: time.Hour})
		_, err := w.AfterFunc(0, func() { time.Sleep(time.Minute) })
		require.NoError(t, err)
		waiting, err := w.AfterFunc(time.Hour, func() {})
		require.NoError(t, err)
		advance(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		timers, err := w.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, []*wheel.Timer{waiting}, timers)
		timers, err = w.Shutdown(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Empty(t, timers)
		advance(time.Minute)
		_, err = w.Shutdown(ctx)
		require.NoError(t, err, "all have returned, whatever the context says")
	})
}

func TestShutdownOfAWheelThatWasNeverUsed(t *testing.T) {
	w := startWheel(t, wheel.Config{})
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for range 30 { // of two cases of a select that are ready the runtime takes either
		for _, w := range []*wheel.Wheel{w, {}} {
			timers, err := w.Shutdown(ended)
			require.NoError(t, err)
			require.Empty(t, timers)
		}
	}
}
