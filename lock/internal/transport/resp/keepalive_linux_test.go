package resp

import (
	"context"
	"crypto/tls"
	"net"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// probes returns how long c is idle before TCP probes it, or 0 if TCP does not.
func probes(t *testing.T, c net.Conn) (after time.Duration) {
	t.Helper()
	if over, ok := c.(*tls.Conn); ok {
		c = over.NetConn()
	}
	raw, err := c.(syscall.Conn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		isOn, err := syscall.GetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_KEEPALIVE)
		require.NoError(t, err)
		seconds, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE)
		require.NoError(t, err)
		after = time.Duration(isOn*seconds) * time.Second
	}))
	return after
}

func TestIdleConnectionsAreProbedEvery30s(t *testing.T) {
	conn, err := Dialer{}.Dial(t.Context(), "tcp", server(t, false), Login{})
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, probes(t, Below(conn).socket.Conn))
	require.NoError(t, conn.Close())
}

// TestIdleConnectionsOfADialFunctionAreProbed after 30 s at the latest. A dial function may ask for
// probes that come sooner, or for none.
func TestIdleConnectionsOfADialFunctionAreProbed(t *testing.T) {
	ctx := t.Context()
	secure := &tls.Config{InsecureSkipVerify: true}
	for name, c := range map[string]struct{ keepAlive, want time.Duration }{
		"later": {5 * time.Minute, 30 * time.Second}, "sooner": {10 * time.Second, 10 * time.Second}, "never": {-1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var made net.Conn
			dialer := &net.Dialer{KeepAlive: c.keepAlive}
			plain := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
				made, err = dialer.DialContext(ctx, network, address)
				return made, err
			}
			over := func(_ context.Context, network, address string) (conn net.Conn, err error) { // as go-redis does
				made, err = tls.DialWithDialer(dialer, network, address, secure)
				return made, err
			}
			for how, d := range map[string]Dialer{"plain": {NetDial: plain}, "TLS": {NetDial: plain, TLS: secure}, "TLS in it": {NetDial: over}} {
				addr := server(t, how != "plain")
				conn, err := d.Dial(ctx, "tcp", addr, Login{})
				require.NoError(t, err, how)
				require.Equal(t, c.want, probes(t, made), how)
				require.NoError(t, conn.Close())
			}
			conn, err := Dialer{NetDial: plain}.DialOptions(ctx, "tcp", server(t, true), redis.DialUseTLS(true), redis.DialTLSConfig(secure))
			require.NoError(t, err)
			require.Equal(t, c.want, probes(t, made), "TLS of redigo")
			require.NoError(t, conn.Close())
		})
	}
}

// TestADialFunctionMayReturnAnyConnection: one in memory has no probes.
func TestADialFunctionMayReturnAnyConnection(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	conn, err := Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) { return a, nil }}.Dial(t.Context(), "tcp", "x:1", Login{})
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}
