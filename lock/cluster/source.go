package cluster

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/topology"
)

// dialsOut is how many dials of questions to one node may still run after their context
// has ended, because the dial function does not heed it.
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
	// Credentials is called at each dial, so a password may change and a token may
	// expire. An empty user means the default user.
	Credentials func(ctx context.Context) (user, password string, err error)
	// DialTimeout limits a dial with everything in it. Default 5 s, and never more
	// than a sixth of the Client's lease. Open takes it from the URL.
	DialTimeout time.Duration
}

// dials reports whether o replaces settings for dialling.
func (o Options) dials() bool { return o.NetDial != nil || o.TLS != nil || o.Credentials != nil }

// Topology is a Redis Cluster. Give it to lock.NewTopology. It has no goroutine and
// no connection of its own, so it has no Close. The program that made the
// redisc.Cluster closes the redisc.Cluster. All methods are safe for concurrent use,
// and several Clients may share a Topology.
type Topology struct {
	cluster *redisc.Cluster // immutable
	options Options         // immutable
	pool    createPool      // the caller's CreatePool, or nil; immutable
	to      endpoint.Dialer // how nodes are dialled if pool is nil; immutable
	dials   *dialing.Bound  // bounds the dials of questions to each node; immutable

	mu    sync.Mutex // guards nodes; never held during I/O
	nodes []string   // all nodes of the last slot tables
}

// createPool is the type of a redisc.Cluster's CreatePool.
type createPool = func(addr string, options ...redis.DialOption) (*redis.Pool, error)

var _ topology.Topology = (*Topology)(nil)

// ErrNoTable is returned when no node answers with a slot table.
var ErrNoTable = errors.New("cluster: no node has told its slot table")

// New returns a Topology of the nodes of c, or all faults of its arguments. It
// does no I/O. The Client dials its own connections with c's DialOptions. If c has
// a CreatePool, the Client dials as the pools of CreatePool do. NetDial, TLS and
// Credentials of o replace the DialOptions of the same purpose. lock.Dial says
// which options cost something or have no effect. c must not be changed afterwards.
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
	if o.DialTimeout < 0 {
		errs = append(errs, fmt.Errorf("cluster: Options.DialTimeout is %v: it must not be below 0", o.DialTimeout))
	}
	if o.dials() && c.CreatePool != nil {
		errs = append(errs, errors.New("cluster: Options.NetDial, TLS and Credentials have no effect on the redisc.Cluster's CreatePool: "+
			"set them there, or leave CreatePool out"))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	t := &Topology{cluster: c, pool: c.CreatePool, options: o, dials: dialing.NewBound(dialsOut)}
	t.to = endpoint.Dialer{NetDial: o.NetDial, TLS: o.TLS, Credentials: o.Credentials, Timeout: cmp.Or(o.DialTimeout, endpoint.DialTimeout), Options: c.DialOptions}
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
// follow, as in a URL of lock.Open. Like New, Open does no I/O. An error about the
// URL does not repeat the URL, because the URL may have a password.
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
	if o.DialTimeout != 0 {
		return nil, errors.New("cluster: Open: Options.DialTimeout must be 0: write dial_timeout in the URL")
	}
	o.DialTimeout = u.Connect
	nodes := dialledBy(to, &redisc.Cluster{StartupNodes: u.Addrs})
	return &Topology{cluster: nodes, options: o, to: to, dials: dialing.NewBound(dialsOut)}, nil
}

// dialledBy returns a copy of c for GetContext, whose connections are made by to. redisc has
// no dial function, so the copy gets pools that keep no connection.
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
// redirections. The caller closes the connection. redisc finds the node by the
// first key of the first command, and does not heed ctx. If the Topology dials for
// redisc, because of Open or of NetDial, TLS or Credentials, Options.DialTimeout limits
// each dial, and the program's own commands have the limits of lock.Dial: an answer may
// have 16 MiB and 1,048,576 elements. Otherwise redisc's own limits apply.
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
	return topology.Traits{Slots: true, PubSub: s.options.PubSub, DialTimeout: s.options.DialTimeout}
}

// Dial implements topology.Topology. server is the address of a node.
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
	// A connection of the pool would go back to it. Only the pool's dial function
	// is needed.
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
