package locktable

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
)

// A run of hand-overs inside one client ends with a real release after a number of
// hand-overs or a time, because other processes also wait. A run is shorter, down to
// runLeast, if every waiter of this client has had a turn by then. A longer run would only
// let returning callers pass the waiters of other clients. But no run is shortened before
// it has taken runBrief. That is about the cost of its end: a release, its message, and the
// next client's try. With eight clients on one key that triples the number of their turns.
// A client with many waiters gets up to four times as many turns as a client with one
// waiter. The wait of that one waiter does not get longer.
const (
	runLength = 64
	runLeast  = 16
	runBrief  = time.Millisecond
	runTime   = 100 * time.Millisecond
)

// forcedReleaseInterval is how often a busy lock is released for a round trip at the end of
// a run, although no known client waits. It is for waiters that only poll. These
// are waiters of other libraries, and of Redisson where it does not receive the
// messages of this library.
const forcedReleaseInterval = 5 * time.Millisecond

// Following says which call gets a hold next.
type Following[H Hold] struct {
	Next *Waiter[H] // the call that gets it; nil: no call of this client
	// For is the Acquisition of Next. Next itself may only be used as a name. If the hold is
	// lost, Next may get the lock from Redis and end, and its memory may serve another call.
	For   Acquisition[H]
	Over  bool  // the run is over: calls of other clients have their turn first
	InRun bool  // a run of hand-overs led to the hold, or strangers may wait: calls of other clients go first
	Ahead int64 // how many hand-overs may follow

	// At the end of a run:
	MustRelease bool // the lock is released in any case
	// Reservation is how long the lock is kept free for a waiter that receives no messages.
	// It is longer if ends of runs are rare.
	Reservation time.Duration
}

// Leaving tells the queues of h's name that the last Unlock of h is about to end h. It
// returns which call gets h next. It is called once for a hold.
func (t *Table[H]) Leaving(h H) (n Following[H]) {
	s, mode, yields := t.shard(h.Name()), h.Mode(), false
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := h.Past(); p != nil && p.sofar.Running() { // else a queue has the run
		n.InRun = true
	}
	if mode == Exclusive {
		if x := s.strangersLocked(h.Name()); x != nil {
			yields = x.Leaving(t.Now())
			n.InRun = n.InRun || x.HasStranger()
		}
	}
	for _, k := range queuesOf[mode] {
		q := s.queues.get(Key{h.Name(), k})
		if q == nil {
			continue
		}
		n.InRun = n.InRun || q.line.RunLength() > 0
		first, over, done := q.line.Leaving(h.Owner(), h, t.Now(), yields)
		n.Over = n.Over || over
		if mode == Exclusive { // else others may have it too
			q.probe.Releasing(t.Now())
		}
		s.stepLocked(done)
		if first != nil {
			s.followLocked(h, first.User.(*Waiter[H]), &n)
		}
	}
	return n
}

// followLocked chooses w as the next holder, if h can be handed over to it.
func (s *shard[H]) followLocked(h H, w *Waiter[H], n *Following[H]) {
	if !w.wants.Follows(h, n.Over) {
		return
	}
	if q := w.q; n.Over {
		now := s.table.Now()
		if n.MustRelease = now > q.lastForcedRelease.Add(forcedReleaseInterval); n.MustRelease {
			q.lastForcedRelease = now
		}
		if n.Reservation = forcedReleaseInterval; q.runEnded > 0 {
			n.Reservation += 2 * time.Duration(now-q.runEnded)
		}
		q.runEnded = now
	}
	n.Next, n.For, n.Ahead = w, w.wants, int64(w.q.line.Ahead(n.Over))
}

// handedLocked tells the queue of h's name that next, which is among the client's
// holds now, has taken the place of h and is for w.
func (s *shard[H]) handedLocked(h H, w *Waiter[H], next H) {
	q := s.queues.get(Key{h.Name(), waitqueue.Exclusive})
	now := s.table.Now()
	s.stepLocked(q.line.Handed(h.Owner(), h, &w.caller, next, now))
	if q.line.RunLength() == 0 { // a script at the end of a run kept the lock, because Redis knew no other waiter
		if x := s.strangersLocked(h.Name()); x != nil {
			x.NoWaiters(now)
		}
	}
	if q := s.queues.get(Key{h.Name(), waitqueue.QueueInRedis}); q != nil { // a name of two kinds: its waiters are told, too
		s.stepLocked(q.line.HoldEnded(h.Owner(), h))
		s.stepLocked(q.line.AddHold(next.Owner(), false, next))
	}
}

// RunEnd says that a release ended a run of hand-overs. Others is how many other subscribers
// received the release. They have their turn first.
type RunEnd struct {
	Others    int64
	Heard     uint64        // messages of the channel up to that of this release
	RoundTrip time.Duration // or, if longer, half of the time until a waiter without messages tries
	Awaited   bool          // there is such a waiter
	Suspects  bool          // no call of this client waits, but a subscriber was told

	isLookTime bool // see isTimeToLook; set by ForgetAfter
}
