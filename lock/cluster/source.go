package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/resp"
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
}

// Topology is a Redis Cluster, to be given to lock.NewTopology. It has no goroutine
// and no connection of its own, so it needs no Close. The program that made the
// redisc.Cluster closes that. All methods are safe for concurrent use, and several
// Clients may share a Topology.
type Topology struct {
	cluster *redisc.Cluster // immutable
	options Options         // immutable
	dials   *dialing.Bound  // to ask each node; immutable

	mu    sync.Mutex // guards what follows; never held during I/O
	nodes []string   // all that the last slot table named
}

var _ topology.Topology = (*Topology)(nil)

// ErrNoTable is returned when no node answers which node has which slots.
var ErrNoTable = errors.New("cluster: no node has told its slot table")

// New returns a Topology of the nodes of c, or all faults of its arguments. It
// does no I/O. The engine dials connections of its own with c's DialOptions or,
// if there is a CreatePool, as the pools that that makes would. c must not be
// changed afterwards.
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
		errs = append(errs, fmt.Errorf("cluster: Options.PubSub is %d: it must be one of topology.PubSub", o.PubSub))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return &Topology{cluster: c, options: o, dials: dialing.NewBound(dialsOut)}, nil
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
	if s.cluster.CreatePool == nil {
		return resp.DialContext(ctx, "tcp", server, s.cluster.DialOptions...)
	}
	// Its pools would lend us a connection; what is wanted is how they dial.
	pool, err := s.cluster.CreatePool(server, s.cluster.DialOptions...)
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
