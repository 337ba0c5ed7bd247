package locktable

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// How many shards there are.
const (
	shardBits = 6
	shards    = 1 << shardBits
)

// sharedKey finds the holds of one mode that is not exclusive.
type sharedKey struct {
	name  string
	owner owner.Owner
	mode  Mode
}

func (k sharedKey) compare(other sharedKey) int {
	return cmp.Or(cmp.Compare(k.name, other.name), cmp.Compare(k.mode, other.mode), cmp.Compare(k.owner.ID, other.owner.ID), cmp.Compare(k.owner.Text, other.owner.Text))
}

// shard has the holds and the waiters of a client for the names whose hash
// leads to it.
type shard[H Hold] struct {
	table *Table[H] // immutable

	// Atomic, so that counting a call does not need mu. A call is counted before it reads
	// closed, and Close sets closed before it reads calls. So at least one of the two sees
	// the other.
	calls  atomic.Int64 // acquisitions and unlocks that are under way
	closed atomic.Bool  // Close began; set under mu

	mu           sync.Mutex            // guards what follows
	idle         bool                  // closed, and after that there was neither hold nor call
	holds        holdTable[H]          // the exclusive hold of each name, from Adopt or Deliver to Forget
	older        map[string][]H        // by name, holds that another has replaced, see addOlderLocked; nil while there was none
	shared       map[sharedKey][]H     // holds of modes of which a name may have many; nil while there was none
	many         int                   // how many are in older and shared
	heldFor      float64               // seconds held by ended holds, minus the start times of present holds, counted from Table.start
	queues       queues[H]             // of calls that take what they name
	alone        map[string]*Waiter[H] // calls by the names of Mutexes that ask without a queue; nil while there was none
	watched      watched[H]            // queues whose holds are asked about
	doubts       doubts
	strangers    strangers
	suspected    suspected
	ownerWatches map[ownerWatchKey]ownerWatches // who waits as an owner that others may share; nil while there was none

	_ [64]byte // the mutex of the next shard is in another cache line
}

// heldLocked is how many holds there are.
func (s *shard[H]) heldLocked() int { return s.holds.n + s.many }

// changedLocked is called when the number of holds may have changed. before is the number
// before the change.
func (s *shard[H]) changedLocked(before int) {
	if more := s.heldLocked() - before; more != 0 {
		s.heldFor -= float64(more) * time.Since(s.table.start).Seconds()
	}
}

// heldForLocked is how many seconds all holds together have been held.
func (s *shard[H]) heldForLocked() float64 {
	return s.heldFor + float64(s.heldLocked())*time.Since(s.table.start).Seconds()
}

// enterable reports whether its owner can re-enter h.
func enterable[H Hold](h H) bool { return !h.Leaving() && !h.IsLost() }

// liveLocked returns the exclusive hold of a name that its owner o can re-enter, or nil. With
// owner.Nobody it returns the hold of any owner.
func (s *shard[H]) liveLocked(name string, o owner.Owner) (none H) {
	fits := func(h H) bool { return enterable(h) && (o == owner.Nobody || h.Owner() == o) }
	if h, ok := s.holds.get(name); ok && fits(h) {
		return h
	}
	for _, h := range slices.Backward(s.older[name]) {
		if fits(h) {
			return h
		}
	}
	return none
}

// ownLocked is Table.Own.
func (s *shard[H]) ownLocked(name string, o owner.Owner, m Mode) (none H) {
	if m == Exclusive {
		return s.liveLocked(name, o)
	}
	for _, h := range s.shared[sharedKey{name, o, m}] {
		if enterable(h) {
			return h
		}
	}
	return none
}

// replaceLocked makes next the hold of its name in the place of h, which has ended, and reports whether h was
// that hold until now. If another hold of the name came since, replaceLocked keeps and returns it.
func (s *shard[H]) replaceLocked(h, next H) (other H, wasCurrent bool) {
	before, replaced := s.holds.set(next)
	if before == h {
		return other, true
	}
	s.removeOlderLocked(h)
	if replaced {
		s.addOlderLocked(before)
	}
	return before, false
}

// addOlderLocked keeps h, which another hold has replaced, among the known holds. Redis has
// at most one of the two. It need not be the later one: when a key is deleted, the answer to the
// acquisition before that may come last.
func (s *shard[H]) addOlderLocked(h H) {
	if !enterable(h) {
		return
	}
	if s.older == nil {
		s.older = make(map[string][]H)
	}
	s.older[h.Name()] = append(s.older[h.Name()], h)
	s.many++
}

