package lockgoredis

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	redigo "github.com/gomodule/redigo/redis"
	"github.com/redis/go-redis/v9/auth"

	"github.com/wheellock/wheellock/lock"
)

// defaultTimeout is the default of go-redis for a dial and for an answer.
const defaultTimeout = 5 * time.Second

// dialling has the settings of a connection. go-redis has three types of options with them.
type dialling struct {
	dialer     func(ctx context.Context, network, addr string) (net.Conn, error)
	tls        *tls.Config
	timeout    time.Duration
	clientName string
	database   int

	streaming      auth.StreamingCredentialsProvider
	withContext    func(ctx context.Context) (string, string, error)
	provider       func() (string, string)
	user, password string
}

// check returns the settings that Redis would refuse at each dial.
func (d dialling) check() error {
	switch {
	case d.database < 0:
		return fmt.Errorf("lockgoredis: DB is %d: it must be a number from 0", d.database)
	case strings.ContainsFunc(d.clientName, func(r rune) bool { return r <= ' ' || r > '~' }):
		return fmt.Errorf("lockgoredis: ClientName is %q: it must have only ASCII characters and no spaces, because Redis refuses others", d.clientName)
	}
	return nil
}

func (d dialling) limit() time.Duration {
	if d.timeout > 0 {
		return d.timeout
	}
	return defaultTimeout
}

// netDial returns the Dialer with its timeout, or nil.
func (d dialling) netDial() func(ctx context.Context, network, addr string) (net.Conn, error) {
	if d.dialer == nil {
		return nil
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, d.limit())
		defer cancel()
		return d.dialer(ctx, network, addr)
	}
}

// config returns the TLSConfig, or nil if there is a Dialer, because a Dialer does TLS itself.
// Every go-redis client of one server has a Dialer, at least the default one.
func (d dialling) config() *tls.Config {
	if d.dialer != nil {
		return nil
	}
	return d.tls
}

// plainHost is a host that a URL can have as it is.
var plainHost = regexp.MustCompile(`^[0-9A-Za-z._-]+$`)

// hostOf returns the address for the URL of an Endpoint, which names the server in the log. It is a stand-in
// for an address that a URL cannot have, because a Dialer may understand that.
func hostOf(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	number, noNumber := strconv.ParseUint(port, 10, 16)
	isIP := net.ParseIP(host) != nil
	if err != nil || noNumber != nil || number == 0 || !isIP && !plainHost.MatchString(host) {
		return "go-redis"
	}
	return net.JoinHostPort(host, port)
}

// endpoint returns the Endpoint of one server.
func (d dialling) endpoint(network, addr string) lock.Endpoint {
	query := url.Values{"db": {strconv.Itoa(d.database)}, "dial_timeout": {d.limit().String()}}
	if d.clientName != "" {
		query.Set("client_name", d.clientName)
	}
	dial := d.dialer
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	e := lock.Endpoint{URL: "redis://" + hostOf(addr) + "?" + query.Encode(), Credentials: d.credentials()}
	e.NetDial = func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx, network, addr) }
	if e.TLS = d.config(); e.TLS != nil {
		e.URL = "rediss" + strings.TrimPrefix(e.URL, "redis")
		if e.TLS.ServerName == "" {
			e.TLS = e.TLS.Clone()
			e.TLS.ServerName, _, _ = net.SplitHostPort(addr) // if that fails, so does the dial
		}
	}
	return e
}

// options returns the settings other than network, TLS and credentials.
func (d dialling) options() []redigo.DialOption {
	return []redigo.DialOption{
		redigo.DialReadTimeout(defaultTimeout), redigo.DialWriteTimeout(defaultTimeout),
		redigo.DialClientName(d.clientName), redigo.DialDatabase(d.database),
	}
}

// credentials returns the first provider in the order of go-redis, or nil if there is none.
func (d dialling) credentials() func(ctx context.Context) (user, password string, err error) {
	switch {
	case d.streaming != nil:
		return (&subscription{provider: d.streaming}).credentials
	case d.withContext != nil:
		return d.withContext
	case d.provider != nil:
		return func(context.Context) (string, string, error) {
			user, password := d.provider()
			return user, password, nil
		}
	case d.password != "":
		return func(context.Context) (string, string, error) { return d.user, d.password, nil }
	}
	return nil
}
