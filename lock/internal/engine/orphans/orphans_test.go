package orphans_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
)

// TestVeryManyOrphansAreSentAgainInTurns: a server that hangs is not asked for all of them
// again and again, and none of them waits for ever.
func TestVeryManyOrphansAreSentAgainInTurns(t *testing.T) {
	const n, rounds = 9000, 20
	sent, open := orphans.Resent(n, rounds)
	require.Equal(t, n/2, open, "those whose time is over are paid")
	times := make([]int, n)
	for r, round := range sent {
		require.NotEmpty(t, round)
		require.LessOrEqual(t, len(round), 2000)
		for _, i := range round {
			times[i]++
			require.False(t, i%2 == 1 && r >= rounds/2, "its time is over")
		}
	}
	for i, k := range times {
		require.GreaterOrEqual(t, k, 2, i)
		require.LessOrEqual(t, k, 7, i)
	}
	few, _ := orphans.Resent(10, 4)
	for _, round := range few[:2] {
		require.Len(t, round, 10)
	}
}
