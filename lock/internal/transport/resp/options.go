package resp

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// DialOptions connects with options of redigo. d replaces options of the same purpose. What the
// connection is depends on the options:
//
//	a dial function   redigo's connection over what the function returns, with redigo's TLS
//	TLS               redigo's connection; ctx ends its handshake too
//	other options     a connection with limits, as Dial makes it
//
// A dial function is called once. DialConnectTimeout and DialKeepAlive have no effect.
func (d Dialer) DialOptions(ctx context.Context, network, address string, options ...redis.DialOption) (redis.Conn, error) {
	options = slices.Clip(options)
	if d.TLS != nil {
		options = append(options, redis.DialUseTLS(true), redis.DialTLSConfig(d.TLS))
	}
	t := &trial{}
	tried := append([]redis.DialOption{redis.DialContextFunc(t.dial)}, options...) // options that follow replace it
	if d.NetDial != nil {
		tried = append(options, redis.DialContextFunc(t.dial))
	}
	conn, err := redis.DialContext(ctx, network, address, tried...)
	if !t.isDialled {
		return conn, err // made by the dial function among the options
	}
	if err == nil {
		conn.Close()
	}
	if d.TLS != nil || err == nil || t.wrotePlain.Load() {
		return d.dial(ctx, network, address, options)
	}
	var stop func() bool
	conn, err = redis.DialContext(ctx, network, address, append(options, redis.DialContextFunc(
		func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := d.connect(ctx, network, address)
			if err == nil {
				stop = context.AfterFunc(ctx, func() { c.Close() }) // because redigo's handshake does not heed ctx
			}
			return c, err
		}))...)
	if stop != nil && !stop() {
		if err == nil {
			conn.Close()
		}
		return nil, ctx.Err()
	}
	return conn, err
}

// trial is a net.Conn that fails at once. It shows what the options of redigo are, because redigo
// does not tell that. redigo uses a trial unless it uses a dial function among the options. The first
// bytes that redigo writes are a request, or the beginning of a TLS handshake.
type trial struct {
	isDialled  bool        // redigo has used the trial
	wrotePlain atomic.Bool // redigo has written a request, so it does not use TLS
}

var errTrial = errors.New("a trial connection has no server")

func (t *trial) dial(context.Context, string, string) (net.Conn, error) {
	t.isDialled = true
	return t, nil
}

func (t *trial) Write(p []byte) (int, error) {
	if len(p) > 0 && p[0] == '*' {
		t.wrotePlain.Store(true)
	}
	return 0, errTrial
}

func (*trial) Read([]byte) (int, error)         { return 0, errTrial }
func (*trial) Close() error                     { return nil }
func (*trial) LocalAddr() net.Addr              { return nil }
func (*trial) RemoteAddr() net.Addr             { return nil }
func (*trial) SetDeadline(time.Time) error      { return nil }
func (*trial) SetReadDeadline(time.Time) error  { return nil }
func (*trial) SetWriteDeadline(time.Time) error { return nil }
