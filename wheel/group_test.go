package wheel_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

func TestBatchesAreNoLargerThanMaxBatch(t *testing.T) {
	for _, size := range []int{1, 7, 256, 0} {
		synctest.Test(t, func(t *testing.T) {
			const n = 5000
			limit := size
			if size == 0 {
				limit = 1024
			}
			w := start(t, wheel.Config{MaxBatch: size})
			seen := map[*wheel.Timer]bool{}
			batches := 0
			var backing **wheel.Timer
			g := w.Group(func(b *wheel.Batch) {
				ts := b.Timers()
				batches++
				require.NotEmpty(t, ts)
				require.LessOrEqual(t, len(ts), limit)
				require.Equal(t, len(ts), cap(ts), "an append does not write into the next batch")
				if backing == nil {
					backing = &ts[0]
				}
				require.Same(t, backing, &ts[0], "reused")
				for _, timer := range ts {
					require.Equal(t, wheel.Fired, timer.State())
					require.False(t, seen[timer])
					seen[timer] = true
				}
			})
			timers := make([]wheel.Timer, n)
			for i := range timers {
				require.NoError(t, g.Schedule(&timers[i], time.Second, taskFunc(func(*wheel.Timer) { t.Error("Fire was called") })))
			}
			advance(2 * time.Second)
			require.Len(t, seen, n)
			require.Equal(t, (n+limit-1)/limit, batches, "filled across shards")
		})
	}
}

func TestHandingOverABatchClaimsNoLaterOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n, size = 1000, 64
		w := start(t, wheel.Config{MaxBatch: size})
		timers := make([]wheel.Timer, n)
		batches := 0
		g := w.Group(func(b *wheel.Batch) {
			if batches++; batches > 1 {
				t.Error("a second batch")
				return
			}
			stopped := 0
			for i := range timers {
				if timers[i].Stop() {
					stopped++
				}
			}
			require.Equal(t, n-size, stopped)
		})
		for i := range timers {
			require.NoError(t, g.Schedule(&timers[i], time.Second, taskFunc(nothing)))
		}
		advance(2 * time.Second)
		st := w.Stats()
		require.Equal(t, int64(size), st.Fired)
		require.Equal(t, int64(n-size), st.Stopped)
	})
}

func TestResetAllAndNextAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 100
		w := start(t, wheel.Config{})
		ts := newTimes()
		round := 0
		g := w.Group(func(b *wheel.Batch) {
			ts.note()
			require.Len(t, b.Timers(), n)
			time.Sleep(3 * ms)
			switch round++; round {
			case 1:
				require.NoError(t, b.NextAll(b.Timers(), 105*ms))
			case 2:
				time.Sleep(300 * ms)
				require.NoError(t, b.NextAll(b.Timers(), 105*ms))
			case 3:
				require.NoError(t, b.ResetAll(b.Timers(), 100*ms))
			case 4:
				require.NoError(t, b.ResetAll(b.Timers()[:n/2], 100*ms))
				require.NoError(t, b.ResetAll(b.Timers()[n/2:], 100*ms))
				for _, timer := range b.Timers() {
					require.Equal(t, wheel.Pending, timer.State())
					require.True(t, timer.Stop())
				}
			}
		})
		timers := make([]wheel.Timer, n)
		for i := range timers {
			require.NoError(t, g.Schedule(&timers[i], 105*ms, taskFunc(nothing)))
		}
		advance(time.Minute)
		// Deadlines 105, 210, then (513 now) 315 and 420 are skipped, 525; at 533 reset to 633.
		require.Equal(t, []time.Duration{110 * ms, 210 * ms, 530 * ms, 640 * ms}, ts.all())
		require.Equal(t, int64(2*n), w.Stats().SkippedPeriods)
		account(t, w)
	})
}

func TestBatchCallsGoOnBehindAFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, other := start(t, wheel.Config{}), start(t, wheel.Config{})
		var mine, idle, foreign wheel.Timer
		var plain [2]wheel.Timer
		task := taskFunc(nothing)
		require.NoError(t, other.Schedule(&foreign, time.Hour, task))
		require.NoError(t, w.Schedule(&plain[0], time.Hour, task))
		require.NoError(t, w.Schedule(&plain[1], time.Hour, task))
		at := foreign.Deadline()
		ran := false
		g := w.Group(func(b *wheel.Batch) {
			ran = true
			at := plain[1].Deadline()
			require.ErrorIs(t, b.NextAll([]*wheel.Timer{&plain[0], nil, &idle, &foreign, &plain[1]}, time.Minute), wheel.ErrNilTimer)
			require.ErrorIs(t, b.NextAll([]*wheel.Timer{&idle, &foreign, &plain[1]}, time.Minute), wheel.ErrNotScheduled)
			require.ErrorIs(t, b.NextAll([]*wheel.Timer{&foreign, &plain[1]}, time.Minute), wheel.ErrOtherWheel)
			require.Equal(t, 3*time.Minute, plain[1].Deadline().Sub(at))
			require.ErrorIs(t, b.NextAll(b.Timers(), 0), wheel.ErrPeriod)
			require.NoError(t, b.ResetAll(nil, 0))
			w.Stop()
			require.ErrorIs(t, b.ResetAll(b.Timers(), time.Second), wheel.ErrStopped)
		})
		require.NoError(t, g.Schedule(&mine, time.Second, task))
		<-w.Done()
		require.True(t, ran)
		require.True(t, at.Equal(foreign.Deadline()))
	})
}

func TestTimerMovesBetweenGroupsWhenNotPending(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := start(t, wheel.Config{})
		var got []string
		a := w.Group(func(*wheel.Batch) { got = append(got, "a") })
		b := w.Group(func(*wheel.Batch) { got = append(got, "b") })
		task := taskFunc(func(*wheel.Timer) { got = append(got, "plain") })
		var timer wheel.Timer
		for i, schedule := range []func(*wheel.Timer, time.Duration, wheel.Task) error{
			a.Schedule, b.Schedule, w.Schedule, b.Schedule, w.Schedule, a.Schedule,
		} {
			require.NoError(t, schedule(&timer, time.Second, task))
			require.ErrorIs(t, a.Schedule(&timer, 0, task), wheel.ErrPending)
			require.ErrorIs(t, w.Schedule(&timer, 0, task), wheel.ErrPending)
			if i == 3 {
				require.True(t, timer.Stop())
			}
			advance(2 * time.Second)
		}
		require.Equal(t, []string{"a", "b", "plain", "plain", "a"}, got)
		require.NoError(t, timer.Next(time.Second), "re-armed where it was")
		advance(2 * time.Second)
		require.Equal(t, "a", got[5])
		account(t, w)
	})
}
