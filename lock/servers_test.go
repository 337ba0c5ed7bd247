package lock_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// shared are the servers that the tests of this package share.
var shared fixture.Shared

// onRedis returns the server that all tests share, or skips the test without one.
func onRedis(t *testing.T) *redistest.Server {
	t.Helper()
	return shared.Server(t)
}

// fiveMasters returns the masters that all tests share.
func fiveMasters(t *testing.T) []*redistest.Server {
	t.Helper()
	return shared.Masters(t)
}

// redLease is the lease of RedLocks.
var redLease = fixture.RedLease()

// virtualFair is a server in memory and in virtual time, with methods for FairMutexes of the name m.
type virtualFair struct {
	t    *testing.T
	s    *redistest.Server
	conn redis.Conn
}

func startVirtualFair(t *testing.T) *virtualFair {
	s := fixture.Virtual(t)
	conn := fixture.Dial(t, s)
	return &virtualFair{t, s, conn}
}

func (v *virtualFair) client(cfg lock.Config) *lock.Client {
	c := fixture.Client(v.t, v.s.Pool(0), cfg)
	return c
}

// do runs a plain command, as Redisson does.
func (v *virtualFair) do(args ...any) any {
	return fixture.DoOn(v.t, v.conn, args[0].(string), args[1:]...)
}

// listener subscribes to a channel, as a Redisson client does.
func listener(t *testing.T, s *redistest.Server, channel string) redis.PubSubConn {
	t.Helper()
	conn := fixture.Dial(t, s)
	psc := redis.PubSubConn{Conn: conn}
	require.NoError(t, psc.Subscribe(channel))
	require.IsType(t, redis.Subscription{}, psc.ReceiveWithTimeout(time.Minute))
	return psc
}

func requireMessage(t *testing.T, psc redis.PubSubConn, want string) {
	t.Helper()
	m, ok := psc.ReceiveWithTimeout(time.Minute).(redis.Message)
	require.True(t, ok)
	require.Equal(t, want, string(m.Data))
}

// statOf returns a number from INFO commandstats, where what is calls or usec. Commands that scripts
// run count too.
func statOf(t testing.TB, s *redistest.Server, command, what string) (n int) {
	t.Helper()
	info, err := redis.String(fixture.Do(t, s, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":")
	line, _, _ := strings.Cut(rest, "\r\n")
	if _, rest, found := strings.Cut(","+line, ","+what+"="); found {
		_, err = fmt.Sscanf(rest, "%d", &n)
		require.NoError(t, err)
	}
	return n
}
