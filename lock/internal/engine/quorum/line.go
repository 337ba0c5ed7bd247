package quorum

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// WatchedMember is a member, as calls that wait for a majority see it.
type WatchedMember interface {
	// Has reports whether owner o has the member, as far as the clock can tell. It is
	// called under the Line's mutex.
	Has(o owner.Owner) bool
	// Watch puts a token into wake, which has capacity 1, whenever owner o gets the
	// member. It does so until the returned function is called.
	Watch(o owner.Owner, wake chan struct{}) (end func())
	// Listener returns a Listener for releases of the member. It puts a token into wake
	// at each release.
	Listener(wake chan struct{}) Listener
	// Closing is closed when the member's client begins to close.
	Closing() <-chan struct{}
}

// Listener receives the releases of one member. One goroutine uses it.
type Listener interface {
	// Listen listens at the server that has the member's key now. It returns false if it
	// already did.
	Listen() bool
	// News returns the messages and confirmations up to now.
	News() News
	// Leave ends Listen.
	Leave()
}

// News is what a Listener has received.
type News struct {
	// Confirmed gets a new value with each confirmation of the subscription, and never an
	// earlier one. It is 0 before the first confirmation, and while the Listener does not listen.
	Confirmed int
	Messages  uint64 // the number of messages
}

// Line has the calls of this process for one RedLock, first come first served. Only the first
// call that waits asks the members, and the first one of each owner that has a member. A call that
// does not wait asks at once. Two calls of one owner do not ask at the same time (P27), because each
// would count the members of the other as its own. Make a Line with NewLine. All methods are safe for
// concurrent use.
type Line struct {
	// immutable
	members []WatchedMember
	pacing  waitqueue.Pacing
	random  *rand.Rand
	start   time.Time // Instants count from here

	mu      sync.Mutex // guards the fields below; taken before the mutexes that WatchedMember.Has takes
	waiting []*waiter  // the calls that wait, by arrival
	trying  []*waiter  // the calls that do not wait, by arrival
	asking  []*waiter  // the calls that ask the members now; they are in one of the other lists too
}

// NewLine returns an empty Line. random is safe for concurrent use.
func NewLine(members []WatchedMember, pacing waitqueue.Pacing, random *rand.Rand) *Line {
	return &Line{members: members, pacing: pacing, random: random, start: time.Now()}
}

// Len returns how many calls wait.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.waiting)
}

// Locked reports whether the Line's mutex is locked now. It is for tests.
func (l *Line) Locked() bool {
	if !l.mu.TryLock() {
		return true
	}
	l.mu.Unlock()
	return false
}

// Nudge makes the first call look, because the lock was unlocked in this process.
func (l *Line) Nudge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.waiting) > 0 {
		first := l.waiting[0]
		first.isUnlocked = true
		wait.Signal(first.wake)
	}
}

func (l *Line) now() waitqueue.Instant { return waitqueue.Instant(time.Since(l.start)) }

// join puts w into the line. If w must not pass others and others wait, join returns what the first of them
// was told last.
func (l *Line) join(w *waiter) (busy error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.MustNotPass && len(l.waiting) > 0 && l.waiting[0].said != nil && !slices.Contains(l.ownedLocked(w), true) {
		return l.waiting[0].said
	}
	if w.NoWait {
		l.trying = append(l.trying, w)
	} else {
		l.waiting = append(l.waiting, w)
	}
	return nil
}

// ownedLocked returns which members w's owner has.
func (l *Line) ownedLocked(w *waiter) (owned []bool) {
	if !w.SharesOwner {
		return nil // no other call has this owner, and w has members only during its own attempt
	}
	owned = make([]bool, len(l.members))
	for i, p := range l.members {
		owned[i] = p.Has(w.Owner)
	}
	return owned
}

// mayAskLocked is the rule: it reports whether w may ask the members. owned says which members
// its owner has.
func (l *Line) mayAskLocked(w *waiter, owned []bool) bool {
	switch {
	case w.SharesOwner && slices.ContainsFunc(l.asking, w.hasOwnerOf):
		return false
	case w.NoWait: // the calls of one owner ask in their order, though all are woken
		return !w.SharesOwner || w == l.trying[slices.IndexFunc(l.trying, w.hasOwnerOf)]
	case w == l.waiting[0]:
		return true
	default: // calls before it may wait for a member that its owner has
		return slices.Contains(owned, true) && w == l.waiting[slices.IndexFunc(l.waiting, w.hasOwnerOf)]
	}
}

// checkTurn returns whether w may ask now, and which members its owner has. If refused is not nil,
// w must return it.
func (l *Line) checkTurn(w *waiter) (may bool, owned []bool, refused error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owned = l.ownedLocked(w)
	if w.isUnlocked {
		w.isUnlocked = false
		w.probe.Freed()
	}
	return l.mayAskLocked(w, owned), owned, w.refusal
}

// beginAttempt records that w asks the members now. It returns false if another call of the same owner
// is asking.
func (l *Line) beginAttempt(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.owned = l.ownedLocked(w)
	if !l.mayAskLocked(w, w.owned) {
		return false
	}
	l.asking = append(l.asking, w)
	for _, x := range l.trying {
		if w.hasOwnerOf(x) {
			x.lastAsker = w
		}
	}
	return true
}

// endAttempt records that an attempt of w did not get the lock. If the attempt was refused with err,
// the owner's calls that do not wait and came before it are refused too.
func (l *Line) endAttempt(w *waiter, refused bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = without(l.asking, w)
	w.said = err
	if refused {
		for _, x := range l.trying {
			if x.lastAsker == w {
				x.refusal = err
			}
		}
	}
	l.wakeLocked(w)
}

// leave takes w out of the line.
func (l *Line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.waiting, l.trying, l.asking = without(l.waiting, w), without(l.trying, w), without(l.asking, w)
	l.wakeLocked(w)
}

// wakeLocked wakes the other calls that may ask when an attempt of w has ended, or w has left.
func (l *Line) wakeLocked(w *waiter) {
	wake := func(x *waiter) {
		if x != w {
			wait.Signal(x.wake)
		}
	}
	if len(l.waiting) > 0 {
		wake(l.waiting[0])
	}
	if !w.SharesOwner {
		return
	}
	if i := slices.IndexFunc(l.waiting, w.hasOwnerOf); i >= 0 {
		wake(l.waiting[i])
	}
	for _, x := range l.trying {
		if w.hasOwnerOf(x) {
			wake(x)
		}
	}
}

// without returns calls without w.
func without(calls []*waiter, w *waiter) []*waiter {
	if i := slices.Index(calls, w); i >= 0 {
		return slices.Delete(calls, i, i+1)
	}
	return calls
}