// removeOlderLocked makes h unknown if it is among the older holds of its name.
func (s *shard[H]) removeOlderLocked(h H) {
	name := h.Name()
	older := s.older[name]
	i := slices.Index(older, h)
	if i < 0 {
		return
	}
	s.many--
	if s.older[name] = slices.Delete(older, i, i+1); len(s.older[name]) == 0 {
		delete(s.older, name)
	}
}

// addLocked makes h known. It first wakes the callers that can re-enter it now. If h is exclusive and there
// is another such hold of its name, addLocked returns that.
func (s *shard[H]) addLocked(h H) (other H, found bool) {
	defer s.changedLocked(s.heldLocked())
	s.wakeOwnerWatchesLocked(h)
	mode := h.Mode()
	if mode == Exclusive {
		if before, replaced := s.holds.set(h); replaced {
			s.addOlderLocked(before)
		}
		for _, other := range slices.Backward(s.older[h.Name()]) {
			if enterable(other) {
				return other, true
			}
		}
		return other, false
	}
	if s.shared == nil {
		s.shared = make(map[sharedKey][]H)
	}
	key := sharedKey{h.Name(), h.Owner(), mode}
	s.shared[key] = append(s.shared[key], h)
	s.many++
	return other, false
}

// removeLocked makes h unknown, and reports whether it was the exclusive hold of its name.
func (s *shard[H]) removeLocked(h H) (wasCurrent bool) {
	defer s.changedLocked(s.heldLocked())
	mode := h.Mode()
	if mode == Exclusive {
		if wasCurrent = s.holds.remove(h); !wasCurrent {
			s.removeOlderLocked(h)
		} else if older := s.older[h.Name()]; len(older) > 0 {
			next := older[len(older)-1]
			s.removeOlderLocked(next)
			s.holds.set(next)
		}
		return wasCurrent
	}
	key := sharedKey{h.Name(), h.Owner(), mode}
	i := slices.Index(s.shared[key], h)
	if i < 0 {
		return false
	}
	s.many--
	if s.shared[key] = slices.Delete(s.shared[key], i, i+1); len(s.shared[key]) == 0 {
		delete(s.shared, key)
	}
	return false
}

// appendAllLocked appends all holds. Holds that share a name come in the same order each time.
func (s *shard[H]) appendAllLocked(holds []H) []H {
	for h := range s.holds.all() {
		holds = append(holds, h)
	}
	for _, name := range slices.Sorted(maps.Keys(s.older)) {
		holds = append(holds, s.older[name]...)
	}
	for _, key := range slices.SortedFunc(maps.Keys(s.shared), sharedKey.compare) {
		holds = append(holds, s.shared[key]...)
	}
	return holds
}

// signalIdleLocked is called after Close began, and notes that there is neither hold nor call. A call
// that begins later, an Unlock of a lost hold, is not waited for.
func (s *shard[H]) signalIdleLocked() {
	if s.idle || s.heldLocked() > 0 || s.calls.Load() > 0 {
		return
	}
	s.idle = true
	if s.table.busy.Add(-1) == 0 {
		close(s.table.idle)
	}
}

// close is Table.Close of a shard.
func (s *shard[H]) close() []H {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed.Store(true)
	s.closeQueuesLocked()
	s.disarmLocked()
	s.signalIdleLocked()
	return s.appendAllLocked(nil)
}

// ownerWatches has the calls of one owner that wait for a RedLock with the name as a member. If
// another call of that owner gets the member first, they try at once. An owner that Lock has
// just made has no other calls, so its call is not among them. Channels of capacity 1 wake
// the calls.
type ownerWatches map[chan struct{}]struct{}

// ownerWatchKey finds ownerWatches.
type ownerWatchKey struct {
	name  string
	owner owner.Owner
}

// wakeOwnerWatchesLocked wakes the callers whose owner has got h.
func (s *shard[H]) wakeOwnerWatchesLocked(h H) {
	if len(s.ownerWatches) == 0 {
		return
	}
	for wake := range s.ownerWatches[ownerWatchKey{h.Name(), h.Owner()}] {
		wait.Signal(wake)
	}
}

// WatchOwner puts a token into wake, which has capacity 1, whenever that owner gets a hold of
// that name. It does so until the returned function is called.
func (t *Table[H]) WatchOwner(name string, o owner.Owner, wake chan struct{}) func() {
	s, k := t.shard(name), ownerWatchKey{name, o}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ownerWatches == nil {
		s.ownerWatches = make(map[ownerWatchKey]ownerWatches)
	}
	if s.ownerWatches[k] == nil {
		s.ownerWatches[k] = make(ownerWatches)
	}
	s.ownerWatches[k][wake] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.ownerWatches[k], wake)
		if len(s.ownerWatches[k]) == 0 {
			delete(s.ownerWatches, k)
		}
	}
}
