package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/endpoint"
	"github.com/wheellock/wheellock/lock/topology"
)

// dialsOut is how many dials that ask one node may be left behind, where the dial
// function does not heed its context.
const dialsOut = 2

// Options are settings that a redisc.Cluster does not have. The zero Options work.
type Options struct {
	// PubSub says how releases are published. The default, topology.PubSubAuto,
	// chooses by the version of each master.
	PubSub topology.PubSub
	// NetDial connects to nodes, as net.Dialer.DialContext does.
	NetDial func(ctx context.Context, network, address string) (net.Conn, error)
	// TLS is the TLS configuration of connections. Without a ServerName a node's
	// certificate must be valid for the address by which the Cluster knows it.
	TLS *tls.Config
	// Credentials are asked for at each dial, so a password may change and a
	// token may expire. An empty user is the default one.
	Credentials func(ctx context.Context) (user, password string, err error)
}

// dials reports whether o says how nodes are dialled.
func (o Options) dials() bool { return o.NetDial != nil || o.TLS != nil || o.Credentials != nil }

// Topology is a Redis Cluster, to be given to lock.NewTopology. It has no goroutine
// and no connection of its own, so it needs no Close. The program that made the
// redisc.Cluster closes that. All methods are safe for concurrent use, and several
// Clients may share a Topology.
type Topology struct {
	cluster *redisc.Cluster // immutable
	options Options         // immutable
	pool    createPool      // of the caller; nil if there is none; immutable
	to      endpoint.Dialer // how nodes are dialled if pool is nil; immutable
	dials   *dialing.Bound  // to ask each node; immutable

	mu    sync.Mutex // guards what follows; never held during I/O
	nodes []string   // all that the last slot table named
}

// createPool is a redisc.Cluster's CreatePool.
type createPool = func(addr string, options ...redis.DialOption) (*redis.Pool, error)

var _ topology.Topology = (*Topology)(nil)

// ErrNoTable is returned when no node answers which node has which slots.
var ErrNoTable = errors.New("cluster: no node has told its slot table")

// New returns a Topology of the nodes of c, or all faults of its arguments. It
// does no I/O. The engine dials connections of its own with c's DialOptions or,
// if there is a CreatePool, as the pools that that makes would. What o says of
// dialling replaces what the DialOptions say. c must not be changed afterwards.
//
// Open needs only a URL.
func New(c *redisc.Cluster, o Options) (*Topology, error) {
	if c == nil {
		return nil, errors.New("cluster: New needs a *redisc.Cluster, got nil")
	}
	var errs []error
	if len(c.StartupNodes) == 0 {
		errs = append(errs, errors.New("cluster: the redisc.Cluster has no StartupNodes: list the addresses of some nodes"))
	}
	for _, addr := range c.StartupNodes {
		if err := dialing.CheckAddr(addr); err != nil {
			errs = append(errs, fmt.Errorf("cluster: StartupNodes: %w", err))
		}
	}
	if o.PubSub > topology.PubSubSharded {
		errs = append(errs, errPubSub(o))
	}
	if o.dials() && c.CreatePool != nil {
		errs = append(errs, errors.New("cluster: Options.NetDial, TLS and Credentials have no effect on the redisc.Cluster's CreatePool: "+
			"set them there, or leave CreatePool out"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	t := &Topology{cluster: c, pool: c.CreatePool, options: o, dials: dialing.NewBound(dialsOut)}
	t.to = endpoint.Dialer{NetDial: o.NetDial, TLS: o.TLS, Credentials: o.Credentials, Options: c.DialOptions}
	if o.dials() {
		t.cluster = dialledBy(t.to, c)
	}
	return t, nil
}

// Open returns a Topology of the Cluster at a URL that names some of its nodes:
//
//	redis-cluster://user:password@host1:6379,host2:6379
//	rediss-cluster://host1,host2          TLS
//
// The options client_name, dial_timeout, read_timeout and write_timeout may
// follow, as lock.Open has them. Like New, Open does no I/O. An error about the
// URL does not repeat it, because there may be a password in it.
func Open(rawURL string, o Options) (*Topology, error) {
	u, err := endpoint.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("cluster: Open: %w", err)
	}
	if u.Kind != endpoint.Cluster {
		return nil, errors.New("cluster: Open: the URL is not that of a Cluster: write redis-cluster:// or rediss-cluster://, or use lock.Open")
	}
	to, err := u.Dialer(endpoint.Settings{NetDial: o.NetDial, TLS: o.TLS, Credentials: o.Credentials}, "Options.%s")
	if err != nil {
		return nil, fmt.Errorf("cluster: Open: %w", err)
	}
	if o.PubSub > topology.PubSubSharded {
		return nil, errPubSub(o)
	}
	nodes := dialledBy(to, &redisc.Cluster{StartupNodes: u.Addrs})
	return &Topology{cluster: nodes, options: o, to: to, dials: dialing.NewBound(dialsOut)}, nil
}

// dialledBy returns a copy of c whose connections, which are those of GetContext, are made by
// to. redisc knows no dial function, so it gets pools that keep no connection.
func dialledBy(to endpoint.Dialer, c *redisc.Cluster) *redisc.Cluster {
	return &redisc.Cluster{
		StartupNodes: c.StartupNodes, BgError: c.BgError, LayoutRefresh: c.LayoutRefresh,
		CreatePool: func(addr string, _ ...redis.DialOption) (*redis.Pool, error) {
			return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) { return to.Dial(ctx, "tcp", addr) }}, nil
		},
	}
}

func errPubSub(o Options) error {
	return fmt.Errorf("cluster: Options.PubSub is %d: it must be one of topology.PubSub", o.PubSub)
}

// GetContext returns a connection of the redisc.Cluster that follows
// redirections; the caller closes it. redisc finds the node by the first key of
// the first command, and does not heed ctx.
func (s *Topology) GetContext(ctx context.Context) (redis.Conn, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	conn := s.cluster.Get()
	if err := conn.Err(); err != nil {
		return nil, fmt.Errorf("cluster: %w", dialing.Public(err))
	}
	retry, err := redisc.RetryConn(conn, retries, retryPause)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("cluster: %w", err)
	}
	return retry, nil
}

// Traits implements topology.Topology.
func (s *Topology) Traits() topology.Traits {
	return topology.Traits{Slots: true, PubSub: s.options.PubSub}
}

// Dial implements topology.Topology: server is the node's address.
func (s *Topology) Dial(ctx context.Context, server string) (redis.Conn, error) {
	conn, err := s.dial(ctx, server)
	if err != nil {
		return nil, fmt.Errorf("cluster: %s: %w", server, dialing.Public(err))
	}
	return conn, nil
}

func (s *Topology) dial(ctx context.Context, server string) (redis.Conn, error) {
	if s.pool == nil {
		return s.to.Dial(ctx, "tcp", server)
	}
	// Its pools would lend us a connection; what is wanted is how they dial.
	pool, err := s.pool(server, s.cluster.DialOptions...)
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	switch {
	case pool.DialContext != nil:
		return pool.DialContext(ctx)
	case pool.Dial != nil:
		return pool.Dial()
	}
	return nil, errors.New("the pool of CreatePool has no Dial function")
}
