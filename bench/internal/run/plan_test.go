package run

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestOnlyRowsOfTheMostLocksAreWatched(t *testing.T) {
	p := Plan{Locks: []int{10, 30, 20}, Watch: time.Second}
	require.Zero(t, p.WatchOf(10))
	require.Zero(t, p.WatchOf(20))
	require.Equal(t, time.Second, p.WatchOf(30))
}
