package lock

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// node is all that belongs to one server: the connections for commands, the
// lane of the holds whose keys live there with its renewal connections, and the
// subscriber. Nodes share nothing, so a server that hangs costs its own locks
// alone. The node of one server is made by New, others when they are first
// heard of; Client.Close closes all.
type node struct {
	// immutable
	c          *Client
	fleet      *fleet // nil if the source is a pool
	server     string // as the fleet names it
	dialer     dialer
	pipes      []*pipe.Pipe     // commands; a name always takes the same one
	replicated *pipe.Replicated // acquisitions that replicas must have; nil without Config.Replicas
	lane       *lane            // nil without a server
	sub        *pubsub.Subscriber
	ctx        context.Context // ends with the client, or when the node is retired
	cancel     context.CancelFunc

	// atomic
	checked    atomic.Bool            // greet has looked at the server
	unanswered atomic.Int32           // counts what greet asked and got no answer to
	unreached  atomic.Bool            // the last connection could not be made
	unheard    atomic.Bool            // it has refused to publish
	epoch      atomic.Uint32          // counts the servers that the node stood for
	addr       atomic.Pointer[string] // for the log, see where; nil while it is not known

	mu       sync.Mutex // guards instance
	instance string     // see Server.Instance; empty at first

	since time.Time // when no Layout named it any more; zero if the last one did; used by fleet.update alone
}

// newNode returns the node of a server of f, or of the server that c's pool
// dials. It does no I/O.
func newNode(c *Client, f *fleet, server string) (*node, error) {
	n := &node{c: c, fleet: f, server: server, dialer: c.pool}
	n.ctx, n.cancel = context.WithCancel(c.ctx)
	if f != nil {
		n.dialer = f.dialer(server)
	}
	var err error
	if n.lane, err = newLane(c, n); err != nil {
		n.cancel()
		return nil, err
	}
	cfg := n.pipeConfig()
	n.pipes = make([]*pipe.Pipe, c.cfg.Connections)
	for i := range n.pipes {
		n.pipes[i] = pipe.New(n.ctx, cfg)
	}
	if c.cfg.Replicas > 0 {
		n.replicated = pipe.NewReplicated(n.ctx, cfg, c.cfg.replicatedConns())
	}
	n.sub = n.newSubscriber()
	return n, nil
}

// pipeConfig is what the node's connections for commands get from it.
func (n *node) pipeConfig() *pipe.Config {
	cfg := &pipe.Config{
		Timeout: n.c.cfg.IOTimeout, Server: n.server, Dial: n.open, Epoch: n.epoch.Load, Failed: n.suspect, Unpublished: n.unpublished,
		Replicas: n.c.cfg.Replicas, ReplicaTimeout: n.c.cfg.ReplicaTimeout,
	}
	if n.c.traits.Slots {
		cfg.Redirect = n.redirect
	}
	return cfg
}

// newSubscriber returns the node's connection for pub/sub.
func (n *node) newSubscriber() *pubsub.Subscriber {
	dials := dialing.NewBound(1)
	return pubsub.New(n.ctx, pubsub.Config{
		Timeout: n.c.cfg.IOTimeout, Sharded: n.c.traits.ShardedPubSub, Logger: n.c.cfg.Logger, Server: n.server, Where: n.where, Epoch: n.epoch.Load,
		Dial:     func(ctx context.Context) (redis.Conn, uint32, error) { return n.connect(ctx, dials) },
		Redirect: func(to pipe.Redirection) { n.target(to) },
	})
}

// connect opens a connection to the server that the node stands for now, and
// says which epoch that is of. Whoever keeps it in a place where replace finds
// it compares the epoch afterwards. No more dials than bound says are left
// behind; those to a server that the node stood for before do not count.
func (n *node) connect(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	epoch := n.epoch.Load()
	if n.dialer == nil {
		return nil, epoch, n.fleet.nowhere()
	}
	conn, err := bound.Dial(ctx, epoch, n.dialer)
	n.reached(err)
	if err == nil && n.epoch.Load() != epoch {
		conn.Close()
		conn, err = nil, pipe.ErrReplaced
	}
	return conn, epoch, err
}

