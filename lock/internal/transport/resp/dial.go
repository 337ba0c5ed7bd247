package resp

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
)

// Dialer says how the net.Conn below a connection is made. The zero Dialer connects as package net
// does, to all addresses of a name.
type Dialer struct {
	// NetDial connects, or is nil for the default.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the configuration of a connection that uses TLS, or nil for none. Without a
	// ServerName the certificate must be valid for the host of the address. The
	// configuration is not changed.
	TLS *tls.Config
}

// Login has what a connection begins with. The zero Login sends nothing.
type Login struct {
	User, Password string // a User needs a Password
	ClientName     string
	Database       int
}

const (
	// connectTimeout limits a connect whose context has no deadline.
	connectTimeout = 5 * time.Second
	// handshakeTimeout limits a TLS handshake whose context has no deadline.
	handshakeTimeout = 10 * time.Second
	// keepAlive is how soon TCP probes an idle connection. The default of redigo, and of older
	// versions of go-redis, is 5 minutes, but load balancers and NATs forget a connection that is
	// idle for 4 minutes.
	keepAlive = 30 * time.Second
)

// Dial connects and limits the answers from the first byte on. The options are timeouts for
// reading and writing.
func (d Dialer) Dial(ctx context.Context, network, address string, login Login, options ...redis.DialOption) (redis.Conn, error) {
	conn, err := d.dial(ctx, network, address, options)
	if err != nil {
		return nil, err
	}
	if err := login.send(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// dial makes a connection with limits. If options have a login, redigo sends it.
func (d Dialer) dial(ctx context.Context, network, address string, options []redis.DialOption) (redis.Conn, error) {
	var below *Conn
	conn, err := redis.DialContext(ctx, network, address, append(slices.Clip(options), redis.DialUseTLS(false),
		redis.DialContextFunc(func(ctx context.Context, network, address string) (c net.Conn, err error) {
			if below, err = d.netConn(ctx, network, address); err != nil {
				return nil, err
			}
			return below, nil
		}))...)
	if err != nil {
		return nil, err
	}
	return &bounded{Conn: conn, below: below}, nil
}

// send sends the commands of l together, and then reads the answers. redigo would take a round trip
// for each command. send returns the first error, because later errors follow from it.
func (l Login) send(ctx context.Context, conn redis.Conn) error {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	commands := l.commands()
	for _, c := range commands {
		if err := conn.Send(c[0].(string), c[1:]...); err != nil {
			return err
		}
	}
	if err := conn.Flush(); err != nil {
		return cmp.Or(ctx.Err(), err)
	}
	for range commands {
		_, err := conn.Receive()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// commands returns the commands of l. redigo sends the same ones for options of the same meaning.
func (l Login) commands() (commands [][]any) {
	switch {
	case l.Password != "" && l.User != "":
		commands = append(commands, []any{"AUTH", l.User, l.Password})
	case l.Password != "":
		commands = append(commands, []any{"AUTH", l.Password})
	}
	if l.ClientName != "" {
		commands = append(commands, []any{"CLIENT", "SETNAME", l.ClientName})
	}
	if l.Database != 0 {
		commands = append(commands, []any{"SELECT", l.Database})
	}
	return commands
}

// bounded is a connection of redigo with the Conn below it, which redigo does not show.
type bounded struct {
	redis.Conn
	below *Conn
}

var (
	_ redis.ConnWithTimeout = (*bounded)(nil)
	_ redis.ConnWithContext = (*bounded)(nil)
)

func (b *bounded) DoWithTimeout(timeout time.Duration, cmd string, args ...any) (any, error) {
	return redis.DoWithTimeout(b.Conn, timeout, cmd, args...)
}

func (b *bounded) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return redis.ReceiveWithTimeout(b.Conn, timeout)
}

func (b *bounded) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	return redis.DoContext(b.Conn, ctx, cmd, args...)
}

func (b *bounded) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(b.Conn, ctx)
}

// Below returns the Conn below a connection that a Dialer has made, or nil for another one.
func Below(conn redis.Conn) *Conn {
	if b, ok := conn.(*bounded); ok {
		return b.below
	}
	return nil
}

// Over returns a connection of redigo over c. It is for tests, which have no server to dial.
func Over(c *Conn) redis.Conn { return &bounded{Conn: redis.NewConn(c, 0, 0), below: c} }

// errHandshake is returned when the TLS handshake of a dial took too long.
var errHandshake net.Error = slowHandshake{}

type slowHandshake struct{}

func (slowHandshake) Error() string   { return "no answer in time" }
func (slowHandshake) Timeout() bool   { return true }
func (slowHandshake) Temporary() bool { return false }

// Is reports that the handshake ended by a deadline.
func (slowHandshake) Is(target error) bool { return target == context.DeadlineExceeded }

// connect makes the connection to the server, without TLS.
func (d Dialer) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if d.NetDial == nil {
		return dialAddresses(ctx, network, address)
	}
	conn, err := d.NetDial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if dialing.IsNone(conn) {
		return nil, dialing.ErrNoConn
	}
	probeInTime(conn)
	return conn, nil
}

// probeInTime makes TCP probe a connection of a dial function after keepAlive. If the dial function has
// switched probes off, they stay off. If it has asked for probes that come sooner, that stays where the
// system tells it.
func probeInTime(conn net.Conn) {
	if over, ok := conn.(*tls.Conn); ok {
		conn = over.NetConn()
	}
	c, ok := conn.(*net.TCPConn)
	if !ok {
		return
	}
	if idle, known := probesAfter(c); !known || idle > keepAlive {
		_ = c.SetKeepAlivePeriod(keepAlive) // if that fails, the connection still works
	}
}

// netConn makes the connection below redigo.
func (d Dialer) netConn(ctx context.Context, network, address string) (*Conn, error) {
	conn, err := d.connect(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if d.TLS == nil {
		return New(conn), nil
	}
	cfg := d.TLS.Clone()
	if cfg.ServerName == "" {
		if cfg.ServerName, _, err = net.SplitHostPort(address); err != nil {
			conn.Close()
			return nil, err
		}
	}
	limit := handshakeTimeout
	if end, ok := ctx.Deadline(); ok { // ends before ctx does, so that the error names the handshake
		limit = time.Until(end) * 9 / 10
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errHandshake)
	defer cancel()
	below := newSocket(conn)
	secure := tls.Client(below, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		var bad *tls.CertificateVerificationError
		if errors.As(err, &bad) {
			return nil, err
		}
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, fmt.Errorf("TLS with %s: %w: if the server has no TLS there, write redis:// and not rediss://", address, err)
	}
	return newSecure(secure, below), nil
}
