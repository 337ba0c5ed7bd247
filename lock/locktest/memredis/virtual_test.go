package memredis_test

import (
	"errors"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// virtual runs f with a virtual server in a bubble, which fails if a goroutine
// is left.
func virtual(t *testing.T, cfg memredis.Config, f func(t *testing.T, srv *memredis.Server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		srv, err := memredis.Start(cfg)
		require.NoError(t, err)
		defer func() { require.NoError(t, srv.Stop()) }()
		f(t, srv)
	})
}

func TestHourOfRenewals(t *testing.T) {
	begin := time.Now()
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer c.Close()
		const lease = 30 * time.Second
		fixture.DoOn(t, c, "SET", "k", "v", "PX", lease.Milliseconds())
		for range 360 {
			time.Sleep(lease / 3)
			require.Equal(t, int64(1), fixture.DoOn(t, c, "PEXPIRE", "k", lease.Milliseconds()))
		}
		time.Sleep(lease - time.Millisecond)
		require.Equal(t, int64(1), fixture.DoOn(t, c, "PTTL", "k"))
		time.Sleep(time.Millisecond)
		require.Equal(t, int64(0), fixture.DoOn(t, c, "EXISTS", "k"), "gone at its TTL exactly")
	})
	require.Less(t, time.Since(begin), 10*time.Second)
}

// TestTheTimeIsThatOfTheBubble, because package lock compares the time limits of requests with it.
func TestTheTimeIsThatOfTheBubble(t *testing.T) {
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer c.Close()
		for range 3 {
			time.Sleep(time.Hour)
			text := strconv.FormatInt(time.Now().Unix(), 10)
			require.Equal(t, text, string(fixture.DoOn(t, c, "TIME").([]any)[0].([]byte)))
			require.Equal(t, text, string(fixture.DoOn(t, c, "EVAL", "return redis.call('time')[1]", 0).([]byte)))
		}
	})
}

func TestResolutionIsTheLeastStep(t *testing.T) {
	virtual(t, memredis.Config{Resolution: 10 * time.Millisecond}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer c.Close()
		fixture.DoOn(t, c, "SET", "k", "v", "PX", 1000)
		time.Sleep(9 * time.Millisecond)
		require.Equal(t, int64(1000), fixture.DoOn(t, c, "PTTL", "k"))
		time.Sleep(time.Millisecond)
		require.Equal(t, int64(990), fixture.DoOn(t, c, "PTTL", "k"))
	})
}

func TestPipelineLargerThanTheConnectionHolds(t *testing.T) {
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer c.Close()
		const n = 20000
		for i := range n {
			require.NoError(t, c.Send("SET", i, "0123456789012345678901234567890123456789"))
		}
		require.NoError(t, c.Flush())
		for range n {
			_, err := c.Receive()
			require.NoError(t, err)
		}
	})
}

func TestPauseTimesOutExactly(t *testing.T) {
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		paused, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer paused.Close()
		other, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer other.Close()
		require.NoError(t, srv.Pause())
		begin := time.Now()
		_, err = redis.DoWithTimeout(paused, 3*time.Second, "SET", "late", "v")
		require.True(t, fixture.IsTimeout(err), "%v", err)
		require.Equal(t, 3*time.Second, time.Since(begin))

		require.NoError(t, srv.Resume())
		synctest.Wait()
		require.Equal(t, int64(1), fixture.DoOn(t, other, "EXISTS", "late"), "it arrived, only the answer was lost")
	})
}

func TestSubscriberHears(t *testing.T) {
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context(), redis.DialReadTimeout(0))
		require.NoError(t, err)
		sub := redis.PubSubConn{Conn: c}
		require.NoError(t, sub.Subscribe("ch"))
		require.IsType(t, redis.Subscription{}, sub.Receive())
		heard := make(chan any)
		go func() { heard <- sub.Receive() }()
		time.Sleep(time.Hour)

		pub, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		require.Equal(t, int64(1), fixture.DoOn(t, pub, "PUBLISH", "ch", "0"))
		require.Equal(t, redis.Message{Channel: "ch", Data: []byte("0")}, <-heard)
		require.NoError(t, pub.Close())
		require.NoError(t, sub.Close())
	})
}

func TestKillAndRestart(t *testing.T) {
	virtual(t, memredis.Config{Password: "pw"}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer c.Close()
		fixture.DoOn(t, c, "SET", "k", "v")
		require.NoError(t, srv.Kill())
		_, err = c.Do("PING")
		require.Error(t, err)
		_, err = srv.DialContext(t.Context())
		require.True(t, errors.Is(err, memredis.ErrNotRunning), "%v", err)

		require.NoError(t, srv.Restart(t.Context()))
		again, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		defer again.Close()
		require.Equal(t, int64(0), fixture.DoOn(t, again, "DBSIZE"))
	})
}

func TestStopWithOpenConnections(t *testing.T) {
	virtual(t, memredis.Config{}, func(t *testing.T, srv *memredis.Server) {
		c, err := srv.DialContext(t.Context())
		require.NoError(t, err)
		fixture.DoOn(t, c, "PING")
		require.NoError(t, srv.Pause())
		require.NoError(t, c.Send("PING"))
		require.NoError(t, c.Flush())
		synctest.Wait()
		require.NoError(t, srv.Stop())
		_, err = c.Receive()
		require.Error(t, err)
	})
}
