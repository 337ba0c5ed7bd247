package wait_test

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// TestTheClockThatLeavesLessCounts if the machine was suspended. Otherwise somebody has set the wall clock.
func TestTheClockThatLeavesLessCounts(t *testing.T) {
	if runtime.GOOS == "linux" {
		require.False(t, wait.WasSuspended(), "this machine was not suspended")
		now := time.Now()
		require.Equal(t, time.Minute, wait.Left(bounded.BeforeSuspension(now.Add(time.Minute), 10), now), "set forward")
	}
	bounded.Suspend(t, &wait.WasSuspended)
	now := time.Now()
	until := now.Add(time.Minute)
	require.Equal(t, time.Minute, wait.Left(until, now))
	require.Equal(t, -time.Minute, wait.Left(now, until))
	require.Equal(t, 50*time.Second, wait.Left(bounded.BeforeSuspension(until, 10), now), "suspended")
	require.Equal(t, time.Minute, wait.Left(until, bounded.BeforeSuspension(now, 10)), "set back")
}
