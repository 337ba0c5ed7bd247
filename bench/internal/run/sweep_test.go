package run

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/script"
)

// holding starts a row of n locks, named s0, s1, ..., on a server of its own.
func holding(t *testing.T, driver string, n int, lease time.Duration) (*Holding, *redistest.Server) {
	t.Helper()
	srv := fixture.Either(t)
	return holdingOn(t, OneServer(srv), driver, n, lease), srv
}

func holdingOn(t *testing.T, target *Target, driver string, n int, lease time.Duration) *Holding {
	t.Helper()
	d, ok := DriverNamed(driver)
	require.True(t, ok)
	h, err := Hold(d, target, "s", n, lease)
	require.NoError(t, err)
	t.Cleanup(h.Close)
	for i := range n {
		require.NoError(t, h.Acquire(context.Background(), i))
	}
	return h
}

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

func TestEvalSendsTheTextWhenTheServerForgotTheScript(t *testing.T) {
	t.Parallel()
	conn := fixture.Dial(t, fixture.Either(t))
	for range 2 {
		reply, err := Eval(conn, ioTimeout, script.Renew, []any{nil, 1, "absent", 1000, "", "f"})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1)}, reply)
	}
}
