package lock

import (
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// tables has the holds and the waiters of a Client by the names of the locks.
// They are spread over shards, so that Lock, Unlock, renewal and loss take no
// mutex of the whole client.
type tables struct {
	// immutable after New
	seed     maphash.Seed
	start    time.Time     // see now
	run      waitqueue.Run // of hand-overs
	pacing   [queueKinds]waitqueue.Pacing
	yielding waitqueue.Yielding // to strangers
	passOn   func(*hold)        // gives back, in the background, what was handed to a waiter that has left; calls shard.end then
	place    func(*hold)        // takes a new hold to the lane of its server; nil if keys do not move
	idle     chan struct{}      // closed when busy is 0

	// atomic
	busy  atomic.Int32 // shards in which there were holds or calls ever since Close began; all of them before that
	turns sync.Map     // of *hold to the chan struct{} that is closed when it is no more busy, if somebody waits for that

	// Most queues and waiters last for one try. Those of one Client are not used by
	// another, which may be in another bubble of testing/synctest.
	spareQueues, spareWaiters sync.Pool

	shards [shards]shard
}

// init makes the tables of c, which is for what stands in them.
func (t *tables) init(c *Client, passOn func(*hold)) {
	t.seed, t.start, t.run, t.passOn, t.idle = maphash.MakeSeed(), time.Now(), runOf(c.cfg), passOn, make(chan struct{})
	for i := range t.shards {
		s := &t.shards[i]
		s.tables, s.c, s.holds.seed = t, c, t.seed
	}
	t.yielding = yielding()
	t.busy.Store(shards)
	for k := range t.pacing {
		t.pacing[k] = pacingOf(c.cfg, queueKind(k))
	}
}

// shard returns the shard of a name.
func (t *tables) shard(name string) *shard {
	return &t.shards[maphash.String(t.seed, name)>>(64-shardBits)]
}

// lookup returns the hold of a name, or nil.
func (t *tables) lookup(name string) *hold {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holds.get(name)
}

// sharedHold returns the hold that an owner can re-enter, or nil.
func (t *tables) sharedHold(name string, o owner.Owner, k kind) *hold {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, h := range s.shared[sharedKey{name, o, k}] {
		if !h.is(leaving | lost) {
			return h
		}
	}
	return nil
}

// all returns all holds.
func (t *tables) all() (holds []*hold) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		holds = s.appendAllLocked(holds)
		s.mu.Unlock()
	}
	return holds
}

// begin is shard.begin of a name's shard.
func (t *tables) begin(name string, acquisition bool) bool { return t.shard(name).begin(acquisition) }

// end undoes begin.
func (t *tables) end(name string) { t.shard(name).end() }

// tableCounts are what is in the tables.
type tableCounts struct {
	held    int     // holds
	waiting int     // calls that wait in a queue
	heldFor float64 // in seconds, how long those and all before were held
}

// counts is what is in the tables now.
func (t *tables) counts() (n tableCounts) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n.held += s.heldLocked()
		n.heldFor += s.heldForLocked()
		for q := range s.queues.all() {
			n.waiting += q.line.Waiting()
		}
		s.mu.Unlock()
	}
	return n
}

// wakeAll makes the first of each queue look.
func (t *tables) wakeAll() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for q := range s.queues.all() {
			s.wakeFirstLocked(q)
		}
		s.mu.Unlock()
	}
}

// adopt makes h, whose lease is watched already, the hold of its name. w is the call
// that took it, if it stands in a queue. It returns false if the client is closing.
func (t *tables) adopt(h *hold, w *waiter) bool {
	var s *shard
	if w != nil {
		s = w.shard
	} else {
		s = t.shard(h.name)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return false
	}
	old := s.ownLiveLocked(h.name)
	s.addLocked(h)
	ended := s.tookLocked(h, w)
	s.mu.Unlock()
	t.endQueue(ended)
	if old != nil && h.kind.exclusive() { // one of them is not in Redis any more
		old.lease.Confirm()
		h.lease.Confirm()
	}
	t.locate(h)
	t.forgetLost(h)
	return true
}

// locate takes h to its lane once it is among the holds: what moved before that has
// not moved it.
func (t *tables) locate(h *hold) {
	if t.place != nil {
		t.place(h)
	}
}

// forgetLost forgets h if it was lost before it was known.
func (t *tables) forgetLost(h *hold) {
	if _, lost := h.lease.Lost(); lost {
		t.forget(h)
	}
}

// forget removes h if it is still the hold of its name, and lets waiters go on.
func (t *tables) forget(h *hold) { t.forgetAfter(h, runEnd{}) }

// forgetAfter is forget of a hold whose release may have ended a run of hand-overs.
func (t *tables) forgetAfter(h *hold, run runEnd) {
	s := t.shard(h.name)
	s.mu.Lock()
	ended := s.goneLocked(h, run)
	if s.removeLocked(h) {
		s.idleLocked()
	}
	s.mu.Unlock()
	for _, q := range ended {
		t.endQueue(q)
	}
}

// leaving tells the queue of h's name that h is about to end, and returns what comes
// after it.
func (t *tables) leaving(h *hold) following {
	s := t.shard(h.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leavingLocked(h)
}

// deliver makes next, which h was handed over as, the hold of its name and gives it to
// w. If w has left, or Close has begun, which tells only those that it found among the
// holds, next is passed on. A call of the same owner that re-enters it before that is
// told all the same. h ended as it should, so the queue has had it in mind all the time,
// and neither the queue nor w is another's.
func (t *tables) deliver(h *hold, w *waiter, next *hold) {
	s := t.shard(h.name)
	s.mu.Lock()
	next.closing = s.closed // nobody else knows it yet
	s.wakeCallersLocked(next)
	before := s.heldLocked()
	s.holds.set(next)
	s.changedLocked(before)
	s.handedLocked(h, w, next)
	s.mu.Unlock()
	t.locate(next)
	t.forgetLost(next)
}

// now is the time for Lines and Probes.
func (t *tables) now() waitqueue.Instant { return waitqueue.Instant(time.Since(t.start)) }

// heard is what l has heard, for a Probe.
func (t *tables) heard(l *pubsub.Listener) waitqueue.Heard {
	news := l.News()
	return waitqueue.Heard{Confirmed: news.Confirmed, Messages: news.Messages, Upto: waitqueue.Instant(news.Upto.Sub(t.start))}
}
