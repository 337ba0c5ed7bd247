package locktable

import (
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// callers has the calls of one owner that wait for a RedLock with the name as a member. If
// another call of that owner gets the member first, they try at once. An owner that Lock has
// just made has no other calls, so its call is not among them. Channels of capacity 1 wake
// the calls.
type callers map[chan struct{}]struct{}

// callerKey finds them.
type callerKey struct {
	name  string
	owner owner.Owner
}

// wakeCallersLocked wakes the callers whose owner has got h.
func (s *shard[H]) wakeCallersLocked(h H) {
	if len(s.callers) == 0 {
		return
	}
	for wake := range s.callers[callerKey{h.Name(), h.Owner()}] {
		wait.Signal(wake)
	}
}

// WatchOwner puts a token into wake, which has capacity 1, whenever that owner gets a hold of
// that name. It does so until the returned function is called.
func (t *Table[H]) WatchOwner(name string, o owner.Owner, wake chan struct{}) func() {
	s, k := t.shard(name), callerKey{name, o}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.callers == nil {
		s.callers = make(map[callerKey]callers)
	}
	if s.callers[k] == nil {
		s.callers[k] = make(callers)
	}
	s.callers[k][wake] = struct{}{}
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.callers[k], wake)
		if len(s.callers[k]) == 0 {
			delete(s.callers, k)
		}
	}
}
