package lock

import (
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// How many shards there are.
const (
	shardBits = 6
	shards    = 1 << shardBits
)

// sharedKey finds the holds of those kinds that are not exclusive.
type sharedKey struct {
	name  string
	owner owner.Owner
	kind  kind
}

// shard has the holds and the waiters of a client for the names whose hash
// leads to it.
type shard struct {
	// immutable
	tables *tables
	c      *Client // of the holds and waiters; the shard itself does not need it

	mu        sync.Mutex            // guards what follows
	closed    bool                  // Close began
	idle      bool                  // and after that there was neither hold nor call
	calls     int                   // acquisitions and unlocks that are under way
	holds     holdTable             // the hold of each name, until its end is through
	shared    map[sharedKey][]*hold // the holds of kinds of which a name may have many; nil while there was none
	many      int                   // how many they are
	heldFor   float64               // in seconds: how long holds that are no more were held, less the time from tables.start at which those of now began
	queues    queues                // of calls that take what they name
	watched   watched               // of them
	doubts    doubts
	strangers strangers
	suspected waitqueue.Instant     // when a pause was made last for one of which nothing is known
	callers   map[callerKey]callers // who waits as an owner that others may share; nil while there was none

	_ [64]byte // the next one's mutex is in another cache line
}

// heldLocked is how many holds there are.
func (s *shard) heldLocked() int { return s.holds.n + s.many }

// changedLocked is called when the number of holds may have changed, with what it was.
func (s *shard) changedLocked(before int) {
	if more := s.heldLocked() - before; more != 0 {
		s.heldFor -= float64(more) * time.Since(s.tables.start).Seconds()
	}
}

// heldForLocked is how many seconds all holds together have been held.
func (s *shard) heldForLocked() float64 {
	return s.heldFor + float64(s.heldLocked())*time.Since(s.tables.start).Seconds()
}

// ownLocked returns the hold that an owner can re-enter, or nil.
func (s *shard) ownLocked(name string, o owner.Owner) *hold {
	if h := s.holds.get(name); h != nil && h.owner == o && !h.is(leaving|lost) {
		return h
	}
	return nil
}

// addLocked makes h known. It first wakes the callers that can re-enter it now.
func (s *shard) addLocked(h *hold) {
	defer s.changedLocked(s.heldLocked())
	s.wakeCallersLocked(h)
	if h.kind.exclusive() {
		s.holds.set(h)
		return
	}
	if s.shared == nil {
		s.shared = make(map[sharedKey][]*hold)
	}
	key := sharedKey{h.name, h.owner, h.kind}
	s.shared[key] = append(s.shared[key], h)
	s.many++
}

// removeLocked makes h unknown, and reports whether it was known.
func (s *shard) removeLocked(h *hold) bool {
	defer s.changedLocked(s.heldLocked())
	if h.kind.exclusive() {
		return s.holds.remove(h)
	}
	key := sharedKey{h.name, h.owner, h.kind}
	i := slices.Index(s.shared[key], h)
	if i < 0 {
		return false
	}
	s.many--
	if s.shared[key] = slices.Delete(s.shared[key], i, i+1); len(s.shared[key]) == 0 {
		delete(s.shared, key)
	}
	return true
}

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
	if s.tables.busy.Add(-1) == 0 {
		close(s.tables.idle)
	}
}

// close refuses acquisitions from now on, makes all waiters give up, and returns the
// holds.
func (s *shard) close() []*hold {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	s.closeQueuesLocked()
	s.disarmLocked()
	s.idleLocked()
	return s.appendAllLocked(nil)
}
