package lock

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// Endpoint says where Redis is and how to dial it. Its Open makes a Client. A
// program that uses another Redis library needs no redigo pool for it.
//
// The fields other than URL are for settings that a URL cannot have. No field may
// be changed after Open, but Credentials and NetDial may return other results at
// each call. Several goroutines call them at once. They should return when their
// context ends.
type Endpoint struct {
	// URL is the address of one server, or of the Sentinels of a master; see
	// Open. For a Cluster, call cluster.Open and then NewTopology.
	URL string

	// TLS is the configuration of connections to a rediss URL, for example with
	// a CA of your own or client certificates. By default the system's CAs are
	// trusted. Without a ServerName, a certificate must be valid for the host that
	// is dialled. With Sentinels, this host is the address that they name, often
	// an IP address.
	TLS *tls.Config

	// Credentials returns user and password, instead of those in the URL. It is
	// called at each dial of a Redis server, so a password may change and a token
	// may expire. Open connections stay logged in. An empty user is the default
	// user. Logs and errors show the error of Credentials.
	Credentials func(ctx context.Context) (user, password string, err error)

	// NetDial connects, for example through a proxy, and returns a connection
	// without TLS. network is "tcp" or "unix". Default net.Dialer.DialContext.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
}

// Open returns a Client for the server at a URL. It is short for
// Endpoint{URL: rawURL}.Open(cfg).
//
//	redis://user:password@host:6379/0
//	rediss://:password@host              TLS
//	unix:///run/redis.sock?db=2
//	redis-sentinel://user:password@host1:26379,host2:26379/0?master=mymaster
//	rediss-sentinel://host1,host2?master=mymaster
//
// A part that is left out has its usual value: no user, no password, localhost,
// port 6379 or 26379, database 0. In a user name or a password, characters other
// than letters, digits and -._~ must be percent-encoded.
//
// Options come after a question mark, with & between them: db; client_name,
// which needs the right to CLIENT SETNAME; dial_timeout, read_timeout and
// write_timeout, for example "500ms", default 5s. dial_timeout limits a dial with
// everything in it, also TLS and the login, but a dial never takes longer than a
// sixth of Config.Lease. The other two limit each answer and each write while a
// connection is made; afterwards Config.IOTimeout applies.
//
// With Sentinels, user and password are those of the Redis servers. For
// Sentinels that ask for a password, there are the options sentinel_user and
// sentinel_password. rediss-sentinel uses TLS for Sentinels and servers.
// Package sentinel says what a failover does to locks.
//
// A client with a URL logs in with the same password as long as it lives. If
// passwords change or tokens expire, use Endpoint.Credentials. Otherwise the
// client cannot replace a connection that was closed, and locks are lost when
// their leases end.
func Open(rawURL string, cfg Config) (*Client, error) { return Endpoint{URL: rawURL}.Open(cfg) }

// Open returns a Client, or an error that says what is wrong with e or cfg. Like
// New, it does no I/O. An error about the URL names the wrong part but does not
// repeat it, because it may have a password. No error and no log has this
// password, or a password that Credentials returns (P20).
func (e Endpoint) Open(cfg Config) (*Client, error) {
	u, err := endpoint.Parse(e.URL)
	if err != nil {
		return nil, fmt.Errorf("lock: Open: %w", err)
	}
	if u.Kind == endpoint.Cluster {
		return nil, errors.New("lock: Open: the URL is that of a Cluster: give it to cluster.Open, and give the Topology that cluster.Open returns to NewTopology")
	}
	to, err := u.Dialer(endpoint.Settings{NetDial: e.NetDial, TLS: e.TLS, Credentials: e.Credentials}, "Endpoint.%s")
	if err != nil {
		return nil, fmt.Errorf("lock: Open: %w", err)
	}
	if u.Kind == endpoint.One {
		return newClient(cfg, func(_, _ int, reach *servers.Config) error {
			reach.Dial = func(ctx context.Context) (redis.Conn, error) { return to.Dial(ctx, u.Network, u.Addrs[0]) }
			reach.DialTimeout, reach.Address = u.Connect, u.Addrs[0]
			return nil
		})
	}
	master, err := sentinel.Open(e.URL, sentinel.Config{NetDial: e.NetDial, TLS: e.TLS, Credentials: e.Credentials})
	if err != nil {
		return nil, fmt.Errorf("lock: Open: %w", err)
	}
	return NewTopology(master, cfg)
}

// Dial takes the place of redis.DialContext in the DialContext of a pool for New.
// It limits how much memory a server's answer may take in this process, as Open
// does. redigo alone believes every length that an answer names. A goroutine that
// is alone in locking and unlocking also writes and reads such a connection by
// itself, which takes a third less CPU. If the server repeats the password, the
// error of Dial does not.
//
// The program may use the pool for commands of its own. An answer to them, or a
// message, may have 16 MiB and 1,048,576 elements, arrays that are six deep, and
// a status or an error of 64 KiB. After a larger one the connection is not usable.
//
// redigo does not show what its options say. So if a dial function or TLS is among
// them (DialContextFunc, DialNetDial, DialUseTLS), Dial returns a connection that
// redigo alone has made, without these advantages; Endpoint has fields for both.
// DialConnectTimeout and DialKeepAlive have no effect: ctx limits the connect, or
// 5 s if ctx has no deadline, and an idle connection is probed every 30 s.
func Dial(ctx context.Context, network, address string, options ...redis.DialOption) (redis.Conn, error) {
	return endpoint.Dialer{Options: options}.Dial(ctx, network, address)
}

// dialer opens a connection. It may block longer than its context; see package dialing.
type dialer = func(context.Context) (redis.Conn, error)

// poolDialer returns the dial function of pool. The engine dials its connections for commands and for
// renewal beside the pool, because they live long, and because one goroutine writes to a connection
// while another one reads from it, which a pooled connection does not allow.
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
