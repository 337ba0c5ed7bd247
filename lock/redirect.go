package lock

import "github.com/wheellock/wheellock/lock/internal/pipe"

// redirect sends a request that the server refused to where its key is.
func (n *node) redirect(r *pipe.Request, to pipe.Redirection) { n.target(to).put(r) }

// target returns the node that a redirection leads to.
func (n *node) target(to pipe.Redirection) *node {
	if to.Ask {
		return n.fleet.open(to.Server)
	}
	return n.fleet.moved(to.Slot, to.Server)
}
