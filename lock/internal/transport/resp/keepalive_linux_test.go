package resp

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdleConnectionsAreProbedEvery30s(t *testing.T) {
	conn, err := Dialer{}.Dial(t.Context(), "tcp", server(t, false), Login{})
	require.NoError(t, err)
	raw, err := Below(conn).socket.Conn.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		seconds, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		require.NoError(t, err)
		require.Equal(t, 30, seconds)
	}))
	require.NoError(t, conn.Close())
}
