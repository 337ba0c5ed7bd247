package lock_test

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// connectionsOf is how many connections a user has, of which a client's first Lock made one.
func connectionsOf(t *testing.T, conn redis.Conn, user string) (n int) {
	t.Helper()
	fixture.Needs(t, redistest.Users)
	list, err := redis.String(conn.Do("CLIENT", "LIST"))
	require.NoError(t, err)
	for _, word := range strings.Fields(list) {
		if word == "user="+user {
			n++
		}
	}
	return n
}

// TestConnectionsForRenewalAreDialledWithTheFirstHold that is renewed, and not with others.
func TestConnectionsForRenewalAreDialledWithTheFirstHold(t *testing.T) {
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute})
	fixed, err := c.Mutex("fixed").LockFor(t.Context(), time.Minute)
	require.NoError(t, err)
	before := connectionsOf(t, conn, "default")
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "default") >= before+2 })
	require.Zero(t, c.Stats().Renewal.Renewed, "none was needed yet")
	require.NoError(t, held.Unlock(t.Context()))
	require.NoError(t, fixed.Unlock(t.Context()))

	extended := fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Minute})
	fixed, err = extended.Mutex("fixed").LockFor(t.Context(), time.Minute)
	require.NoError(t, err)
	before = connectionsOf(t, conn, "default")
	inner, err := extended.Mutex("fixed").Lock(fixed.Context(t.Context())) // wants renewal
	require.NoError(t, err)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "default") >= before+2 })
	require.NoError(t, inner.Unlock(t.Context()))
	require.NoError(t, fixed.Unlock(t.Context()))
}

// TestAPasswordThatIsChangedAfterTheFirstLockLosesNoHold: the connections that are there
// stay logged in, and those for renewal are among them.
func TestAPasswordThatIsChangedAfterTheFirstLockLosesNoHold(t *testing.T) {
	t.Parallel()
	fixture.Needs(t, redistest.Users)
	s := fixture.Server(t)
	conn := fixture.Dial(t, s)
	setPassword := func(password string) {
		fixture.SetUser(t, s, "rotated", "reset", "on", ">"+password, "allkeys", "allchannels", "+@all")
	}
	setPassword("first")
	host, port, err := net.SplitHostPort(s.Addr())
	require.NoError(t, err)
	c, err := lock.Open("redis://rotated:first@"+net.JoinHostPort(host, port), lock.Config{Lease: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { fixture.CloseNow(c) })
	held := fixture.Hold(t, c.Mutex("m").Lock)
	bounded.Until(t, func() bool { return connectionsOf(t, conn, "rotated") >= 3 })
	setPassword("second")
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed >= renewed+9 })
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(t.Context()))
}
