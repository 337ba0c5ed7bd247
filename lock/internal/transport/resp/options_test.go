package resp

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

type ctxKey struct{}

// counting is a dial function that counts its calls.
type counting struct {
	calls int
	ctx   context.Context // of the last call
}

func (c *counting) dial(ctx context.Context, network, address string) (net.Conn, error) {
	c.calls++
	c.ctx = ctx
	return new(net.Dialer).DialContext(ctx, network, address)
}

func (c *counting) withoutContext(network, address string) (net.Conn, error) {
	return c.dial(context.Background(), network, address)
}

// TestADialFunctionAmongOptionsIsUsedOnce for each connection, and redigo uses its connection directly.
func TestADialFunctionAmongOptionsIsUsedOnce(t *testing.T) {
	skip := &tls.Config{InsecureSkipVerify: true}
	for name, c := range map[string]struct {
		to      Dialer
		secure  bool
		options []redis.DialOption
	}{
		"alone":                   {},
		"with a login":            {options: []redis.DialOption{redis.DialUsername("u"), redis.DialPassword("p"), redis.DialDatabase(1)}},
		"with TLS":                {secure: true, options: []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSSkipVerify(true)}},
		"with TLS of the Dialer":  {secure: true, to: Dialer{TLS: skip}, options: []redis.DialOption{redis.DialPassword("p")}},
		"with TLS that is off":    {options: []redis.DialOption{redis.DialUseTLS(true), redis.DialUseTLS(false)}},
		"with TLS of the Dialer'": {secure: true, to: Dialer{TLS: skip}, options: []redis.DialOption{redis.DialUseTLS(false)}},
	} {
		t.Run(name, func(t *testing.T) {
			addr := server(t, c.secure, "+OK\r\n", "+OK\r\n", "+OK\r\n")
			own := &counting{}
			for i, option := range []redis.DialOption{redis.DialContextFunc(own.dial), redis.DialNetDial(own.withoutContext)} {
				for place, options := range map[string][]redis.DialOption{
					"first": append([]redis.DialOption{option}, c.options...), "last": append(c.options, option),
				} {
					own.calls = 0
					ctx := context.WithValue(t.Context(), ctxKey{}, place)
					conn, err := c.to.DialOptions(ctx, "tcp", addr, options...)
					require.NoError(t, err, place)
					require.Equal(t, 1, own.calls)
					require.True(t, i > 0 || own.ctx.Value(ctxKey{}) == place)
					require.Nil(t, Below(conn))
					_, err = conn.Do("PING")
					require.NoError(t, err)
					require.NoError(t, conn.Close())
				}
			}
		})
	}
}

// TestAnErrorOfADialFunctionAmongOptionsIsReturned as it is. DialOptions does not dial in another way.
func TestAnErrorOfADialFunctionAmongOptionsIsReturned(t *testing.T) {
	addr := server(t, false)
	refused := errors.New("not from here")
	conn, err := Dialer{}.DialOptions(t.Context(), "tcp", addr, redis.DialContextFunc(
		func(context.Context, string, string) (net.Conn, error) { return nil, refused }))
	require.Equal(t, refused, err)
	require.Nil(t, conn)
}

