package endpoint

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Credentials returns a user, which may be empty, and a password for one connection.
type Credentials = func(ctx context.Context) (user, password string, err error)

// NetDial connects, as net.Dialer.DialContext does.
type NetDial = func(ctx context.Context, network, address string) (net.Conn, error)

// Dialer says how a connection is made.
type Dialer struct {
	NetDial     NetDial       // nil: from Options, or a net.Dialer
	TLS         *tls.Config   // nil: from Options, or no TLS
	Credentials Credentials   // called at each dial; nil: from Options, or none
	Timeout     time.Duration // of a dial as a whole, with Credentials and login; 0: only Options and the context limit it

	// Options are options of redigo that a program gives. The fields above are used instead of the
	// options with the same meaning. With Options, the fields below are not used.
	Options []redis.DialOption

	ClientName  string
	Database    int
	Read, Write time.Duration // the limits of each answer and each write; 0: no limit
}

// Dial makes a connection. Its error does not contain a password that Credentials returned.
func (d Dialer) Dial(ctx context.Context, network, address string) (redis.Conn, error) {
	if d.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, d.Timeout)
		defer cancel()
	}
	login := resp.Login{ClientName: d.ClientName, Database: d.Database}
	if d.Credentials != nil {
		user, word, err := d.askCredentials(ctx)
		if err == nil && user != "" && word == "" { // else there would be no AUTH, and all would be done as the default user
			err = fmt.Errorf("Credentials returned the user %q without a password: return one, or no user", user)
		}
		if err != nil {
			return nil, fmt.Errorf("no credentials for the connection: %w", dialing.Public(err, word))
		}
		login.User, login.Password = user, word
	}
	conn, err := d.dial(ctx, network, address, login)
	if err != nil {
		return nil, dialing.Public(err, login.Password)
	}
	return conn, nil
}

func (d Dialer) dial(ctx context.Context, network, address string, login resp.Login) (redis.Conn, error) {
	to := resp.Dialer{NetDial: d.NetDial, TLS: d.TLS}
	if len(d.Options) == 0 {
		return to.Dial(ctx, network, address, login, redis.DialReadTimeout(d.Read), redis.DialWriteTimeout(d.Write))
	}
	options := slices.Clip(d.Options)
	if d.Credentials != nil {
		options = append(options, redis.DialUsername(login.User), redis.DialPassword(login.Password))
	}
	return to.DialOptions(ctx, network, address, options...)
}

// askCredentials calls Credentials with less time than ctx has. So if Credentials takes too long, Dial
// returns an error that says so, before ctx ends and the caller leaves without a reason.
func (d Dialer) askCredentials(ctx context.Context) (user, password string, err error) {
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(end)*9/10)
		defer cancel()
	}
	return d.Credentials(ctx)
}
