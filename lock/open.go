package lock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/resp"
)

// Open returns a Client of the one server at a URL. A program that uses another
// Redis library needs no redigo pool for it.
//
//	redis://user:password@host:6379/0
//	rediss://:password@host              TLS; the certificate must be that of the host
//	unix:///run/redis.sock?db=2
//
// What is left out has its usual value: no user, no password, localhost, port
// 6379, database 0. Options come after a question mark: db; dial_timeout,
// read_timeout and write_timeout, for example "500ms", default 5s. These
// timeouts apply only while a connection is made; afterwards Config.IOTimeout
// applies. In a user name or a password, characters other than letters, digits
// and -._~ are percent-encoded.
//
// Like New, Open does no I/O. An error about the URL names the part that is
// wrong and never contains the password; other errors are those of New. To use
// a TLS certificate of your own, call New with a pool whose DialContext uses
// it.
//
// Open logs in with what the URL says, for as long as the client lives. It cannot
// follow a password that is changed or a token that expires: connections that are
// there go on, those for renewal are dialled with the first hold, but when they
// are closed, no other can be made, and locks are lost when their leases end. Nor
// has a URL a place for a CA, a client certificate, or a client name. For these
// call New with a pool whose DialContext asks for the password at each dial.
func Open(rawURL string, cfg Config) (*Client, error) {
	s, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	return New(&redis.Pool{DialContext: s.dial}, cfg)
}

// server is what a URL says.
type server struct {
	network, address   string
	username, password string
	database           int
	tls                bool
	connect            time.Duration // the timeouts
	read, write        time.Duration
}

func (s *server) dial(ctx context.Context) (redis.Conn, error) {
	conn, err := resp.DialContext(ctx, s.network, s.address,
		redis.DialUsername(s.username), redis.DialPassword(s.password), redis.DialDatabase(s.database), redis.DialUseTLS(s.tls),
		redis.DialConnectTimeout(s.connect), redis.DialTLSHandshakeTimeout(s.connect),
		redis.DialReadTimeout(s.read), redis.DialWriteTimeout(s.write))
	if err != nil {
		return nil, dialing.Public(err, s.password)
	}
	return conn, nil
}

// parseURL reads a URL. Its errors quote nothing that may be a password.
func parseURL(rawURL string) (*server, error) {
	const timeout = 5 * time.Second
	s := &server{connect: timeout, read: timeout, write: timeout}
	u, err := url.Parse(rawURL)
	switch {
	case err != nil:
		return nil, fmt.Errorf("lock: Open: the URL cannot be read: it must be like redis://user:password@host:6379/0, " +
			"with a number as port, and with all but letters, digits and -._~ of user and password percent-encoded")
	case u.Scheme == "redis", u.Scheme == "rediss", u.Scheme == "unix":
	default:
		return nil, fmt.Errorf("lock: Open: the URL's scheme is %q: it must begin with redis://, rediss:// or unix://", u.Scheme)
	}
	// An @ behind the host is the end of a password with a / or ? in it, and what is read
	// as host, database or option is a part of that password.
	if _, rest, _ := strings.Cut(rawURL, "://"); strings.Contains(rest[min(strings.IndexAny(rest+"/", "/?#"), len(rest)):], "@") {
		return nil, fmt.Errorf("lock: Open: the URL has an @ behind its host: in user and password, percent-encode " +
			"all but letters, digits and -._~, for example / as %%2F, ? as %%3F and @ as %%40")
	}
	if strings.Contains(u.Host, ",") {
		return nil, fmt.Errorf("lock: Open: the URL has several hosts: packages lock/sentinel and lock/cluster take them, and NewTopology what those make")
	}
	if u.Opaque != "" {
		return nil, fmt.Errorf("lock: Open: the URL must begin with %s://", u.Scheme)
	}
	if u.Fragment != "" {
		return nil, fmt.Errorf("lock: Open: the URL has a fragment, which means nothing here: write # as %%23")
	}
	s.username = u.User.Username()
	password, given := u.User.Password()
	if s.password = password; s.username != "" && password == "" {
		return nil, fmt.Errorf("lock: Open: the URL has a user without a password: it must be user:password@, or :password@ for the default user")
	} else if given && password == "" {
		return nil, fmt.Errorf("lock: Open: the URL's password is empty: leave :@ out, or write :password@")
	}
	database := ""
	if u.Scheme == "unix" {
		s.network, s.address = "unix", u.Path
		if u.Host != "" || u.Path == "" {
			return nil, fmt.Errorf("lock: Open: the URL's path is not that of a socket: it must be like unix:///run/redis.sock, with three slashes")
		}
	} else {
		port := u.Port()
		if n, err := strconv.Atoi(port); port != "" && (err != nil || n < 1 || n > 65535) {
			return nil, fmt.Errorf("lock: Open: the URL's port is %q: it must be from 1 to 65535", port)
		}
		s.network, s.tls = "tcp", u.Scheme == "rediss"
		s.address = net.JoinHostPort(cmp.Or(u.Hostname(), "localhost"), cmp.Or(port, "6379"))
		if len(u.Path) > 1 {
			database = u.Path[1:]
		}
	}
	options, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, fmt.Errorf("lock: Open: the URL's options, behind the question mark, cannot be read: %w", err)
	}
	for name, values := range options {
		into := map[string]*time.Duration{"dial_timeout": &s.connect, "read_timeout": &s.read, "write_timeout": &s.write}[name]
		value := values[len(values)-1]
		switch {
		case len(values) > 1 || name == "db" && database != "":
			return nil, fmt.Errorf("lock: Open: the URL has the option %q more than once", name)
		case name == "db":
			database = value
		case into == nil:
			return nil, fmt.Errorf("lock: Open: the URL's option %q is not known: db, dial_timeout, read_timeout and write_timeout are", name)
		default:
			if *into, err = time.ParseDuration(value); err != nil || *into <= 0 {
				return nil, fmt.Errorf("lock: Open: the URL's %s is %q: it must be a time above 0, like 500ms or 5s", name, value)
			}
		}
	}
	if database != "" {
		if s.database, err = strconv.Atoi(database); err != nil || s.database < 0 {
			return nil, fmt.Errorf("lock: Open: the URL's database is %q: it must be a number from 0", database)
		}
	}
	return s, nil
}

// dialer opens a connection; it may block past its context, see package dialing.
type dialer = func(context.Context) (redis.Conn, error)

// poolDialer returns how pool dials. The engine's connections, so many for commands
// and for renewal, live long and are written and read by different goroutines, which a
// pooled connection does not allow, so they are dialled beside the pool.
func poolDialer(pool *redis.Pool, commands, renewals int) (dialer, error) {
	need := commands + renewals + 1
	if pool != nil && pool.MaxActive > 0 && pool.MaxActive < need {
		return nil, fmt.Errorf("lock: the pool's MaxActive is %d: the engine needs %d connections "+
			"(commands %d, renewal %d, a subscriber)", pool.MaxActive, need, commands, renewals)
	}
	switch {
	case pool == nil:
		return nil, errors.New("lock: New needs a *redis.Pool, got nil")
	case pool.DialContext != nil:
		return pool.DialContext, nil
	case pool.Dial != nil:
		dial := pool.Dial
		return func(context.Context) (redis.Conn, error) { return dial() }, nil
	}
	return nil, errors.New("lock: the pool has no Dial function: set redis.Pool.DialContext or Dial")
}
