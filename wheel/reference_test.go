package wheel_test

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/wheel"
)

// tracked is a record that the test watches the collector free.
type tracked struct {
	timer wheel.Timer
	_     [100]byte
}

func (*tracked) Fire(*wheel.Timer) {}

// track makes n records, gives them to f, and returns weak pointers to them.
func track(n int, f func([]*tracked)) []weak.Pointer[tracked] {
	rs := make([]*tracked, n)
	ws := make([]weak.Pointer[tracked], n)
	for i := range rs {
		rs[i] = new(tracked)
		ws[i] = weak.Make(rs[i])
	}
	f(rs)
	return ws
}

func requireFreed(t *testing.T, ws []weak.Pointer[tracked], msg string) {
	t.Helper()
	runtime.GC()
	left := 0
	for _, w := range ws {
		if w.Value() != nil {
			left++
		}
	}
	require.Zero(t, left, "%s: the wheel holds %d of %d", msg, left, len(ws))
}

func TestNoReferenceAfterStop(t *testing.T) {
	w := startWheel(t, wheel.Config{})
	var keep wheel.Timer
	require.NoError(t, w.Schedule(&keep, time.Hour, taskFunc(doNothing)))
	{
		requireFreed(t, track(1000, func(rs []*tracked) {
			for i, r := range rs {
				require.NoError(t, w.Schedule(&r.timer, time.Hour+time.Duration(i%7)*time.Second, r))
			}
			for i := range rs { // in another order: entries are moved about
				r := rs[(i*387)%len(rs)]
				if i%3 == 0 {
					_, _ = r.timer.Reset(2 * time.Hour)
				}
				require.True(t, r.timer.Stop())
			}
		}), "from chunks and the free list")
	}
	requireFreed(t, track(1000, func(rs []*tracked) {
		handles := make([]*wheel.Timer, len(rs))
		for i, r := range rs {
			handles[i], _ = w.AfterFunc(time.Hour, func() { r.Fire(nil) })
		}
		for _, h := range handles {
			require.True(t, h.Stop())
		}
	}), "what an AfterFunc's function holds")
}

func TestNoReferenceWhileACallbackBlocks(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: time.Millisecond, SlowCallback: time.Hour})
	block, blocked := make(chan struct{}), make(chan struct{})
	first := true
	task := taskFunc(func(*wheel.Timer) {
		if first {
			first = false
			close(blocked)
			<-block
		}
	})
	at := time.Now().Add(50 * time.Millisecond) // one tick, so that they are collected beside each other
	timers := make([]wheel.Timer, 300)
	for i := range timers {
		require.NoError(t, w.Schedule(&timers[i], time.Until(at), task))
	}
	ws := track(1000, func(rs []*tracked) {
		for _, r := range rs {
			require.NoError(t, w.Schedule(&r.timer, time.Until(at)+time.Millisecond, r))
		}
		bounded.Receive(t, blocked)
		for _, r := range rs {
			r.timer.Stop()
		}
		for i := range timers {
			timers[i].Stop()
		}
	})
	requireFreed(t, ws, "the due buffer's too")
	close(block)
}

func TestNoReferenceToTimersThatWereVisitedAndFiledAnew(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: time.Millisecond})
	{
		requireFreed(t, track(3000, func(rs []*tracked) { // so many that most are in a bucket when they are moved
			for _, r := range rs {
				require.NoError(t, w.Schedule(&r.timer, 100*time.Millisecond, r))
			}
			for _, r := range rs {
				_, err := r.timer.Reset(time.Hour)
				require.NoError(t, err)
			}
			done := make(chan struct{})
			_, err := w.AfterFunc(120*time.Millisecond, func() { close(done) })
			require.NoError(t, err)
			bounded.Receive(t, done)
			for _, r := range rs {
				require.True(t, r.timer.Stop())
			}
		}), "filed anew")
	}
}

func TestNoReferenceAfterFiring(t *testing.T) {
	w := startWheel(t, wheel.Config{Tick: time.Millisecond})
	{
		ws := track(1000, func(rs []*tracked) {
			for _, r := range rs {
				require.NoError(t, w.Schedule(&r.timer, 0, r))
			}
		})
		done := make(chan struct{})
		for range 2 { // the second comes in a later tick: the first one's buffers have been let go
			_, err := w.AfterFunc(20*time.Millisecond, func() { done <- struct{}{} })
			require.NoError(t, err)
			bounded.Receive(t, done)
		}
		requireFreed(t, ws, "fired")
	}
}

func TestNoReferenceAfterWheelStop(t *testing.T) {
	w := startWheel(t, wheel.Config{})
	requireFreed(t, track(1000, func(rs []*tracked) {
		for _, r := range rs {
			require.NoError(t, w.Schedule(&r.timer, time.Hour, r))
		}
		require.Len(t, w.Stop(), 1000)
	}), "stopped")
	_ = w.Stats()
}
