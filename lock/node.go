package lock

import (
	"context"
	"errors"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/renewal"
)

// node is all that belongs to one server: the connections for commands, the
// lane of the holds whose keys live there with its renewal connections, and the
// subscriber. Nodes share nothing, so a server that hangs costs its own locks
// alone. The node of one server is made by New, others when they are first
// heard of; Client.Close closes all.
type node struct {
	// immutable
	c       *Client
	fleet   *fleet // nil if the source is a pool
	server  string // as the fleet names it
	dialer  dialer
	links   []*link // commands; a key always takes the same one
	acker   *acker  // acquisitions that replicas must have; nil without Config.Replicas
	renewer *renewer
	lane    *renewal.Lane
	sub     *subscriber
	ctx     context.Context // ends with the client, or when the node is retired
	cancel  context.CancelFunc

	// atomic
	checked   atomic.Bool   // greet has looked at the server
	unreached atomic.Bool   // the last connection could not be made
	epoch     atomic.Uint32 // counts the servers that the node stood for

	mu       sync.Mutex // guards instance
	instance string     // see Server.Instance; empty at first

	since time.Time // when no Layout named it any more; zero if the last one did; used by fleet.update alone
}

// errReplaced: the node stands for another server now.
var errReplaced = errors.New("the server was replaced")

// newNode returns the node of a server of f, or of the server that c's pool
// dials. It does no I/O.
func newNode(c *Client, f *fleet, server string) (*node, error) {
	n := &node{c: c, fleet: f, server: server, dialer: c.pool}
	n.ctx, n.cancel = context.WithCancel(c.ctx)
	if f != nil {
		n.dialer = f.dialer(server)
	}
	n.renewer = newRenewer(n, c.cfg.IOTimeout, renewConns(c.dog.Config()))
	var err error
	if n.lane, err = c.dog.Lane(server, n.renewer); err != nil {
		n.cancel()
		return nil, err
	}
	n.links = make([]*link, c.cfg.Connections)
	for i := range n.links {
		n.links[i] = newLink(n, c.cfg.IOTimeout)
	}
	if c.cfg.Replicas > 0 {
		n.acker = newAcker(n)
	}
	n.sub = newSubscriber(n)
	return n, nil
}

// connect opens a connection to the server that the node stands for now, and
// says which epoch that is of. Whoever keeps it in a place where replace finds
// it compares the epoch afterwards.
func (n *node) connect(ctx context.Context) (redis.Conn, uint32, error) {
	epoch := n.epoch.Load()
	if n.dialer == nil {
		return nil, epoch, n.fleet.nowhere()
	}
	conn, err := dialing.Dial(ctx, n.dialer)
	n.reached(err)
	if err == nil && n.epoch.Load() != epoch {
		conn.Close()
		conn, err = nil, errReplaced
	}
	return conn, epoch, err
}

// reached warns when there is no connection to the server, once until there is
// one: a Lock whose context has no end would wait for it in silence.
func (n *node) reached(err error) {
	switch {
	case err == nil:
		n.unreached.Store(false)
	case n.ctx.Err() != nil: // closing, which ends dials
	case !n.unreached.Swap(true):
		n.c.cfg.Logger.Warn("lock: no connection to Redis, what waits for it tries on: see that it runs, and at this address",
			"server", n.server, "error", err)
	}
}

// put queues a request whose first argument is its key: requests of one key
// stay in order while their connection lives.
func (n *node) put(r *request) {
	if len(n.links) == 0 {
		r.finish(nil, n.fleet.nowhere())
		return
	}
	if n.acker != nil && acquires(r.script) {
		n.acker.put(r)
		return
	}
	key, _ := r.args[0].(string)
	n.links[maphash.String(n.c.seed, key)%uint64(len(n.links))].put(r)
}

// suspect is told of a connection that failed with err: the source may know
// more.
func (n *node) suspect(err error) {
	if n.fleet != nil && err != ErrClosed && err != errReplaced {
		n.fleet.look()
	}
}

// appear notes which server the node stands for. If it is another one than
// before, nothing that the old one says counts any more, and all holds are
// looked up on the new one.
func (n *node) appear(instance string) {
	n.mu.Lock()
	other := n.instance != "" && n.instance != instance
	n.instance = instance
	n.mu.Unlock()
	if !other {
		return
	}
	n.epoch.Add(1)
	for _, l := range n.links {
		l.drop(errReplaced)
	}
	if n.acker != nil {
		n.acker.replace()
	}
	n.renewer.drop()
	n.sub.drop()
	n.lane.Verify()
}

// resumed is called when renewal has a connection again after it lost one: a
// server of a Topology may have failed over meanwhile, or restarted empty.
func (n *node) resumed() {
	if n.fleet != nil {
		n.lane.Verify()
	}
}

// close ends the node's connections and returns when none of its goroutines
// runs. Its lane is closed. What is asked of it from now on fails with why.
func (n *node) close(why error) {
	n.cancel()
	n.sub.close()
	for _, l := range n.links {
		l.close(why)
	}
	if n.renewer != nil {
		n.renewer.close()
	}
	if n.acker != nil {
		n.acker.close(why)
	}
}

// node returns the node that has key, as far as is known. It is never nil.
func (c *Client) node(key string) *node {
	if c.only != nil {
		return c.only
	}
	return c.fleet.slots[slotOf(key)].Load()
}

// send queues a request at the node that has its key. If no server is known
// yet it waits for that, as long as ctx allows.
func (c *Client) send(ctx context.Context, key string, r *request) {
	n := c.node(key)
	if len(n.links) == 0 {
		c.fleet.await(ctx)
		n = c.node(key)
	}
	n.put(r)
}
