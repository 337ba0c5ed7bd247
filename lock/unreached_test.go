package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// A first Lock has no deadline as a rule, and a newcomer no Redis.
func TestALockThatFindsNoRedisIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s, err := redistest.StartMini(redistest.MiniOptions{})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Stop()) }()
	require.NoError(t, s.Kill())
	var log syncBuilder
	c := newClient(t, s, lock.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	const said = "no connection to Redis"
	lockOnce := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() { _, err := c.Mutex(t.Name()).Lock(ctx); failed <- err }()
		require.Eventually(t, func() bool { return strings.Contains(log.String(), said) }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-failed, context.Canceled)
	}
	lockOnce()
	_, err = c.Mutex(t.Name()).TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.Equal(t, 1, strings.Count(log.String(), said), "once until there is a connection")
	require.Contains(t, log.String(), s.Addr())

	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, c.Mutex(t.Name()).Do(t.Context(), func(context.Context) error { return nil }))
	require.NoError(t, s.Kill())
	require.Eventually(t, func() bool {
		_, err := c.Mutex(t.Name()).TryLock(t.Context())
		return err != nil && strings.Count(log.String(), said) == 2
	}, time.Minute, time.Millisecond)
}
