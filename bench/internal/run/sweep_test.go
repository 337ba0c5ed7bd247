package run

import (
	"context"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

func newTestSweep(t *testing.T, n int, lease time.Duration) *sweep {
	t.Helper()
	srv := ownServer(t)
	s, err := newSweep(srv, func(i int) string { return "s" + strconv.Itoa(i) }, n, lease)
	require.NoError(t, err)
	t.Cleanup(s.Close)
	for i := range n {
		require.NoError(t, s.Acquire(context.Background(), i))
	}
	return s
}

func TestSweepRenewsAllAndGivesAllBack(t *testing.T) {
	t.Parallel()
	const n = 2*BatchSize + 80 // three batches, the last one not full
	s := newTestSweep(t, n, 3*time.Second)
	s.Begin()
	require.Eventually(t, func() bool { return s.Counters().Renewals >= 3*n }, time.Minute, 10*time.Millisecond)
	c := s.Counters()
	const batch = BatchSize // a sweep may be under way
	require.Equal(t, c.Renewals/n*3+(c.Renewals%n+batch-1)/batch, c.Batches)
	require.LessOrEqual(t, c.P50, c.P99)
	require.LessOrEqual(t, c.P99, c.Max)
	for i := range n {
		require.NoError(t, s.Release(context.Background(), i))
	}
	require.Zero(t, s.Live())
	require.Empty(t, keys(t, s.srv))
}

// A sweep that cannot renew must say so, by the engine's own rule.
func TestSweepCountsWhatItMissed(t *testing.T) {
	t.Parallel()
	const n = 10
	s := newTestSweep(t, n, 300*time.Millisecond)
	require.NoError(t, s.srv.Kill())
	require.Eventually(t, func() bool { return s.Counters().Missed == n }, time.Minute, 10*time.Millisecond)
	require.Zero(t, s.Live())
}

func TestSweepSeesThatALockIsAnothers(t *testing.T) {
	t.Parallel()
	const n = 10
	s := newTestSweep(t, n, 3*time.Second)
	_, err := dialed(t, s.srv).Do("DEL", "s3", "s4")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.Live() == n-2 }, time.Minute, 10*time.Millisecond)
	require.ErrorIs(t, s.Release(context.Background(), 3), lock.ErrLost)
	require.NoError(t, s.Release(context.Background(), 5))
}

func TestEvalSendsTheTextWhenTheServerForgotTheScript(t *testing.T) {
	t.Parallel()
	conn := dialed(t, ownServer(t))
	for range 2 {
		reply, err := Eval(conn, ioTimeout, script.Renew, []any{nil, 1, "absent", 1000, "", "f"})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1)}, reply)
	}
}
