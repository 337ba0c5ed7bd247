package wheel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

// TestNoTimerIsPassedOverWhenTheDriverGoesBack plays, step by step, how a timer once came to fire a whole
// revolution late. The driver goes back to a tick that a slow caller filed at, and another caller files a
// timer in a shard that was visited meanwhile.
func TestNoTimerIsPassedOverWhenTheDriverGoesBack(t *testing.T) {
	const tick = int64(10 * time.Millisecond)
	w, err := wheel.New(wheel.Config{Slots: 1024})
	require.NoError(t, err)
	defer w.Stop()
	w.StepByHand()
	var fired []string
	task := func(name string) wheel.Task {
		return taskFunc(func(*wheel.Timer) { fired = append(fired, name) })
	}
	var far, slow, late wheel.Timer
	w.File(&far, 1, 10*tick, w.Open(), task("far"))
	open := w.Open() // a caller is about to file at tick 8, and is held up
	w.Step(10 * tick)
	require.Equal(t, []string{"far"}, fired)
	w.File(&slow, 2, 8*tick, open, task("slow"))
	w.Step(10 * tick)
	require.Equal(t, []string{"far", "slow"}, fired)
	w.File(&late, 1, 9*tick, w.Open(), task("late"))
	require.LessOrEqual(t, w.Step(10*tick), int64(11), "the tick that the driver sleeps to")
	w.Step(11 * tick)
	require.Equal(t, []string{"far", "slow", "late"}, fired)
	require.Equal(t, int64(3), w.Stats().Fired)
}
