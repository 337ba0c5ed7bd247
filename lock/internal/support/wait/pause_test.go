package wait_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// TestTheClockThatLeavesLessCounts: the machine may have been suspended, and its wall clock may have been set.
func TestTheClockThatLeavesLessCounts(t *testing.T) {
	now := time.Now()
	until := now.Add(time.Minute)
	require.Equal(t, time.Minute, wait.Left(until, now))
	require.Equal(t, -time.Minute, wait.Left(now, until))
	require.Equal(t, 50*time.Second, wait.Left(bounded.BeforeSuspension(until, 10), now), "suspended, or set forward")
	require.Equal(t, time.Minute, wait.Left(until, bounded.BeforeSuspension(now, 10)), "set back")
}