// reached is told how a dial ended. It warns when there is no connection to the
// server, once until there is one: a Lock whose context has no end would wait for
// it in silence.
func (n *node) reached(err error) {
	n.noteAddr(err)
	switch {
	case err == nil && n.unreached.Swap(false):
		n.c.cfg.Logger.Info("lock: connected to Redis again", "server", n.where())
	case err == nil:
	case n.ctx.Err() != nil, errors.Is(err, context.Canceled): // it is not the server that has ended the dial
	case !n.unreached.Swap(true):
		n.c.cfg.Logger.Warn("lock: no connection to Redis, what waits for it tries on: see that it runs, and at this address",
			"server", n.where(), "error", err)
	}
}

// where says in the log which server it is. A pool does not tell: there it is
// the address of the last dial that failed.
func (n *node) where() string {
	switch addr := n.addr.Load(); {
	case addr != nil:
		return *addr
	case n.server != "":
		return n.server
	case n.fleet != nil:
		return "not known yet"
	}
	return "the pool's"
}

// noteAddr notes the address that a pool could not dial.
func (n *node) noteAddr(err error) {
	var op *net.OpError
	if n.fleet == nil && errors.As(err, &op) && op.Addr != nil {
		addr := op.Addr.String()
		n.addr.Store(&addr)
	}
}

// unpublished warns of the first message that Redis refused.
func (n *node) unpublished(refusal string) {
	if !n.unheard.Swap(true) {
		n.c.cfg.Logger.Warn("lock: PUBLISH is refused, so waiters are woken only by their polling: "+
			"give the user the right to it and to the channels that README.md lists", "server", n.where(), "error", refusal)
	}
}

// put queues a request: those of one name stay in order while their connection
// lives, whatever keys they have.
func (n *node) put(r *pipe.Request) {
	switch {
	case len(n.pipes) == 0:
		r.Fail(n.fleet.nowhere())
	case n.replicated != nil && r.Acquires():
		n.replicated.Put(r)
	default:
		n.pipes[maphash.String(n.c.seed, r.Key())%uint64(len(n.pipes))].Put(r)
	}
}

// suspect is told of a connection that failed with err: the source may know
// more.
func (n *node) suspect(err error) {
	if n.fleet != nil && err != ErrClosed && err != pipe.ErrReplaced {
		n.fleet.look()
	}
}

// appear notes which server the node stands for. If it is another one than
// before, nothing that the old one says counts any more, and all holds are
// looked up on the new one.
func (n *node) appear(s topology.Server) {
	addr := cmp.Or(s.Name, s.Instance)
	n.mu.Lock()
	other := n.instance != "" && n.instance != s.Instance
	n.instance = s.Instance
	old := n.addr.Swap(&addr)
	n.mu.Unlock()
	if !other {
		return
	}
	n.c.cfg.Logger.Warn("lock: the server was replaced, by a failover or a restart: what is held is looked up on the new one",
		"old", *old, "new", addr)
	n.epoch.Add(1)
	// A connection may take long to close. The others do not wait for it.
	var wg sync.WaitGroup
	for _, p := range n.pipes {
		wg.Go(p.Drop)
	}
	if n.replicated != nil {
		wg.Go(n.replicated.Drop)
	}
	wg.Go(n.sub.Drop)
	n.lane.replaced()
	wg.Wait()
}

// close ends the node's connections and returns when none of its goroutines
// runs. Its lane is closed. What is asked of it from now on fails with why.
func (n *node) close(why error) {
	n.cancel()
	n.sub.Close()
	for _, p := range n.pipes {
		p.Close(why)
	}
	if n.lane != nil {
		n.lane.carrier.Close()
	}
	if n.replicated != nil {
		n.replicated.Close(why)
	}
}

// node returns the node that has key, as far as is known. It is never nil.
func (c *Client) node(key string) *node {
	if c.only != nil {
		return c.only
	}
	return c.fleet.slots[keys.Slot(key)].Load()
}

// send queues a request at the node that has its key. If no server is known
// yet it waits for that, as long as ctx allows.
func (c *Client) send(ctx context.Context, key string, r *pipe.Request) {
	n := c.node(key)
	if len(n.pipes) == 0 {
		c.fleet.await(ctx)
		n = c.node(key)
	}
	n.put(r)
}
