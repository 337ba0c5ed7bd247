package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/lock/topology"
	"github.com/wheellock/wheellock/renewal"
)

// Client takes and renews locks. All methods are safe for concurrent use. A Client
// must be closed.
type Client struct {
	// immutable after New
	cfg      Config
	id       string // random UUID: the first part of every hash field of this client
	dog      *renewal.Watchdog
	topology topology.Topology // nil of a pool
	router   *servers.Router
	scripts  scripts
	orphans  *orphans
	ctx      context.Context // ends when Close gives up waiting
	cancel   context.CancelFunc

	// atomic
	owners atomic.Uint64 // the last fresh owner
	seqs   atomic.Uint64 // the last seq: one for every outermost attempt
	tries  atomic.Uint64 // acquire scripts sent
	fair   atomic.Int64  // waiters at fair mutexes

	releasing            sync.Once // releaseAll
	released, unreleased int       // what that did; written by it alone

	closed  atomic.Bool    // Close began
	closing chan struct{}  // closed when it did
	wg      sync.WaitGroup // what releaseUnclaimed started
	lost    backlog[loss]  // holds that are lost, to be taken out of the tables
	events  backlog[Event] // for the Lost hook

	tables tables
}

// New returns a Client of the one server that pool dials, or all faults of its
// arguments. It does no I/O: the engine dials a few long-lived connections of
// its own (Config.Connections for commands, Config.Dispatchers for
// renewal, one for pub/sub) by the pool's DialContext or Dial when they are first
// needed, and replaces those that fail. It takes no connection out of the pool, because
// its connections live long and different goroutines write and read them. Close does
// not close the pool.
//
// See Open for a server by its URL, and NewTopology for several servers.
func New(pool *redis.Pool, cfg Config) (*Client, error) {
	return newClient(cfg, func(commands, renewals int, to *servers.Config) (err error) {
		to.Dial, err = poolDialer(pool, commands, renewals)
		return err
	})
}

// NewTopology is New for a server whose address changes, or for several servers:
// package sentinel has a Topology of those, and package cluster. Close does not close
// what the Topology has.
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
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	dog, err := renewal.New(cfg.renewal())
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	c := &Client{
		cfg: cfg, id: newUUID(), dog: dog, closing: make(chan struct{}),
	}
	c.tables.init(c, c.releaseUnclaimed)
	c.lost.init(c.forgetLoss)
	c.events.init(c.callLost)
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.orphans = newOrphans(&c.scripts, cfg)
	to := servers.Config{
		Lease: cfg.Lease, IOTimeout: cfg.IOTimeout, Connections: cfg.Connections,
		Replicas: cfg.Replicas, ReplicaTimeout: cfg.ReplicaTimeout, Logger: cfg.Logger,
		Closing: c.closing, Moved: c.relocate,
		Opened: func(s *servers.Server) (servers.Attachment, error) { return newLane(c, s) },
	}
	if err := reach(cfg.Connections+cfg.replicatedConns(), dog.Config().Dispatchers, &to); err != nil {
		return nil, err
	}
	c.scripts.ioTimeout = cfg.IOTimeout
	if c.topology = to.Topology; c.topology != nil {
		c.scripts.traits = c.topology.Traits()
		if c.scripts.traits.Slots {
			c.tables.place = c.place
		}
	}
	if c.router, err = servers.New(to); err != nil {
		return nil, err
	}
	c.scripts.router = c.router
	return c, nil
}

// ID returns the random UUID that begins the hash fields of this client's
// holds. Another client's holds have another.
func (c *Client) ID() string { return c.id }

// Mutex returns the re-entrant lock of that name, Redisson's RLock. It does no
// I/O and keeps nothing, so it may be called for every use. A bad name is
// reported by the first call that uses it.
func (c *Client) Mutex(name string) *Mutex {
	if name != "" { // an empty one is reported by the first call
		name = c.cfg.KeyPrefix + name
	}
	return &Mutex{c: c, name: name}
}

