package lock

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/orphans"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// Client takes locks and renews them. Use one Client per process and Redis. All
// methods are safe for concurrent use. A Client must be closed. New and Open
// make a Client for one server. NewTopology makes a Client for a master behind
// Sentinels or for a Cluster (packages sentinel and cluster).
//
// Errors say whether Redis refused (ErrNotAcquired, ErrNotHeld, ErrLost), whether
// the outcome is not known (ErrUnknown), or whether there was no connection
// (ErrNotSent).
//
// A server that hangs affects only the locks that live on it.
//
// A request can be lost, sent twice, or arrive late. A request that takes or
// changes something carries a time limit. If the request arrives later than its
// caller could have waited, the server refuses it. The time limit does not help
// while a server's clock is being set back, after a failover to a server whose
// clock is behind, if the Redis user has no right to TIME, or if servers with
// different clocks answer at one address. The first requests of a connection have
// no time limit if TIME got no answer when it was made, for example because the
// server was busy. The client asks again a second later. In these cases, a late
// request may leave a lock in Redis that nobody holds. Such a lock ends with its
// lease.
//
// To shut down, end the work, unlock, and call Close with a deadline; see the
// example of Close. A readiness check takes one round trip; see the example of
// Mutex.IsLocked. A liveness check should not ask Redis, because the Client
// reconnects by itself and a restart of the process would lose its locks. Raise
// an alert when Stats.Lost grows for NotOwner, TrustEnded or Suspended;
// lock/SERVICE.md has more of them.
type Client struct {
	// immutable after New; each type says what guards its fields
	cfg      Config
	id       string            // the first part of every hash field of this client
	topology topology.Topology // nil for a pool
	traits   topology.Traits   // zero for a pool
	counters keys.Counters     // of tokens
	errors   errorMaker
	random   *rand.Rand
	closing  chan struct{} // closed when Close begins
	watchdog *renewal.Watchdog
	holds    *hold.Engine
	table    *locktable.Table[*hold.Hold]
	network  network.Network
	orphans  *orphans.Orphans
	telling  *telling
	labeler  work.Labeler // names the goroutines of the client in profiles

	owners       atomic.Uint64       // the last fresh owner
	closed       atomic.Bool         // Close has begun
	incarnations quorum.Incarnations // of the client's server; for a RedLock with a member on that server

	gaveUp               atomic.Bool   // a Close has ended its wait for the holders; never false again
	givenUp              chan struct{} // closed when giveUp has ended
	endOfWait            error         // why that Close did; immutable once givenUp is closed
	released, unreleased int           // the numbers of locks that were held then; immutable once givenUp is closed
}

// New returns a Client for the one server that pool dials, or one error with
// all faults of the arguments. It does no I/O.
//
// The Client has a few long-lived connections of its own: Config.Connections
// for commands, Config.Dispatchers for renewal, and one for pub/sub. It dials
// each with the pool's DialContext or Dial when it first needs the connection,
// and replaces a connection that fails. It takes no connection out of the pool,
// because one goroutine writes to a connection while another one reads from it,
// which a pooled connection does not allow. Close does not close the pool.
//
// See Open for a server with a URL, and NewTopology for several servers.
func New(pool *redis.Pool, cfg Config) (*Client, error) {
	return newClient(cfg, func(commands, renewals int, to *servers.Config) (err error) {
		to.Dial, err = poolDialer(pool, commands, renewals)
		return err
	})
}

// NewTopology is New for a server whose address changes, or for several
// servers. Package sentinel has a Topology for a master behind Sentinels.
// Package cluster has a Topology for a Redis Cluster. Close does not close the
// Topology's own connections.
func NewTopology(t topology.Topology, cfg Config) (*Client, error) {
	return newClient(cfg, func(_, _ int, to *servers.Config) error {
		if t == nil {
			return errors.New("lock: NewTopology needs a Topology, got nil: packages sentinel and cluster make one")
		}
		to.Topology = t
		return nil
	})
}

