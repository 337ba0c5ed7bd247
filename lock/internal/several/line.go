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

// Peer is a member as those see it who wait for a majority.
type Peer interface {
	// Has reports whether that owner has the member, as far as the clock can tell. It is
	// called under the Line's mutex.
	Has(o owner.Owner) bool
	// Watch puts a token into wake, which has capacity 1, whenever that owner gets the
	// member, until the function is called that it returns.
	Watch(o owner.Owner, wake chan struct{}) (end func())
	// Listener returns what hears of releases of the member, and puts a token into wake
	// each time.
	Listener(wake chan struct{}) Listener
	// Closing is closed when the member's client begins to close.
	Closing() <-chan struct{}
}

// Listener hears of the releases of one member. One goroutine uses it.
type Listener interface {
	// Listen listens where the member's key is now. It returns false if it did so already.
	Listen() bool
	// News is what has been heard up to now.
	News() News
	// Leave ends Listen.
	Leave()
}

// News is what a Listener has to tell.
type News struct {
	// Confirmed changes with each confirmation of the subscription, and is never what it
	// was before. It is 0 before the first, and while nobody listens.
	Confirmed int
	Messages  uint64 // how many
}

type (
	caller = waitqueue.Caller[owner.Owner, struct{}]
	step   = waitqueue.Step[owner.Owner, struct{}]
)

// Line is the calls of this process for one RedLock, first come first served. Only the first
// asks the members, and the first call of each owner that has a member. Two calls of one owner
// do not ask together, so that one does not take for a hold what the other got of members.
// Package waitqueue has the rules, and explores them. Make a Line with NewLine. All methods are
// safe for concurrent use.
type Line struct {
	// immutable
	peers  []Peer
	pacing waitqueue.Pacing
	random *rand.Rand
	start  time.Time // Instants count from here

	mu   sync.Mutex // guards what follows; taken before the mutexes that Peer.Has takes
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

// Len is how many calls wait.
func (l *Line) Len() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.line.Len()
}

// Locked reports whether somebody has the Line's mutex now. It is for tests.
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

// wakeLocked makes those look whom a step concerns.
func (l *Line) wakeLocked(s step) {
	for _, c := range s.Wake {
		wait.Signal(c.User.(*waiter).wake)
	}
}

// join puts w into the line. It returns false if w passes nobody, and somebody waits.
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
		return nil // what nobody else has is w's own, and that only during an attempt
	}
	owned = make([]bool, len(l.peers))
	for i, p := range l.peers {
		owned[i] = p.Has(w.Owner)
	}
	l.wakeLocked(l.line.Owns(w.Owner, slices.Contains(owned, true)))
	return owned
}

// look says what w is to do, and which members its owner has.
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

// begin notes that w asks the members now. It returns false if another call of its owner does
// meanwhile.
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

// ended notes that an attempt of w did not get the lock. If it was refused, other calls of its
// owner that do not wait are refused with it.
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

// refusal is what a call returns that was refused with another one.
func (l *Line) refusal() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.said
}

// leave takes w out. If w has got the lock, its owner has members.
func (l *Line) leave(w *waiter) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wakeLocked(l.line.Leave(&w.caller))
	l.noteLocked(w)
}