// Stats returns a snapshot of what the client holds and of its watchdog.
func (c *Client) Stats() Stats {
	c.lost.drain() // whoever was told of a loss does not find it among the held
	held, waiting := c.tables.counts()
	return Stats{Held: held, Waiting: int(c.fair.Load()) + waiting, Tries: c.tries.Load(), Renewal: c.dog.Stats()}
}

// Stats is a snapshot of a Client.
type Stats struct {
	Held    int           // locks held now
	Waiting int           // calls of Lock and LockFor that wait in a queue
	Tries   uint64        // acquire scripts sent
	Renewal renewal.Stats // its Leases are those of Held
}

// Close refuses new locks, wakes waiters with ErrClosed, tells every holder by
// its Done and Context (reason Closed) and then waits for their Unlocks until
// ctx ends, renewing meanwhile. Locks that are still held then are left to
// their TTL, or released if Config.ReleaseOnClose says so, which takes at most
// Config.UnlockTimeout more; Close returns ctx.Err() if there were any, or if calls
// were still under way. The error says how many, and what became of them. When
// Close returns, no goroutine of the client runs, except a dial that was under way:
// Close cancels its context and does not wait for it. So redis.DialContext ends at
// once, but in a TLS handshake when that ends; a dial function without a context
// ends by its own timeouts. Close may be called twice and from many goroutines.
func (c *Client) Close(ctx context.Context) error {
	if !c.closed.Swap(true) {
		close(c.closing)
		for i := range c.tables.shards {
			for _, h := range c.tables.shards[i].close() {
				h.announceClose()
			}
		}
	}
	var err error
	select {
	case <-c.tables.idle:
	default:
		select {
		case <-c.tables.idle:
		case <-ctx.Done():
			err = c.endHeld(ctx.Err())
		}
	}
	c.dog.Close()
	c.orphans.close(ctx)
	c.cancel()
	c.router.Close(ErrClosed)
	c.wg.Wait()
	c.lost.drain()
	c.events.drain()
	return err
}

// endHeld releases what is still held, if Config.ReleaseOnClose says so, and returns what
// Close says of it. why ended the wait.
func (c *Client) endHeld(why error) error {
	held, fate, hint := c.Stats().Held, ", which are left to their TTL", ", give Close more time, or set Config.ReleaseOnClose"
	if c.cfg.ReleaseOnClose {
		// Another Close waits for it, and does not end the client meanwhile.
		c.releasing.Do(c.releaseAll)
		held = c.released + c.unreleased
		fate = fmt.Sprintf(": %d were released, %d are left to their TTL", c.released, c.unreleased)
		hint = ", or give Close more time"
	}
	if held == 0 {
		return fmt.Errorf("lock: closed with no lock held, but while calls were under way: %w: give Close more time", why)
	}
	return fmt.Errorf("lock: closed with %d locks held%s: %w: unlock when Held.Done is closed%s", held, fate, why, hint)
}

// releaseAll releases what is still held, for Config.ReleaseOnClose. What is just being
// unlocked is not its own.
func (c *Client) releaseAll() {
	holds := c.tables.all()
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.UnlockTimeout)
	defer cancel()
	var wg sync.WaitGroup
	var unreleased atomic.Int64
	limit := make(chan struct{}, 128)
	for _, h := range holds {
		if !h.lease.Release() {
			continue
		}
		c.released++
		limit <- struct{}{}
		wg.Go(func() {
			cmd := h.kind.rules().release(&c.scripts, h.name, h.field(), 0, c.cfg.Lease)
			if a := c.scripts.callKeys(ctx, h.name, cmd.script, cmd.keys, nil, cmd.args...); a.Err != nil {
				unreleased.Add(1)
			}
			h.Lost(renewal.Closed)
			<-limit
		})
	}
	wg.Wait()
	c.unreleased = int(unreleased.Load())
	c.released -= c.unreleased
}

// ended reports whether Close has begun.
func (c *Client) ended() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}

func newUUID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	b[6] = b[6]&0x0f | 0x40
	b[8] = b[8]&0x3f | 0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[0:4], b[4:6], b[6:8], b[8:10], b[10:])
}
