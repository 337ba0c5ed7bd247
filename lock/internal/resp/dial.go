package resp

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Dialer says how the net.Conn below a connection is made.
type Dialer struct {
	// NetDial connects.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the configuration of a connection that uses TLS; nil is none. Without a
	// ServerName the certificate must be that of the address's host. It is not changed.
	TLS *tls.Config
	// Handshake limits the TLS handshake; 0 is no limit but ctx.
	Handshake time.Duration
}

// Dial connects, as redis.DialContext does, and bounds the answers from the first byte
// on. The options are of what comes after: a user, a password, a database, timeouts.
func (d Dialer) Dial(ctx context.Context, network, address string, options ...redis.DialOption) (redis.Conn, error) {
	options = append(options[:len(options):len(options)], redis.DialUseTLS(false), redis.DialContextFunc(d.netConn))
	return redis.DialContext(ctx, network, address, options...)
}

// errNoConn is why a dial failed whose function does not say.
var errNoConn = errors.New("the dial function returned neither a connection nor an error")

// errHandshake is why a dial failed whose TLS handshake took too long.
var errHandshake = errors.New("the TLS handshake took too long")

// netConn makes the connection below redigo.
func (d Dialer) netConn(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := d.NetDial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if conn == nil {
		return nil, errNoConn
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
	if d.Handshake > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, d.Handshake, errHandshake)
		defer cancel()
	}
	secure := tls.Client(conn, cfg)
	if err := secure.HandshakeContext(ctx); err != nil {
		conn.Close()
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return nil, err
	}
	return New(secure), nil
}
