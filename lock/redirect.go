package lock

import (
	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// redirect sends a request that the server refused to where its key is.
func (n *node) redirect(r *pipe.Request, to pipe.Redirection) { n.target(to).put(r) }

// target returns the node that a redirection leads to.
func (n *node) target(to pipe.Redirection) *node {
	if to.Ask {
		return n.fleet.open(to.Server)
	}
	return n.fleet.moved(to.Slot, to.Server)
}

// laneOf returns the lane of the node that a redirection leads to. A Client that
// knows one server alone has no other: what that one gave away is lost.
func (n *node) laneOf(to pipe.Redirection) *renewal.Lane {
	if n.c.only != nil {
		return nil
	}
	return n.target(to).lane
}