// TestADialersNetDialReplacesTheOneOfOptions, whatever TLS there is.
func TestADialersNetDialReplacesTheOneOfOptions(t *testing.T) {
	for _, secure := range []bool{false, true} {
		given, option := &counting{}, &counting{}
		conn, err := Dialer{NetDial: given.dial}.DialOptions(t.Context(), "tcp", server(t, secure, "+PONG\r\n"),
			redis.DialContextFunc(option.dial), redis.DialUseTLS(secure), redis.DialTLSSkipVerify(true))
		require.NoError(t, err)
		require.Equal(t, 1, given.calls)
		require.Zero(t, option.calls)
		require.Equal(t, secure, Below(conn) == nil)
		_, err = conn.Do("PING")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
}

// TestOptionsOfTLSAreRedigos, with the certificate that they name. A connection that needs them has
// no limits.
func TestOptionsOfTLSAreRedigos(t *testing.T) {
	addr := server(t, true, "*4\r\n:1\r\n", ":2\r\n:3\r\n:4\r\n")
	for _, options := range [][]redis.DialOption{
		{redis.DialUseTLS(true), redis.DialTLSSkipVerify(true)},
		{redis.DialUseTLS(true), redis.DialTLSConfig(&tls.Config{InsecureSkipVerify: true})},
	} {
		conn, err := Dialer{}.DialOptions(t.Context(), "tcp", addr, options...)
		require.NoError(t, err)
		require.Nil(t, Below(conn))
		require.NoError(t, conn.Send("PING"))
		require.NoError(t, conn.Send("PING"))
		require.NoError(t, conn.Flush())
		four, err := redis.Int64s(conn.Receive())
		require.NoError(t, err)
		require.Equal(t, []int64{1, 2, 3, 4}, four)
		require.NoError(t, conn.Close())
	}
}

// TestNoPasswordIsSentWithoutTLS if options or the Dialer ask for TLS, even if it fails at once.
func TestNoPasswordIsSentWithoutTLS(t *testing.T) {
	impossible := &tls.Config{MinVersion: tls.VersionTLS13, MaxVersion: tls.VersionTLS12}
	for name, c := range map[string]struct {
		to      Dialer
		network string
		options []redis.DialOption
	}{
		"an option":             {options: []redis.DialOption{redis.DialUseTLS(true)}},
		"with a config":         {options: []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSConfig(&tls.Config{})}},
		"that cannot begin":     {options: []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSConfig(impossible)}},
		"that has no time":      {options: []redis.DialOption{redis.DialUseTLS(true), redis.DialTLSHandshakeTimeout(1)}},
		"a name":                {options: []redis.DialOption{redis.DialUseTLS(true), redis.DialClientName("secret")}},
		"of the Dialer":         {to: Dialer{TLS: &tls.Config{}}},
		"of the Dialer, at all": {to: Dialer{TLS: &tls.Config{}}, options: []redis.DialOption{redis.DialUseTLS(false)}},
	} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			require.NoError(t, err)
			var heard bytes.Buffer
			var wg sync.WaitGroup
			wg.Go(func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					_, _ = c.Write([]byte("+OK\r\n+OK\r\n"))
					_, _ = heard.ReadFrom(c)
					c.Close()
				}
			})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			_, err = c.to.DialOptions(ctx, "tcp", ln.Addr().String(), append(c.options, redis.DialPassword("secret"))...)
			require.Error(t, err)
			ln.Close()
			wg.Wait()
			require.NotContains(t, heard.String(), "secret")
		})
	}
}

// TestAHandshakeOfRedigosEndsWithItsContext, because the connection is closed then. redigo does not
// heed the context.
func TestAHandshakeOfRedigosEndsWithItsContext(t *testing.T) {
	d, others := piped()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		there := <-others
		cancel()
		_, _ = io.Copy(io.Discard, there)
	}()
	_, err := d.DialOptions(ctx, "tcp", "h:1", redis.DialUseTLS(true), redis.DialTLSHandshakeTimeout(time.Minute))
	require.ErrorIs(t, err, context.Canceled)
}

// TestALoginIsWhatRedigoSends for options of the same meaning.
func TestALoginIsWhatRedigoSends(t *testing.T) {
	for i := range 16 {
		synctest.Test(t, func(t *testing.T) {
			l := Login{}
			if i&1 != 0 {
				l.User = "u"
			}
			if i&2 != 0 {
				l.Password = "p"
			}
			if i&4 != 0 {
				l.ClientName = "n"
			}
			if i&8 != 0 {
				l.Database = 3
			}
			heard := func(dial func(d Dialer) (redis.Conn, error)) string {
				texts := make(chan string, 1)
				conn, err := dial(Dialer{NetDial: func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					answers := make(chan string, 10)
					go func() {
						for answer := range answers {
							_, _ = io.WriteString(there, answer)
						}
					}()
					go func() {
						var all strings.Builder
						for lines := bufio.NewScanner(there); lines.Scan(); {
							all.WriteString(lines.Text() + " ")
							if strings.HasPrefix(lines.Text(), "*") {
								answers <- "+OK\r\n"
							}
						}
						close(answers)
						texts <- all.String()
					}()
					return here, nil
				}})
				require.NoError(t, err)
				require.NotNil(t, Below(conn))
				require.NoError(t, conn.Close())
				return <-texts
			}
			require.Equal(t, heard(func(d Dialer) (redis.Conn, error) {
				return d.DialOptions(t.Context(), "tcp", "h:1", redis.DialUsername(l.User), redis.DialPassword(l.Password),
					redis.DialClientName(l.ClientName), redis.DialDatabase(l.Database), redis.DialReadTimeout(0))
			}), heard(func(d Dialer) (redis.Conn, error) { return d.Dial(t.Context(), "tcp", "h:1", l) }), "%+v", l)
		})
	}
}
