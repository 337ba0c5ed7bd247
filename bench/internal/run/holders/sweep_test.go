package holders

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

func TestSweepRenewsAllInFullBatchesAndGivesAllBack(t *testing.T) {
	t.Parallel()
	const n = 2*BatchSize + 80 // three batches, the last one not full
	keptUp(t, func(lease time.Duration) error {
		h, srv := holding(t, "sweep", n, lease)
		h.Begin()
		awaitRenewals(t, h, 3*n)
		c := h.Counters()
		if err := releaseAll(h, n); err != nil {
			return err
		}
		require.InDelta(t, float64(c.Renewals)/n*3, float64(c.Batches), 2, "a call may be under way, and the first sweep have begun before all were taken")
		require.LessOrEqual(t, c.P50, c.P99)
		require.LessOrEqual(t, c.P99, c.Max)
		require.Zero(t, h.CountHeld())
		require.Empty(t, fixture.LockKeys(t, srv))
		return nil
	})
}
