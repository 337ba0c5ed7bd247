package several

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Peer is a member, as calls that wait for a majority see it.
type Peer interface {
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
	// News returns what has been received up to now.
	News() News
	// Leave ends Listen.
	Leave()
}

// News is what a Listener has received.
type News struct {
	// Confirmed gets a new value with each confirmation of the subscription, and never an
	// earlier one. It is 0 before the first confirmation, and while nobody listens.
	Confirmed int
	Messages  uint64 // the number of messages
}

type (
	caller = waitqueue.Caller[owner.Owner, struct{}]
	step   = waitqueue.Step[owner.Owner, struct{}]
)

// Line has the calls of this process for one RedLock, first come first served. Only the first
// call asks the members, and the first call of each owner that has a member. Two calls of one
// owner do not ask at the same time (P27), because each would count the members of the other as its
// own. Package waitqueue has the rules. Make a Line with NewLine. All methods are safe for
// concurrent use.
type Line struct {
	// immutable
	peers  []Peer
	pacing waitqueue.Pacing
	random *rand.Rand
	start  time.Time // Instants count from here

	mu   sync.Mutex // guards the fields below; taken before the mutexes that Peer.Has takes
	line waitqueue.Line[owner.Owner, struct{}]
	said error // by the last attempt that was refused
}

// NewLine returns an empty Line. random is safe for concurrent use.
func NewLine(peers []Peer, pacing waitqueue.Pacing, random *rand.Rand) *Line {
	return &Line{
		peers: peers, pacing: pacing, random: random, start: time.Now(),
		line: waitqueue.NewLine[owner.Owner, struct{}](waitqueue.Votes, nil),
	}
}

// Len returns how many calls wait.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line.Len()
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
	if first := l.line.First(); first != nil {
		w := first.User.(*waiter)
		w.freed = true
		wait.Signal(w.wake)
	}
}

func (l *Line) now() waitqueue.Instant { return waitqueue.Instant(time.Since(l.start)) }

// wakeLocked wakes the calls that a step concerns.
func (l *Line) wakeLocked(s step) {
	for _, c := range s.Wake {
		wait.Signal(c.User.(*waiter).wake)
	}
}

// join puts w into the line. It returns false if w must not pass others and others wait.
func (l *Line) join(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.Polite && l.line.Len() > 0 && !slices.Contains(l.noteLocked(w), true) {
		return false
	}
	l.wakeLocked(l.line.Join(&w.caller))
	return true
}

// noteLocked tells the line whether w's owner has a member, and returns which.
func (l *Line) noteLocked(w *waiter) (owned []bool) {
	if !w.Shared {
		return nil // no other call is there, and w has members only during its own attempt
	}
	owned = make([]bool, len(l.peers))
	for i, p := range l.peers {
		owned[i] = p.Has(w.Owner)
	}
	l.wakeLocked(l.line.Owns(w.Owner, slices.Contains(owned, true)))
	return owned
}

// look returns what w must do next, and which members its owner has.
func (l *Line) look(w *waiter) (do waitqueue.Do, owned []bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	owned = l.noteLocked(w)
	if w.freed {
		w.freed = false
		w.probe.Freed()
	}
	return l.line.Instruction(&w.caller).Do, owned
}

// begin records that w asks the members now. It returns false if another call of the same owner
// is asking.
func (l *Line) begin(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.owned = l.noteLocked(w)
	if l.line.Instruction(&w.caller).Do != waitqueue.DoProbe {
		return false
	}
	l.wakeLocked(l.line.Began(&w.caller))
	return true
}

// ended records that an attempt of w did not get the lock. If the attempt was refused, the
// owner's calls that do not wait are refused too.
func (l *Line) ended(w *waiter, refused bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if refused {
		l.said = err
		l.wakeLocked(l.line.Refused(&w.caller))
	} else {
		l.wakeLocked(l.line.Unanswered(&w.caller))
	}
}

// refusal returns the error of a call that is refused because of another call's attempt.
func (l *Line) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

// leave takes w out of the line. If w has got the lock, its owner has members now.
func (l *Line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeLocked(l.line.Leave(&w.caller))
	l.noteLocked(w)
}
