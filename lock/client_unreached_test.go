package lock_test

import (
	"context"
	"errors"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/topology"
)

// A first Lock has no deadline as a rule, and a newcomer no Redis.
func TestALockThatFindsNoRedisIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s := fixture.Mini(t)
	require.NoError(t, s.Kill())
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	const said = "no connection to Redis"
	lockOnce := func() {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		go func() { _, err := c.Mutex(t.Name()).Lock(ctx); failed <- err }()
		require.Eventually(t, func() bool { return strings.Contains(log.String(), said) }, time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, bounded.Receive(t, failed), context.Canceled)
	}
	lockOnce()
	_, err := c.Mutex(t.Name()).TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.Equal(t, 1, strings.Count(log.String(), said), "once until there is a connection")
	require.Contains(t, log.String(), s.Addr())

	require.NoError(t, s.Restart(t.Context()))
	require.NoError(t, c.Mutex(t.Name()).Do(t.Context(), func(context.Context, *lock.Held) error { return nil }))
	require.Contains(t, log.String(), "connected to Redis again")
	require.Equal(t, strings.Count(log.String(), "level="), strings.Count(log.String(), " server="+s.Addr()), "a pool does not tell the address, a failed dial does:\n%s", log.String())
	require.NoError(t, s.Kill())
	require.Eventually(t, func() bool {
		_, err := c.Mutex(t.Name()).TryLock(t.Context())
		return err != nil && strings.Count(log.String(), said) >= 2 // again, if one that had connected before says so after that
	}, time.Minute, time.Millisecond)
}

func TestAMasterThatChangesIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var refuse atomic.Bool
	top := fixture.NewShifting(func(ctx context.Context) (redis.Conn, error) {
		if refuse.Load() {
			return nil, errors.New("refused")
		}
		return s.DialContext(ctx)
	})
	var log fixture.Log
	c := fixture.Client(t, top, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.Empty(t, log.String())
	top.Become("second")
	require.Contains(t, log.String(), `old="at first" new="at second"`)
	refuse.Store(true)
	top.Become("third")
	_, err := c.Mutex(t.Name() + "2").TryLock(t.Context())
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.Contains(t, log.String(), "no connection to Redis")
	refuse.Store(false)
	require.NoError(t, held.Unlock(t.Context()))
	// Dials that were under way may have connected between those that were refused.
	n := strings.Count(log.String(), "connected to Redis again")
	require.NotZero(t, n, log.String())
	require.Equal(t, n, strings.Count(log.String(), "no connection to Redis"), log.String())
	// The second may be asked which locks it has just when dials begin to be refused.
	where := regexp.MustCompile(`(no connection to Redis|connected to Redis again).* server="at (second|third)"`)
	require.Contains(t, log.String(), `server="at third"`)
	require.Len(t, where.FindAllString(log.String(), -1), 2*n, "each line says where:\n%s", log.String())
}

// A Cluster of which no node answers has no server that could be named.
func TestAClusterThatIsNotFoundIsToldOfInTheLog(t *testing.T) {
	t.Parallel()
	var log fixture.Log
	c := fixture.Client(t, &lostCluster{}, lock.Config{IOTimeout: 10 * time.Millisecond, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	for range 3 {
		_, err := c.Mutex("m").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotSent)
	}
	require.Equal(t, 1, strings.Count(log.String(), "no connection to Redis"), log.String())
	require.Contains(t, log.String(), "nobody is there")
	require.Regexp(t, `server="?\w`, log.String())
}

// lostCluster is a Topology that finds nothing.
type lostCluster struct{ *fixture.Shifting }

func (*lostCluster) Traits() topology.Traits { return topology.Traits{Slots: true} }

func (*lostCluster) Follow(ctx context.Context, _ time.Duration, _ <-chan struct{}, update func(topology.Layout)) {
	for ctx.Err() == nil {
		update(topology.Layout{Err: errors.New("nobody is there")})
		time.Sleep(time.Millisecond)
	}
}
