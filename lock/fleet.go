package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// fleet is the servers of a Topology: which node has which slot, and the
// goroutine that follows changes. A Client of a pool has none.
type fleet struct {
	// immutable
	c      *Client
	source topology.Topology
	period time.Duration
	nobody *node         // has the slots of which no server is known; it has no connections
	heard  chan struct{} // closed at the first update, good or not
	hint   chan struct{} // of capacity 1, for Topology.Follow
	start  sync.Once     // of Follow, at the first request
	wg     sync.WaitGroup

	// atomic
	slots *[keys.Slots]atomic.Pointer[node] // nil without slots; nobody, then the last known node of each
	why   atomic.Pointer[error]             // nothing was found out; the last such error
	dirty atomic.Bool                       // slots has changed and the holds have not been looked through

	found bool // some Layout named servers; used by update alone

	mu     sync.Mutex // guards what follows; never held during I/O
	nodes  map[string]*node
	closed bool
}

// errNowhere: no server is known that has the key.
var errNowhere = errors.New("no server is known that has the key")

// nowhere says that no server is known, and why.
func (f *fleet) nowhere() error {
	if why := f.why.Load(); why != nil {
		return fmt.Errorf("%w: %w", errNowhere, *why)
	}
	return errNowhere
}

// maxFollow bounds the time between two looks at where the servers are.
const maxFollow = 5 * time.Second

// retireAfter is, beside a lease, how long the node of a server that is no more
// is kept.
const retireAfter = time.Minute

func newFleet(c *Client, source topology.Topology) (*fleet, error) {
	f := &fleet{
		c: c, source: source, period: min(c.cfg.Lease/6, maxFollow),
		heard: make(chan struct{}), hint: make(chan struct{}, 1), nodes: make(map[string]*node),
	}
	if !f.c.traits.Slots {
		n, err := newNode(c, f, "")
		c.only = n
		return f, err
	}
	f.nobody = &node{c: c, fleet: f}
	f.nobody.ctx, f.nobody.cancel = context.WithCancel(c.ctx)
	f.nobody.sub = f.nobody.newSubscriber()
	f.slots = new([keys.Slots]atomic.Pointer[node])
	for i := range f.slots {
		f.slots[i].Store(f.nobody)
	}
	return f, nil
}

// follow starts to follow the source, once.
func (f *fleet) follow() {
	f.start.Do(func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		if !f.closed {
			f.wg.Go(func() { f.source.Follow(f.c.ctx, f.period, f.hint, f.update) })
		}
	})
}

// look makes Follow look soon.
func (f *fleet) look() {
	select {
	case f.hint <- struct{}{}:
	default:
	}
}

// dialer dials a server of the source. It waits for the first Layout: only if
// the Instance is known from the start will a change of it be seen.
func (f *fleet) dialer(server string) dialer {
	return func(ctx context.Context) (redis.Conn, error) {
		f.await(ctx)
		conn, err := f.source.Dial(ctx, server)
		if err != nil {
			f.look()
		}
		return conn, err
	}
}

// await waits for the first word of the source, but not longer than one round
// trip may take, until ctx ends, or until the client closes.
func (f *fleet) await(ctx context.Context) {
	f.follow()
	select {
	case <-f.heard:
		return
	default:
	}
	t := time.NewTimer(f.c.cfg.IOTimeout)
	defer t.Stop()
	select {
	case <-f.heard:
	case <-t.C:
	case <-ctx.Done():
	case <-f.c.closing:
	}
}

// open returns the node of that server.
func (f *fleet) open(server string) *node {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := f.nodes[server]; n != nil {
		return n
	}
	if f.closed {
		return f.nobody
	}
	n, err := newNode(f.c, f, server)
	if err != nil {
		return f.nobody // the watchdog is closed
	}
	f.nodes[server] = n
	return n
}

// update takes over a Layout.
func (f *fleet) update(l topology.Layout) {
	switch {
	case l.Err != nil:
		f.why.Store(&l.Err)
		if f.nobody != nil && !f.found { // the dials of a server that is known fail, and tell
			f.nobody.reached(l.Err)
		}
	case f.c.traits.Slots:
		f.found = true
		f.nobody.reached(nil)
		f.spread(l)
	case len(l.Servers) > 0:
		f.c.only.appear(l.Servers[0])
	}
	select {
	case <-f.heard:
	default:
		close(f.heard)
	}
}

// spread gives the slots to their nodes, and the holds to their lanes.
func (f *fleet) spread(l topology.Layout) {
	nodes := make([]*node, len(l.Servers))
	for i, s := range l.Servers {
		if nodes[i] = f.open(s.Name); nodes[i] == f.nobody {
			return // the client is closing
		}
		nodes[i].appear(s)
	}
	for slot, i := range l.Slots {
		// A slot that nobody has stays with its last node: that one may come back.
		if i >= 0 && slot < keys.Slots && f.slots[slot].Swap(nodes[i]) != nodes[i] {
			f.dirty.Store(true)
		}
	}
	if f.dirty.Swap(false) {
		f.c.relocate()
	}
	f.retire(nodes)
}

// retire closes nodes that have been in no Layout for so long that nobody can
// still be on the way to them. What a slot or a hold still needs is kept: a
// server that is just being filled has no slot yet.
func (f *fleet) retire(named []*node) {
	now := time.Now()
	for _, n := range named {
		n.since = time.Time{}
	}
	var old []*node
	f.mu.Lock()
	for _, n := range f.nodes {
		switch {
		case slices.Contains(named, n):
		case n.since.IsZero():
			n.since = now
		case now.Sub(n.since) > f.c.cfg.Lease+retireAfter && n.lane.leases.Stats().Leases == 0 && !f.inUse(n):
			delete(f.nodes, n.server)
			old = append(old, n)
		}
	}
	f.mu.Unlock()
	for _, n := range old {
		n.lane.leases.Close()
		n.close(pipe.ErrReplaced)
	}
}

func (f *fleet) inUse(n *node) bool {
	for i := range f.slots {
		if f.slots[i].Load() == n {
			return true
		}
	}
	return false
}

// moved notes what a server said: that slot is at another. It returns that one.
func (f *fleet) moved(slot int, server string) *node {
	n := f.open(server)
	if f.slots[slot].Swap(n) != n {
		f.dirty.Store(true)
		f.look()
	}
	return n
}

// close ends Follow and closes the nodes. The client's context has ended.
func (f *fleet) close() {
	f.mu.Lock()
	f.closed = true
	f.mu.Unlock()
	f.wg.Wait()
	for _, n := range f.nodes { // nobody changes it any more
		n.close(ErrClosed)
	}
	if f.nobody != nil {
		f.nobody.close(ErrClosed)
	}
}
