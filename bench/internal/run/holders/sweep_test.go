package holders

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

func TestSweepRenewsAllInFullBatchesAndGivesAllBack(t *testing.T) {
	t.Parallel()
	const n = 2*BatchSize + 80 // three batches, the last one not full
	h, srv := holding(t, "sweep", n, 3*time.Second)
	h.Begin()
	require.Eventually(t, func() bool { return h.Counters().Renewals >= 3*n }, time.Minute, 10*time.Millisecond)
	c := h.Counters()
	require.InDelta(t, float64(c.Renewals)/n*3, float64(c.Batches), 2, "a call may be under way, and the first sweep have begun before all were taken")
	require.LessOrEqual(t, c.P50, c.P99)
	require.LessOrEqual(t, c.P99, c.Max)
	for i := range n {
		require.NoError(t, h.Release(context.Background(), i))
	}
	require.Zero(t, h.Live())
	require.Empty(t, fixture.LockKeys(t, srv))
}
