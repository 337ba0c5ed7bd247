package redistest_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

func TestMiniKeysExpireInRealTime(t *testing.T) {
	c := fixture.Dial(t, fixture.Mini(t))
	const ttl = 100 * time.Millisecond
	begin := time.Now()
	fixture.DoOn(t, c, "SET", "k", "v", "PX", ttl.Milliseconds())
	set := time.Now()
	for {
		asked := time.Now()
		exists := fixture.DoOn(t, c, "EXISTS", "k") == int64(1)
		if exists {
			require.Less(t, asked.Sub(set), ttl+50*time.Millisecond)
			continue
		}
		require.Greater(t, time.Since(begin), ttl-50*time.Millisecond)
		return
	}
}

func TestMiniKeysOfAFullServerExpireToo(t *testing.T) {
	srv := fixture.Mini(t)
	c := fixture.Dial(t, srv)
	const keys, part = 20000, 500 // which a slow machine does in time
	each := func(command string, args ...any) {
		for i := 0; i < keys; i += part {
			text := "for i = ARGV[1] + 1, ARGV[1] + ARGV[2] do redis.call('" + command + "', 'k' .. i, ARGV[3]) end return 0"
			fixture.DoOn(t, c, "EVAL", append([]any{text, 0, i, part}, args...)...)
		}
	}
	each("SET", "v")
	require.Equal(t, int64(keys), fixture.DoOn(t, c, "DBSIZE"))
	each("PEXPIRE", 1000)
	require.Eventually(t, func() bool { return fixture.DoOn(t, c, "DBSIZE") == int64(0) }, time.Minute, 10*time.Millisecond)
}

func TestMiniPasswordIsAskedForAndGiven(t *testing.T) {
	srv := fixture.StartMini(t, redistest.MiniOptions{Password: "pw"})
	fixture.Do(t, srv, "PING")
	c, err := redis.Dial(srv.Network(), srv.Addr())
	require.NoError(t, err)
	defer c.Close()
	_, err = c.Do("GET", "k")
	require.ErrorContains(t, err, "NOAUTH")
}

func TestMiniPauseHoldsCommandsBack(t *testing.T) {
	srv := fixture.Mini(t)
	old := fixture.Dial(t, srv)
	fixture.DoOn(t, old, "SET", "k", "v", "PX", 50)
	require.NoError(t, srv.Pause())
	paused := fixture.Dial(t, srv)
	_, err := redis.DoWithTimeout(paused, 100*time.Millisecond, "PING")
	require.True(t, fixture.IsTimeout(err), "%v", err)
	require.NoError(t, srv.Resume())
	require.Equal(t, int64(0), fixture.DoOn(t, old, "EXISTS", "k"), "TTLs run on in a pause")
}

func TestMiniKillCutsAndRestartIsEmpty(t *testing.T) {
	srv := fixture.Mini(t)
	addr := srv.Addr()
	c := fixture.Dial(t, srv)
	fixture.DoOn(t, c, "SET", "k", "v")
	require.NoError(t, srv.Pause())
	require.NoError(t, srv.Kill())
	_, err := c.Do("PING")
	require.Error(t, err)
	_, err = srv.Dial()
	require.Error(t, err)
	require.ErrorIs(t, srv.Pause(), redistest.ErrNotRunning)

	require.NoError(t, srv.Restart(t.Context()))
	require.Equal(t, addr, srv.Addr())
	require.Equal(t, int64(0), fixture.Do(t, srv, "DBSIZE"))

	require.NoError(t, srv.Stop())
	require.NoError(t, srv.Stop(), "Stop again")
	require.ErrorIs(t, srv.Restart(t.Context()), redistest.ErrStopped)
}

func TestMiniOptionsOutOfRange(t *testing.T) {
	_, err := redistest.StartMini(redistest.MiniOptions{Resolution: -1})
	require.ErrorContains(t, err, "Resolution is -1ns")
	_, err = redistest.StartVirtual(redistest.MiniOptions{Resolution: -1})
	require.ErrorContains(t, err, "Resolution is -1ns")
}
