package resp

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// piped returns a Dialer whose connections are in memory, and their other ends. With answers, the
// other end gives them to the lines that begin a request.
func piped(answers ...string) (Dialer, <-chan net.Conn) {
	others := make(chan net.Conn, 1)
	return Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		others <- there
		go func() {
			for r := bufio.NewReader(there); ; {
				line, err := r.ReadString('\n')
				if err != nil {
					return
				}
				if line[0] == '*' && len(answers) > 0 {
					_, _ = io.WriteString(there, answers[0])
					answers = answers[1:]
				}
			}
		}()
		return here, nil
	}}, others
}

// requireClosed fails if the other end of a connection is still open.
func requireClosed(t *testing.T, there net.Conn) {
	t.Helper()
	_, err := there.Write([]byte("x"))
	require.ErrorIs(t, err, io.ErrClosedPipe)
}

// TestADialThatFailsLeavesNoConnection, whatever the reason is.
func TestADialThatFailsLeavesNoConnection(t *testing.T) {
	login := Login{Password: "x"}
	for name, c := range map[string]struct {
		answers []string
		secure  bool
		address string
		is      error
		says    string
	}{
		"the server refuses":         {answers: []string{"-NOPERM no\r\n"}, address: "h:1", says: "NOPERM no"},
		"the server is silent":       {address: "h:1", is: context.DeadlineExceeded},
		"TLS, but it is no server's": {secure: true, address: "h:1", is: context.DeadlineExceeded, says: "if the server has no TLS there"},
		"TLS, without a host":        {secure: true, address: "h", says: "missing port"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, others := piped(c.answers...)
				if c.secure {
					d.TLS = &tls.Config{}
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				began := time.Now()
				_, err := d.Dial(ctx, "tcp", c.address, login)
				require.Error(t, err)
				require.LessOrEqual(t, time.Since(began), time.Second)
				if c.is != nil {
					require.ErrorIs(t, err, c.is)
				}
				require.ErrorContains(t, err, c.says)
				requireClosed(t, <-others)
			})
		})
	}
}

// TestTheHandshakeEndsBeforeItsDial, or after a limit of its own, and its error is a timeout in any case.
func TestTheHandshakeEndsBeforeItsDial(t *testing.T) {
	for _, c := range []struct{ dial, took time.Duration }{
		{dial: 10 * time.Second, took: 9 * time.Second},
		{dial: 30 * time.Second, took: 27 * time.Second},
		{took: handshakeTimeout},
		{dial: -time.Second, took: 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			d, others := piped()
			d.TLS = &tls.Config{}
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if c.dial != 0 {
				ctx, cancel = context.WithTimeout(ctx, c.dial)
			}
			defer cancel()
			began := time.Now()
			_, err := d.Dial(ctx, "tcp", "h:1", Login{})
			require.Equal(t, c.took, time.Since(began))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			var slow net.Error
			require.True(t, errors.As(err, &slow) && slow.Timeout())
			requireClosed(t, <-others)
		})
	}
}

// TestAHandshakeThatItsCallerEndsSaysWhy: its error is the cause of the context, and not the error of
// the closed connection.
func TestAHandshakeThatItsCallerEndsSaysWhy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, others := piped()
		d.TLS = &tls.Config{}
		ctx, cancel := context.WithCancelCause(t.Context())
		left := errors.New("the caller has left")
		time.AfterFunc(time.Second, func() { cancel(left) })
		_, err := d.Dial(ctx, "tcp", "h:1", Login{})
		require.ErrorIs(t, err, left)
		requireClosed(t, <-others)
	})
}

// TestACallThatIsLimitedEnds: what a Dialer returns heeds limits and contexts as redigo does.
func TestACallThatIsLimitedEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(c redis.Conn) error{
		"DoWithTimeout":      func(c redis.Conn) error { _, err := redis.DoWithTimeout(c, time.Second, "PING"); return err },
		"ReceiveWithTimeout": func(c redis.Conn) error { _, err := redis.ReceiveWithTimeout(c, time.Second); return err },
		"DoContext":          func(c redis.Conn) error { _, err := redis.DoContext(c, ctx, "PING"); return err },
		"ReceiveContext":     func(c redis.Conn) error { _, err := redis.ReceiveContext(c, ctx); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, others := piped()
				conn, err := d.Dial(t.Context(), "tcp", "h:1", Login{})
				require.NoError(t, err)
				late := time.AfterFunc(time.Minute, func() { (<-others).Close() }) // so that a call without an end ends
				defer conn.Close()
				require.Error(t, call(conn))
				require.True(t, late.Stop(), "it waited for the connection's end")
				(<-others).Close()
			})
		})
	}
}

func TestNoConnectionIsAnError(t *testing.T) {
	for _, none := range []net.Conn{nil, (*net.TCPConn)(nil)} {
		d := Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) { return none, nil }}
		_, err := d.Dial(t.Context(), "tcp", "h:1", Login{})
		require.ErrorIs(t, err, dialing.ErrNoConn)
		for _, option := range []redis.DialOption{redis.DialDatabase(1), redis.DialUseTLS(true)} {
			_, err = d.DialOptions(t.Context(), "tcp", "h:1", option)
			require.ErrorIs(t, err, dialing.ErrNoConn)
		}
	}
}
