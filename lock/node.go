package lock

import (
	"hash/maphash"
	"sync/atomic"

	"github.com/wheellock/wheellock/renewal"
)

// node is all that belongs to one server: the connections for commands, the
// lane of the holds whose keys live there with its renewal connections, and the
// subscriber. Nodes share nothing, so a server that hangs costs its own locks
// alone. A node of one server is made by New, others when they are first heard
// of; Client.Close closes all.
type node struct {
	// immutable
	c       *Client
	dial    dialer
	links   []*link // commands; a key always takes the same one
	acker   *acker  // acquisitions that replicas must have; nil without Config.Replicas
	renewer *renewer
	lane    *renewal.Lane
	sub     *subscriber

	checked atomic.Bool // greet has looked at the server
}

// newNode returns the node of the server that d dials, known to the watchdog's
// statistics by name. It does no I/O.
func newNode(c *Client, name string, d dialer) (*node, error) {
	n := &node{c: c, dial: d}
	n.renewer = newRenewer(c.id, d, c.cfg.IOTimeout, renewConns(c.dog.Config()))
	var err error
	if n.lane, err = c.dog.Lane(name, n.renewer); err != nil {
		return nil, err
	}
	n.links = make([]*link, c.cfg.Connections)
	for i := range n.links {
		n.links[i] = newLink(c.ctx, d, c.cfg.IOTimeout, n.greet)
	}
	if c.cfg.Replicas > 0 {
		n.acker = newAcker(n)
	}
	n.sub = newSubscriber(c.ctx, d, c.cfg.IOTimeout, c.cfg.Logger)
	return n, nil
}

// put queues a request whose first argument is its key: requests of one key
// stay in order while their connection lives.
func (n *node) put(r *request) {
	if n.acker != nil && acquires(r.script) {
		n.acker.put(r)
		return
	}
	key, _ := r.args[0].(string)
	n.links[maphash.String(n.c.seed, key)%uint64(len(n.links))].put(r)
}

// close ends the node's connections and returns when none of its goroutines
// runs. The watchdog is closed and the client's context has ended.
func (n *node) close() {
	n.sub.close()
	for _, l := range n.links {
		l.close()
	}
	if n.acker != nil {
		n.acker.close()
	}
	n.renewer.close()
}

// node returns the node that has key. It is never nil.
func (c *Client) node(string) *node { return c.only }

// counter returns the key of the fencing-token counter for the lock of that
// name.
func (c *Client) counter(string) string { return tokenCounter }

// keep has the watchdog look after h, which terms.Stamp's request acquired, in
// the lane of its server.
func (c *Client) keep(h *hold, terms renewal.Terms) error {
	return c.node(h.name).lane.Hold(&h.lease, h, terms)
}
