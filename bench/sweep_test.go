package main

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
	t.Cleanup(s.close)
	for i := range n {
		require.NoError(t, s.acquire(context.Background(), i))
	}
	return s
}

func TestSweepRenewsAllAndGivesAllBack(t *testing.T) {
	t.Parallel()
	const n = 2*callKeys + 80 // three batches, the last one not full
	s := newTestSweep(t, n, 3*time.Second)
	s.begin()
	require.Eventually(t, func() bool { return s.counters().renewals >= 3*n }, time.Minute, 10*time.Millisecond)
	c := s.counters()
	const batch = callKeys // a sweep may be under way
	require.Equal(t, c.renewals/n*3+(c.renewals%n+batch-1)/batch, c.batches)
	require.LessOrEqual(t, c.p50, c.p99)
	require.LessOrEqual(t, c.p99, c.most)
	for i := range n {
		require.NoError(t, s.release(context.Background(), i))
	}
	require.Zero(t, s.live())
	require.Empty(t, keys(t, s.srv))
}

// A sweep that cannot renew must say so, by the engine's own rule.
func TestSweepCountsWhatItMissed(t *testing.T) {
	t.Parallel()
	const n = 10
	s := newTestSweep(t, n, 300*time.Millisecond)
	require.NoError(t, s.srv.Kill())
	require.Eventually(t, func() bool { return s.counters().missed == n }, time.Minute, 10*time.Millisecond)
	require.Zero(t, s.live())
}

func TestSweepSeesThatALockIsAnothers(t *testing.T) {
	t.Parallel()
	const n = 10
	s := newTestSweep(t, n, 3*time.Second)
	_, err := dialed(t, s.srv).Do("DEL", "s3", "s4")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return s.live() == n-2 }, time.Minute, 10*time.Millisecond)
	require.ErrorIs(t, s.release(context.Background(), 3), lock.ErrLost)
	require.NoError(t, s.release(context.Background(), 5))
}

func TestEvalSendsTheTextWhenTheServerForgotTheScript(t *testing.T) {
	t.Parallel()
	conn := dialed(t, ownServer(t))
	for range 2 {
		reply, err := eval(conn, ioTimeout, script.Renew, []any{nil, 1, "absent", 1000, "", "f"})
		require.NoError(t, err)
		require.Equal(t, []any{int64(1)}, reply)
	}
}
