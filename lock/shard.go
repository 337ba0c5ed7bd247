package lock

import (
	"hash/maphash"
	"sync"
)

// A Client's tables are spread over shards by the names of the locks, so that no
// mutex of the whole client is on the way of Lock, Unlock, renewal or loss.
const (
	shardBits = 6
	shards    = 1 << shardBits
)

// shard has what a client holds, and who waits, under the names whose hash leads to it.
type shard struct {
	c *Client // immutable

	mu      sync.Mutex            // guards what follows
	closed  bool                  // Close began
	idle    bool                  // and after that there was neither hold nor call
	calls   int                   // acquisitions and unlocks that are under way
	holds   holdTable             // the hold of each name, until its end is through
	shared  map[sharedKey][]*hold // the holds of kinds of which a name may have many; nil while there was none
	many    int                   // how many they are
	queues  queues                // of calls that take what they name
	callers map[callerKey]callers // who waits as an owner that others may share; nil while there was none

	_ [64]byte // the next one's mutex is in another cache line
}

// shard returns the shard of a name.
func (c *Client) shard(name string) *shard {
	return &c.shards[maphash.String(c.seed, name)>>(64-shardBits)]
}

// lookup returns the hold of a name, or nil.
func (c *Client) lookup(name string) *hold {
	s := c.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds.get(name)
}

// heldLocked is how many holds there are.
func (s *shard) heldLocked() int { return s.holds.n + s.many }

// appendAllLocked appends all holds.
func (s *shard) appendAllLocked(holds []*hold) []*hold {
	for h := range s.holds.all() {
		holds = append(holds, h)
	}
	for _, more := range s.shared {
		holds = append(holds, more...)
	}
	return holds
}

// all returns all holds.
func (c *Client) all() (holds []*hold) {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		holds = s.appendAllLocked(holds)
		s.mu.Unlock()
	}
	return holds
}

// begin is shard.begin of a name's shard.
func (c *Client) begin(name string, acquisition bool) bool { return c.shard(name).begin(acquisition) }

// end undoes begin.
func (c *Client) end(name string) { c.shard(name).end() }

// begin notes a call that Close waits for; an acquisition is refused once Close began.
func (s *shard) begin(acquisition bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if acquisition && s.closed {
		return false
	}
	s.calls++
	return true
}

// end undoes begin.
func (s *shard) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls--
	s.idleLocked()
}

// idleLocked notes that there is neither hold nor call after Close began. A call that
// begins later, an Unlock of a lost hold, is not waited for.
func (s *shard) idleLocked() {
	if !s.closed || s.idle || s.heldLocked() > 0 || s.calls > 0 {
		return
	}
	s.idle = true
	if s.c.busy.Add(-1) == 0 {
		close(s.c.idle)
	}
}

// close refuses acquisitions from now on, makes all waiters give up, and returns the
// holds.
func (s *shard) close() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.closeQueuesLocked()
	s.idleLocked()
	return s.appendAllLocked(nil)
}
