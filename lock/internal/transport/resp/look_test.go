package resp

import (
	"context"
	"crypto/tls"
	"net"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// peer is both ends of a connection: the client's with the Conn below, and the server's.
type peer struct {
	redis.Conn
	below  *Conn
	server net.Conn
}

// peers runs f with connections of each kind that can be looked at.
func peers(t *testing.T, f func(t *testing.T, p *peer)) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("sockets are not looked at here")
	}
	cert := certificate(t)
	for name, c := range map[string]struct {
		network string
		secure  bool
		version uint16
	}{
		"tcp": {network: "tcp"}, "unix": {network: "unix"},
		"TLS 1.2": {"tcp", true, tls.VersionTLS12}, "TLS 1.3": {"tcp", true, tls.VersionTLS13},
	} {
		t.Run(name, func(t *testing.T) {
			address := "127.0.0.1:0"
			if c.network == "unix" {
				address = filepath.Join(t.TempDir(), "s")
			}
			ln, err := net.Listen(c.network, address)
			require.NoError(t, err)
			defer ln.Close()
			accepted := make(chan net.Conn, 1)
			go func() {
				conn, err := ln.Accept()
				if err == nil && c.secure {
					secure := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{cert}, MaxVersion: c.version})
					err, conn = secure.Handshake(), secure
				}
				if err != nil {
					conn = nil
				}
				accepted <- conn
			}()
			d := Dialer{NetDial: (&net.Dialer{}).DialContext}
			if c.secure {
				d.TLS = &tls.Config{InsecureSkipVerify: true}
			}
			conn, err := d.Dial(t.Context(), c.network, ln.Addr().String(), Login{})
			require.NoError(t, err)
			defer conn.Close()
			server := <-accepted
			require.NotNil(t, server)
			defer server.Close()
			p := &peer{Conn: conn, below: Below(conn), server: server}
			require.True(t, p.below.CanTry())
			f(t, p)
		})
	}
}

// ask sends a request, and reads it at the server.
func (p *peer) ask(t *testing.T) {
	t.Helper()
	require.NoError(t, p.Send("PING"))
	require.NoError(t, p.Flush())
	require.NoError(t, p.server.SetReadDeadline(time.Now().Add(10*time.Second)))
	for got := 0; got < len("*1\r\n$4\r\nPING\r\n"); {
		n, err := p.server.Read(make([]byte, 64))
		require.NoError(t, err)
		got += n
	}
}

func (p *peer) say(t *testing.T, text string) {
	t.Helper()
	_, err := p.server.Write([]byte(text))
	require.NoError(t, err)
}

func (p *peer) requirePong(t *testing.T) {
	t.Helper()
	answer, err := redis.String(Receive(p.Conn, 0))
	require.NoError(t, err)
	require.Equal(t, "PONG", answer)
}

// awaitBytes waits until the connection is not quiet.
func (p *peer) awaitBytes(t *testing.T) {
	t.Helper()
	require.Eventually(t, func() bool { return !p.below.Quiet() }, 10*time.Second, time.Millisecond)
}

func TestAConnectionIsQuietUntilSomethingComesThatWasNotAskedFor(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, p *peer){
		"an answer": func(t *testing.T, p *peer) { p.say(t, "+MORE\r\n") },
		"a byte":    func(t *testing.T, p *peer) { p.say(t, "+") },
		"its end":   func(t *testing.T, p *peer) { require.NoError(t, p.server.Close()) },
	} {
		t.Run(name, func(t *testing.T) {
			peers(t, func(t *testing.T, p *peer) {
				for range 3 {
					require.True(t, p.below.Quiet())
					p.ask(t)
					p.say(t, "+PONG\r\n")
					require.True(t, p.below.AwaitAnswer(10*time.Second))
					p.requirePong(t)
				}
				require.True(t, p.below.Quiet())
				end(t, p)
				p.awaitBytes(t)
				require.False(t, p.below.Quiet(), "and so it stays")
			})
		})
	}
}

// TestWhatIsReadTogetherWithAnAnswerIsNoticed: TLS reads more than one record at once, and then
// the socket has nothing more.
func TestWhatIsReadTogetherWithAnAnswerIsNoticed(t *testing.T) {
	peers(t, func(t *testing.T, p *peer) {
		require.True(t, p.below.Quiet())
		p.ask(t)
		p.say(t, "+PONG\r\n")
		p.say(t, "+MORE\r\n")
		time.Sleep(20 * time.Millisecond) // so that both are there; if they are not, they are read one by one
		require.True(t, p.below.AwaitAnswer(10*time.Second))
		p.requirePong(t)
		p.awaitBytes(t)
		require.True(t, p.below.Answered())
		answer, err := redis.String(Receive(p.Conn, 0))
		require.NoError(t, err)
		require.Equal(t, "MORE", answer)
	})
}

// TestASliceHarmsNoConnection: AwaitAnswer ends before the answer comes, or when half of it has come.
func TestASliceHarmsNoConnection(t *testing.T) {
	peers(t, func(t *testing.T, p *peer) {
		for range 3 {
			require.True(t, p.below.Quiet())
			p.ask(t)
			require.False(t, p.below.AwaitAnswer(time.Millisecond))
			p.say(t, "+PO")
			require.False(t, p.below.AwaitAnswer(20*time.Millisecond))
			p.say(t, "NG\r\n")
			p.requirePong(t)
			time.Sleep(2 * time.Millisecond)
		}
		require.True(t, p.below.Quiet())
		p.ask(t)
		p.say(t, "+PONG\r\n")
		require.True(t, p.below.AwaitAnswer(10*time.Second))
		p.requirePong(t)
	})
}

// wrapped is a net.Conn over a socket. It could change the bytes of the socket, as TLS does.
type wrapped struct{ *net.TCPConn }

func TestAConnectionThatIsWrappedIsNotLookedAt(t *testing.T) {
	address := server(t, false)
	d := Dialer{NetDial: func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return wrapped{c.(*net.TCPConn)}, nil
	}}
	conn, err := d.Dial(t.Context(), "tcp", address, Login{})
	require.NoError(t, err)
	defer conn.Close()
	require.False(t, Below(conn).CanTry())
	require.Nil(t, Below(redis.NewConn(wrapped{}, 0, 0)))
}
