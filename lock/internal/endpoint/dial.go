package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/resp"
)

// Credentials returns a user, which may be empty, and a password for one connection.
type Credentials = func(ctx context.Context) (user, password string, err error)

// NetDial connects, as net.Dialer.DialContext does.
type NetDial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer says how a connection is made. The other fields replace Options of the same
// purpose.
type Dialer struct {
	NetDial     NetDial            // nil: from Options, or a net.Dialer
	TLS         *tls.Config        // nil: from Options, or no TLS
	Credentials Credentials        // called at each dial; nil: from Options, or none
	Timeout     time.Duration      // of a dial with everything in it; 0: only what Options and the context say
	Options     []redis.DialOption // all other settings
}

// Dial makes a connection. Its error does not contain a password that Credentials returned.
func (d Dialer) Dial(ctx context.Context, network, address string) (redis.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	options := d.Options
	var password string
	if d.Credentials != nil {
		user, word, err := d.askCredentials(ctx)
		if err != nil {
			return nil, fmt.Errorf("no credentials for the connection: %w", dialing.Public(err, word))
		}
		password = word
		options = append(options[:len(options):len(options)], redis.DialUsername(user), redis.DialPassword(word))
	}
	conn, err := resp.Dialer{NetDial: d.NetDial, TLS: d.TLS}.DialContext(ctx, network, address, options...)
	if err != nil {
		return nil, dialing.Public(err, password)
	}
	return conn, nil
}

// askCredentials calls Credentials with less time than ctx has, so that its error comes before the
// caller leaves the dial without a reason.
func (d Dialer) askCredentials(ctx context.Context) (user, password string, err error) {
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*9/10)
		defer cancel()
	}
	return d.Credentials(ctx)
}
