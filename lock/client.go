package lock

import (
	crand "crypto/rand"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/network"
	"github.com/wheellock/wheellock/lock/internal/orphans"
	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/internal/several"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// Client takes locks and renews them. Use one Client per process and Redis. All
// methods are safe for concurrent use. A Client must be closed. New and Open
// make one for one server, NewTopology for a master behind Sentinels or for a
// Cluster (packages sentinel and cluster).
//
// Errors say whether Redis refused (ErrNotAcquired, ErrNotHeld, ErrLost) or
// whether the outcome is not known (ErrUnknown).
//
// A server that hangs affects only the locks that live on it.
//
// A request can be lost, sent twice, or arrive late. A request that takes or
// changes something carries a time limit, and the server refuses it when it
// arrives later than its caller could have waited. Three cases are not covered:
// a server's clock that is being set back, a failover to a server whose clock
// is behind, and a Redis user without the right to TIME. A late request may
// then leave a lock that nobody holds until its lease is over.
//
// To shut down, end the work, unlock, and call Close with a deadline; see the
// example of Close. A readiness check is one round trip; see the example of
// Mutex.IsLocked. A liveness check should not ask Redis: the Client connects
// again by itself, and a restart of the process would lose its locks. For
// alerts, watch in Stats that Renewal.Failed and Renewal.Lost do not grow.
type Client struct {
	// immutable after New; each says itself what guards its fields
	cfg      Config
	id       string            // random UUID: the first part of every hash field of this client
	topology topology.Topology // nil of a pool
	traits   topology.Traits   // none of a pool
	counters keys.Counters     // of tokens
	errors   errorMaker
	random   *rand.Rand
	closing  chan struct{} // closed when Close began
	dog      *renewal.Watchdog
	holds    *hold.Keeper
	table    *locktable.Table[*hold.Hold]
	network  network.Network
	orphans  *orphans.Orphans
	telling  *telling
	cast     role.Cast // its goroutines

	owners atomic.Uint64  // the last fresh owner
	closed atomic.Bool    // Close began
	reigns several.Reigns // of its server, as the member of a RedLock

	releasing            sync.Once // what is still held, see Config.ReleaseOnClose
	released, unreleased int       // what that did; written by it alone
}

// New returns a Client of the one server that pool dials, or all faults of its
// arguments. It does no I/O.
//
// The Client has a few long-lived connections of its own: Config.Connections
// for commands, Config.Dispatchers for renewal, one for pub/sub. It dials them
// by the pool's DialContext or Dial when they are first needed, and replaces
// those that fail. It takes no connection out of the pool, because different
// goroutines write to its connections and read from them. Close does not close
// the pool.
//
// See Open for a server by its URL, and NewTopology for several servers.
func New(pool *redis.Pool, cfg Config) (*Client, error) {
	return newClient(cfg, func(commands, renewals int, to *servers.Config) (err error) {
		to.Dial, err = poolDialer(pool, commands, renewals)
		return err
	})
}

// NewTopology is New for a server whose address changes, or for several
// servers. Package sentinel has a Topology for a master behind Sentinels,
// package cluster one for a Redis Cluster. Close does not close what the
// Topology has.
func NewTopology(t topology.Topology, cfg Config) (*Client, error) {
	return newClient(cfg, func(_, _ int, to *servers.Config) error {
		if t == nil {
			return errors.New("lock: NewTopology needs a Topology, got nil: packages sentinel and cluster make one")
		}
		to.Topology = t
		return nil
	})
}

// newClient returns a Client. reach says how the servers are reached, by so many
// connections for commands and for renewal.
func newClient(cfg Config, reach func(commands, renewals int, to *servers.Config) error) (*Client, error) {
	cfg, faults := cfg.withDefaults()
	var to servers.Config
	if err := errors.Join(faults, reach(cfg.Connections+cfg.replicatedConns(), cfg.Dispatchers, &to)); err != nil {
		return nil, err
	}
	dog, err := renewal.New(cfg.renewal())
	if err != nil {
		return nil, fmt.Errorf("lock: bug: settings that were checked are refused: %w", err)
	}
	c := &Client{cfg: cfg, id: newUUID(), dog: dog, closing: make(chan struct{}), random: wait.Random(cfg.Rand)}
	c.telling = newTelling(cfg, c.id, &c.cast)
	to.Lease, to.IOTimeout, to.Connections = cfg.Lease, cfg.IOTimeout, cfg.Connections
	to.Replicas, to.ReplicaTimeout, to.Logger = cfg.Replicas, cfg.ReplicaTimeout, cfg.Logger
	to.Trial, to.Overlap = keys.Channel(cfg.KeyPrefix+"wheellock"), 2*cfg.MaxPoll
	to.Cast, to.Closing = &c.cast, c.closing
	if c.topology = to.Topology; c.topology != nil {
		c.traits = c.topology.Traits()
	}
	c.errors = errorMaker{slots: c.traits.Slots}
	c.counters = keys.CountersOf(cfg.KeyPrefix, c.traits.Slots)
	c.holds, err = hold.New(hold.Config{
		ID: c.id, Lease: cfg.Lease, IOTimeout: cfg.IOTimeout, UnlockTimeout: cfg.UnlockTimeout, MaxPoll: cfg.MaxPoll,
		Replicas: cfg.Replicas, ReadersFirst: cfg.ReadersFirst, FailFast: cfg.FailFast, DropForgotten: cfg.DropForgotten,
		Traits: c.traits, Counters: c.counters, Servers: to, Watchdog: dog, Random: c.random, Closing: c.closing, Closed: ErrClosed,
		Cast: &c.cast, Logger: cfg.Logger, Errors: c.errors, Observer: c.telling,
	})
	if err != nil {
		return nil, err
	}
	c.table, c.network, c.orphans = c.holds.Table, c.holds.Network, c.holds.Orphans
	return c, nil
}

// ID returns the random UUID with which the hash fields of this client's holds
// begin. Every client has its own.
func (c *Client) ID() string { return c.id }

// key is the key in Redis of the object of that name.
func (c *Client) key(name string) string {
	if name == "" { // reported by the first call
		return ""
	}
	return c.cfg.KeyPrefix + name
}

func newUUID() string {
	var b [16]byte
	crand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
