package resp

import (
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// TestIdleConnectionsAreProbedEvery30s, unless the user says another time.
func TestIdleConnectionsAreProbedEvery30s(t *testing.T) {
	for _, c := range []struct {
		options []redis.DialOption
		seconds int
	}{
		{nil, 30},
		{[]redis.DialOption{redis.DialKeepAlive(7 * time.Second)}, 7},
	} {
		conn, err := DialContext(t.Context(), "tcp", server(t, false), c.options...)
		require.NoError(t, err)
		raw, err := Below(conn).socket.Conn.(syscall.Conn).SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			seconds, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
			require.NoError(t, err)
			require.Equal(t, c.seconds, seconds)
		}))
		require.NoError(t, conn.Close())
	}
}
