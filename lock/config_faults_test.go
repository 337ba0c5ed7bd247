package lock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

// TestNewNamesAllFaultsAtOnce, in words of this package: of the settings, of those that are
// for renewal, and of the pool.
func TestNewNamesAllFaultsAtOnce(t *testing.T) {
	_, err := lock.New(nil, lock.Config{
		Lease: time.Millisecond, MaxPoll: -1, Connections: 65, KeyPrefix: "{",
		Margin: time.Hour, MaxHold: time.Millisecond, MaxBatch: 4097, Dispatchers: -1,
	})
	require.Error(t, err)
	for _, want := range []string{
		"Config.Lease is 1ms", "Config.MaxPoll is -1ns", "Config.Connections is 65", "Config.KeyPrefix",
		"Config.Margin is 1h0m0s: it must be from 20ms to Lease/4 = 7.5s", "Config.MaxHold is 1ms: it must be 0 (no limit) or at least Lease = 30s",
		"Config.MaxBatch is 4097: it must be from 1 to 4096", "Config.Dispatchers is -1: it must be from 1 to 1024", "needs a *redis.Pool",
	} {
		require.ErrorContains(t, err, want)
	}
	for line := range strings.Lines(err.Error()) {
		require.True(t, strings.HasPrefix(line, "lock: "), line)
		require.NotContains(t, line, "TTL")
	}
	require.Len(t, strings.Split(err.Error(), "\n"), 9)

	_, err = lock.New(&redis.Pool{MaxActive: 4}, lock.Config{MaxBatch: -1})
	require.ErrorContains(t, err, "MaxBatch")
	require.ErrorContains(t, err, "the engine needs 5 connections")
	_, err = lock.NewTopology(nil, lock.Config{MaxBatch: -1})
	require.ErrorContains(t, err, "MaxBatch")
	require.ErrorContains(t, err, "needs a Topology")
}

// TestTheBoundsOfSettingsForRenewalAreThose of the watchdog, whatever the lease.
func TestTheBoundsOfSettingsForRenewalAreThose(t *testing.T) {
	for _, lease := range []time.Duration{lock.MinLease, 300 * time.Millisecond, time.Second, 30 * time.Second} {
		tick := min(max(lease/100, time.Millisecond), 10*time.Millisecond)
		for margin, fits := range map[time.Duration]bool{2*tick - 1: false, 2 * tick: true, lease / 4: true, lease/4 + 1: false} {
			c, err := lock.New(&redis.Pool{Dial: func() (redis.Conn, error) { panic("not dialled") }}, lock.Config{Lease: lease, Margin: margin})
			require.Equal(t, fits, err == nil, "lease %v, margin %v: %v", lease, margin, err)
			if fits {
				require.NoError(t, c.Close(t.Context()))
			} else {
				require.NotContains(t, err.Error(), "renewal:")
			}
		}
	}
}