// minProveInterval is the shortest time between two requests on a connection that ask whether its
// server has become a replica.
const minProveInterval = 100 * time.Millisecond

// newClient returns a Client. reach sets how to dial a server, for the given
// numbers of connections for commands and for renewal.
func newClient(cfg Config, reach func(commands, renewals int, to *servers.Config) error) (*Client, error) {
	cfg, faults := cfg.withDefaults()
	var to servers.Config
	if err := errors.Join(faults, reach(cfg.Connections+cfg.replicatedConns(), cfg.Dispatchers, &to)); err != nil {
		return nil, err
	}
	host, _ := os.Hostname() // without one there is no label
	c := &Client{cfg: cfg, id: owner.NewID(cfg.label(host)), closing: make(chan struct{}), givenUp: make(chan struct{}), random: wait.Random(cfg.Rand)}
	logger := record.New(cfg.Logger)
	c.telling = newTelling(cfg, logger, c.id, &c.labeler)
	watchdog, err := renewal.New(cfg.renewal(c.telling))
	if err != nil {
		return nil, fmt.Errorf("lock: bug: package renewal refuses settings that were checked: %w", err)
	}
	c.watchdog = watchdog
	to.Lease, to.IOTimeout, to.Connections = cfg.Lease, cfg.IOTimeout, cfg.Connections
	to.CheckMasterEvery = max(cfg.MaxPoll/2, minProveInterval)
	if to.Topology != nil {
		to.DialTimeout = to.Topology.Traits().DialTimeout
	}
	if to.DialTimeout <= 0 {
		to.DialTimeout = endpoint.DialTimeout
	}
	to.DialTimeout = min(to.DialTimeout, cfg.Lease/6) // so that a renewal can try more than once
	to.Replicas, to.ReplicaTimeout, to.Logger = cfg.Replicas, cfg.ReplicaTimeout, logger
	to.Trial, to.Overlap = keys.Channel(cfg.KeyPrefix+"wheellock"), 2*cfg.MaxPoll
	to.Labeler, to.Closing, to.Random = &c.labeler, c.closing, c.random
	if c.topology = to.Topology; c.topology != nil {
		c.traits = c.topology.Traits()
	}
	c.errors = errorMaker{slots: c.traits.Slots}
	c.counters = keys.CountersOf(cfg.KeyPrefix, c.traits.Slots)
	c.holds, err = hold.New(hold.Config{
		ID: c.id, Lease: cfg.Lease, IOTimeout: cfg.IOTimeout, UnlockTimeout: cfg.UnlockTimeout, MaxPoll: cfg.MaxPoll,
		Replicas: cfg.Replicas, ReadersFirst: cfg.ReadersFirst, FailFast: cfg.FailFast, DropForgotten: cfg.DropForgotten,
		Traits: c.traits, Counters: c.counters, Servers: to, Watchdog: watchdog, Random: c.random, Closing: c.closing, Closed: ErrClosed,
		Labeler: &c.labeler, Logger: logger, Errors: c.errors, Advice: adviceOn, Observer: c.telling,
	})
	if err != nil {
		return nil, err
	}
	c.table, c.network, c.orphans = c.holds.Table, c.holds.Network, c.holds.Orphans
	return c, nil
}

// ID returns the client's id, which has 36 characters. The hash fields of this
// client's holds begin with the id. Every client has an id of its own. The id is
// random and ends in an @ and Config.Label. Without a label, the id is a UUID.
func (c *Client) ID() string { return c.id }

// CheckName returns the error with which all calls for a lock of that name fail: if the
// name is empty or too long, or if a Cluster cannot have it. Config.KeyPrefix counts.
// It does no I/O, so a program can check names that come from its users.
func (c *Client) CheckName(name string) error { return c.checkName(c.key(name)) }

// key is the key in Redis of the object of that name.
func (c *Client) key(name string) string {
	if name == "" { // reported by the first call
		return ""
	}
	return c.cfg.KeyPrefix + name
}
