package world_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// asLocker returns a pool that logs in as the user "locker", and counts its dials.
func asLocker(t *testing.T, addr string, dials *atomic.Int64) *redis.Pool {
	t.Helper()
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		dials.Add(1)
		return redis.DialContext(ctx, "tcp", addr, redis.DialUsername("locker"), redis.DialPassword("secret"))
	}}
}

// TestAPubSubConnectionWhosePINGIsRefusedLives, because a refusal is an answer too.
func TestAPubSubConnectionWhosePINGIsRefusedLives(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">secret", "~*", "&*", "+@all", "-ping")
	var dials atomic.Int64
	var log fixture.Log
	c, err := lock.New(asLocker(t, s.Addr(), &dials), lock.Config{
		Lease: time.Minute, MaxPoll: time.Hour, Connections: 1, Logger: log.Logger(),
	})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	fixture.Do(t, s, "HSET", "m", "java:1", 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	left := make(chan error, 1)
	go func() { _, err := c.Mutex("m").Lock(ctx); left <- err }()
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{m}", 1)
	made := dials.Load()
	refused := func() int {
		stats, err := s.Info("commandstats")
		require.NoError(t, err)
		_, count, _ := strings.Cut(stats["cmdstat_ping"], "rejected_calls=")
		count, _, _ = strings.Cut(count, ",")
		n, _ := strconv.Atoi(count)
		return n
	}
	require.Eventually(t, func() bool { return refused() >= 2 }, time.Minute, 10*time.Millisecond)
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{m}", 1)
	require.Equal(t, made, dials.Load(), "the connection lives")
	cancel()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	fixture.CloseNow(c) // all is logged
	require.Empty(t, log.String())
}

// TestARefusedSubscriptionIsToldAndNotAskedForAllTheTime: answers to pings must not count as a sign that
// subscribing works.
func TestARefusedSubscriptionIsToldAndNotAskedForAllTheTime(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">secret", "~*", "resetchannels", "+@all", "-ping")
	var dials atomic.Int64
	var log fixture.Log
	c, err := lock.New(asLocker(t, s.Addr(), &dials), lock.Config{
		Lease: time.Minute, MaxPoll: 20 * time.Millisecond, Connections: 1, Logger: log.Logger(),
	})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	fixture.Do(t, s, "HSET", "m", "java:1", 1)
	got := make(chan error, 1)
	go func() { got <- c.Mutex("m").Do(t.Context(), func(context.Context, *lock.Held) error { return nil }) }()
	log.Await(t, 1, "pub/sub failed")
	require.Contains(t, log.String(), "NOPERM")
	require.Regexp(t, `pub/sub failed.*server="?\w`, log.String())
	fixture.Do(t, s, "DEL", "m")
	require.NoError(t, bounded.Receive(t, got), "it looks by itself")

	require.NotContains(t, log.String(), "pub/sub works again")

	fixture.Do(t, s, "ACL", "SETUSER", "locker", "allchannels")
	waits := 0
	bounded.Until(t, func() bool { // the refused channel is forgotten some seconds after its last waiter
		waits++
		name := fmt.Sprint("n", waits)
		fixture.Do(t, s, "HSET", name, "java:1", 1)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, err := c.Mutex(name).Lock(ctx); left <- err }()
		fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+name+"}", 1)
		cancel()
		require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
		return strings.Contains(log.String(), "pub/sub works again")
	})
	require.LessOrEqual(t, dials.Load(), int64(4), "for commands, for messages, and two for renewal")
}
