package servers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// maxPeriod is the longest time between two questions of the Topology.
const maxPeriod = 5 * time.Second

// retireAfter plus Config.Lease is how long a server is kept that neither a Layout nor a redirection names.
const retireAfter = time.Minute

// follow starts the goroutine that follows the Topology, once.
func (r *Router) follow() {
	r.start.Do(func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if !r.closed {
			r.wg.Go(r.cfg.Labeler.Label("follow the topology", func() { r.cfg.Topology.Follow(r.ctx, r.period, r.hint, r.update) }))
		}
	})
}

// hintTopology makes Follow look soon.
func (r *Router) hintTopology() { wait.Signal(r.hint) }

// awaitLayout waits for the first Layout. It waits for at most as long as a dial may take, and ends
// earlier if ctx ends or the user closes.
func (r *Router) awaitLayout(ctx context.Context) {
	r.follow()
	r.awaitClosed(ctx, r.firstLayout)
}

// awaitName waits until a Layout has named the servers, with the limits of awaitLayout. If all Layouts
// were errors so far, it makes the Topology look again, and waits only for the next Layout. An error
// means that no server is named.
func (r *Router) awaitName(ctx context.Context) error {
	r.awaitLayout(ctx)
	if next := *r.nextLayout.Load(); !r.isNamed.Load() { // in this order: the next Layout ends the wait
		r.hintTopology()
		r.awaitClosed(ctx, next)
	}
	switch failure := r.failure.Load(); {
	case r.isNamed.Load():
		return nil
	case failure != nil:
		return *failure
	}
	return r.noServerError()
}

// awaitClosed waits until c is closed, with the limits of awaitLayout.
func (r *Router) awaitClosed(ctx context.Context, c <-chan struct{}) {
	if wait.Closed(c) {
		return
	}
	t := time.NewTimer(r.cfg.DialTimeout)
	defer t.Stop()
	select {
	case <-c:
	case <-t.C:
	case <-ctx.Done():
	case <-r.cfg.Closing:
	}
}

// update applies a Layout. Follow calls it, one call after the other.
func (r *Router) update(l topology.Layout) {
	if l.Warning != nil {
		r.cfg.Logger.Log(record.LayoutDoubted, l.Warning)
	}
	if l.Err == nil {
		l.Err = r.checkLayout(l)
	}
	switch {
	case l.Err != nil:
		r.failure.Store(&l.Err)
		if r.unknown != nil && !r.isNamed.Load() { // if a server is known, its failed dials warn instead
			r.unknown.noteReached(l.Err)
		}
	case r.traits.Slots:
		r.unknown.noteReached(nil)
		r.assignSlots(l)
	case len(l.Servers) > 0:
		r.single.setTarget(l.Servers[0])
	}
	if l.Err == nil {
		r.isNamed.Store(true)
	}
	next := make(chan struct{})
	close(*r.nextLayout.Swap(&next))
}

// assignSlots gives the slots to their servers.
func (r *Router) assignSlots(l topology.Layout) {
	named := make([]*Server, len(l.Servers))
	for i, s := range l.Servers {
		if named[i] = r.findOrAdd(s.Name, true); named[i] == r.unknown {
			return // the user is closing
		}
		named[i].setTarget(s)
	}
	successors := make(map[*Server]*Server) // from a server that has given slots away to the new one
	for slot, i := range l.Slots {
		// A slot that no server has stays with its last server, which may come back.
		if i < 0 || slot >= keys.Slots {
			continue
		}
		if old := r.slots[slot].Swap(named[i]); old != named[i] {
			successors[old] = named[i]
			r.moved.Store(true)
		}
	}
	for _, old := range slices.SortedFunc(maps.Keys(successors), byName) {
		if old != r.unknown && !r.hasSlot(old) {
			r.cfg.Logger.Log(record.Replaced, old.Address(), successors[old].Address())
		}
	}
	if r.moved.Swap(false) {
		r.announce()
		r.cfg.Moved()
	}
	r.retire(named)
}

// retire closes servers that neither a Layout nor a redirection has named for so long that no
// request can still be on the way to them. It keeps servers that a slot or the user still needs, such
// as a server that slots are moving to.
func (r *Router) retire(named []*Server) {
	now := time.Now()
	for _, s := range named {
		s.unnamedSince = time.Time{}
	}
	for _, s := range r.notNamed(named) {
		switch {
		case s.unnamedSince.IsZero():
			s.unnamedSince = now
		case now.Sub(s.unnamedSince) > r.cfg.Lease+retireAfter && r.isUnneeded(s) && r.removeUnlessWanted(s):
			s.seal()
			if s.attachment != nil {
				s.attachment.Retire()
			}
			s.close(pipe.ErrReplaced)
		}
	}
}

// notNamed returns the servers that are not in named. The time of those that were needed since its last
// call begins anew. From now on Server.isWanted records which of them are needed.
func (r *Router) notNamed(named []*Server) []*Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	var others []*Server
	for _, s := range r.sortedServersLocked() {
		if !slices.Contains(named, s) {
			if s.isWanted {
				s.isWanted, s.unnamedSince = false, time.Time{}
			}
			others = append(others, s)
		}
	}
	return others
}

// isUnneeded reports whether neither the user nor a slot needs s.
func (r *Router) isUnneeded(s *Server) bool {
	return !r.hasSlot(s) && (!s.isReady.Load() || s.attachment.Idle())
}

// removeUnlessWanted takes s out of the table, unless it was needed since notNamed returned it. After
// that, a new Server is made for its name.
func (r *Router) removeUnlessWanted(s *Server) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.isWanted {
		return false
	}
	delete(r.servers, s.name)
	if s.fromRedirect {
		r.unnamed--
	}
	return true
}
