package memredis_test

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestListenServesProgramsThatDial(t *testing.T) {
	srv, err := memredis.Listen(memredis.Config{Password: "pw"})
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Stop()) }()
	addr := srv.Addr()
	c, err := redis.Dial("tcp", addr, redis.DialPassword("pw"))
	require.NoError(t, err)
	defer c.Close()
	fixture.DoOn(t, c, "SET", "k", "v")
	inMemory, err := srv.DialContext(t.Context())
	require.NoError(t, err)
	defer inMemory.Close()
	require.Equal(t, int64(1), fixture.DoOn(t, inMemory, "EXISTS", "k"), "both ways lead to one server")

	require.NoError(t, srv.Restart(t.Context()))
	require.Equal(t, addr, srv.Addr())
	again, err := redis.Dial("tcp", addr, redis.DialPassword("pw"))
	require.NoError(t, err)
	defer again.Close()
	require.Equal(t, int64(0), fixture.DoOn(t, again, "DBSIZE"))

	require.NoError(t, srv.Stop())
	require.NoError(t, srv.Stop(), "Stop again")
	require.ErrorIs(t, srv.Pause(), memredis.ErrStopped)
	require.ErrorIs(t, srv.Kill(), memredis.ErrStopped)
	require.ErrorIs(t, srv.Restart(t.Context()), memredis.ErrStopped)
}

func TestAResolutionBelowZeroIsRefused(t *testing.T) {
	for name, start := range map[string]func(memredis.Config) (*memredis.Server, error){"Start": memredis.Start, "Listen": memredis.Listen} {
		_, err := start(memredis.Config{Resolution: -1})
		require.EqualError(t, err, "memredis: Config.Resolution is -1ns: it must be 0 or more", name)
	}
}
