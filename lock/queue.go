package lock

import (
	"iter"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// queue has the callers of a client for one object, as long as there are any. Its Line says who is next, and its Probe when
// that caller asks Redis. shard.mu guards it.
type queue struct {
	key queueKey // immutable until it has ended

	line waitqueue.Line[owner.Owner, *hold]
	outlook
	heldUntil time.Time         // when the last known lease of another ends
	opened    waitqueue.Instant // when a run ended with a release last
	runEnded  waitqueue.Instant // when one ended last

	// of shard.watched
	confirm       waitqueue.Instant // when it is looked at; 0: it is not there
	before, after *queue
}

// outlook says when one who probes does so next.
type outlook struct {
	probe   waitqueue.Probe // guarded by shard.mu
	refused bool            // a probe was: who probes listens; guarded by shard.mu

	// listener is for messages that make a probe due. That of a queue is the first in
	// line's and, when the queue has ended, that of the goroutine that ended it.
	listener pubsub.Listener
}

// queueKind says for what kind of object a queue is.
type queueKind uint8

const (
	mutexQueue   queueKind = iota // of exclusive kinds
	fairQueue                     // of a FairMutex: the order is in Redis, and each who waits has an outlook
	rwQueue                       // of readers and writers
	readersQueue                  // of readers that do not wait for writers who wait, see Config.ReadersFirst
	permitsQueue
	latchQueue
	queueKinds
)

// line is the kind of its Line.
func (k queueKind) line() waitqueue.Kind {
	switch k {
	case fairQueue:
		return waitqueue.Places
	case rwQueue, readersQueue:
		return waitqueue.ReadWrite
	case permitsQueue:
		return waitqueue.Permits
	case latchQueue:
		return waitqueue.Latch
	}
	return waitqueue.Exclusive
}

// exclusive: for what it is has one hold, which the shard finds by its name.
func (k queueKind) exclusive() bool { return k == mutexQueue || k == fairQueue }

// queueKey finds a queue.
type queueKey struct {
	name string
	kind queueKind
}

// queues finds the queues, by kind and name.
type queues [queueKinds]map[string]*queue

func (s *queues) get(k queueKey) *queue { return s[k.kind][k.name] }

func (s *queues) add(q *queue) {
	m := &s[q.key.kind]
	if *m == nil {
		*m = make(map[string]*queue)
	}
	(*m)[q.key.name] = q
}

func (s *queues) remove(q *queue) { delete(s[q.key.kind], q.key.name) }

func (s *queues) all() iter.Seq[*queue] {
	return func(yield func(*queue) bool) {
		for _, m := range s {
			for _, q := range m {
				if !yield(q) {
					return
				}
			}
		}
	}
}

type (
	caller   = waitqueue.Caller[owner.Owner, *hold]
	lineStep = waitqueue.Step[owner.Owner, *hold]
)

// A run of hand-overs inside one client ends with a real release after so many or so
// long, for other processes wait too. It is shorter, down to runLeast, if every
// waiter of this client has had a turn by then: a longer one only makes the others'
// waiters wait for those who come back. But no run is shortened before it has taken
// runBrief, which is about what its end costs: a release, its message, and the next
// client's try. With eight clients on one key that triples what they get. A client with
// many waiters gets up to four times as many turns by it as one with a single one; how
// long that one waits stays the same.
const (
	runLength = 64
	runLeast  = 16
	runBrief  = time.Millisecond
	runTime   = 100 * time.Millisecond
)

// openEach is how often a busy lock is released for a round trip at the end of
// a run, although no known client waits. It is for waiters that only poll:
// locks of other libraries, and Redisson where it does not hear our messages.
const openEach = 5 * time.Millisecond

// pace is the least time between two tries, so that a flood of messages is no flood
// of tries.
const pace = 2 * time.Millisecond

func runOf(cfg Config) waitqueue.Run {
	if cfg.Replicas > 0 {
		return waitqueue.Run{} // replicas know nothing of a hand-over
	}
	return waitqueue.Run{Length: runLength, Least: runLeast, Brief: runBrief, Time: runTime}
}

// quietPolls is for how many MaxPolls one answer stands that another has the lock, while
// the subscription is known to lose nothing. Redisson's waiters look at the end of the
// lease alone.
const quietPolls = 6

// pacingOf says how often waiters of that kind look. Some things are released without a
// message: a writer of Redisson that goes on to read, permits that expire.
func pacingOf(cfg Config, k queueKind) waitqueue.Pacing {
	poll := cfg.MaxPoll
	quiet := poll
	switch k {
	case mutexQueue:
		quiet *= quietPolls
	case fairQueue:
		poll = fairSignEach(cfg)
		quiet = poll
	}
	return waitqueue.Pacing{
		Pace: pace, MaxPoll: poll, Quiet: quiet,
		Back: 10 * time.Millisecond, BackMost: time.Second,
		Defer: 5 * time.Millisecond, DeferEach: time.Millisecond,
	}
}

// queueLocked returns the queue of k, a new one if there is none. That of a Mutex
// learns which hold the client has already.
func (s *shard) queueLocked(k queueKey) *queue {
	q := s.queues.get(k)
	if q != nil {
		return q
	}
	q, _ = s.tables.spareQueues.Get().(*queue)
	if q == nil {
		q = &queue{outlook: outlook{listener: pubsub.NewListener(make(chan struct{}, 1))}}
	}
	q.key = k
	q.line, q.probe = waitqueue.NewLine[owner.Owner, *hold](k.kind.line(), &s.tables.run), waitqueue.NewProbe(&s.tables.pacing[k.kind])
	s.queues.add(q)
	if h := s.holds.get(k.name); k.kind.exclusive() && h != nil && !h.is(lost) {
		q.line.Held(h.owner, false, h)
		if r := h.run(); r != nil && k.kind == mutexQueue {
			q.line.Resume(r.past.sofar)
			q.opened, q.runEnded = r.past.opened, r.past.runEnded
			r.past = past{}
		}
		if h.is(leaving) {
			q.line.Leaving(h.owner, h, 0, false)
			q.probe.Releasing(s.tables.now())
		}
	}
	if s.closed {
		q.line.Close()
	}
	return q
}

// dropLocked takes q out of the table if it is not needed any more. Then it returns
// it, and the caller calls endQueue when it has let go of shard.mu.
func (s *shard) dropLocked(q *queue) *queue {
	if !q.line.Idle() {
		return nil
	}
	if h := s.holds.get(q.key.name); h != nil && q.line.Run() > 0 {
		if r := h.run(); r != nil {
			r.past = past{q.line.Pause(), q.opened, q.runEnded}
		}
	}
	s.queues.remove(q)
	s.unwatchQueueLocked(q)
	return q
}

// endQueue ends what dropLocked returned.
func (t *tables) endQueue(q *queue) {
	if q == nil {
		return
	}
	q.listener.Leave()
	select {
	case <-q.listener.Wake():
	default:
	}
	*q = queue{outlook: outlook{listener: q.listener}} // it keeps no hold
	t.spareQueues.Put(q)
}

// stepLocked carries out what an event of a Line has brought.
func (s *shard) stepLocked(done lineStep) {
	for _, w := range done.Wake {
		w.User.(*waiter).wakeLocked()
	}
	for _, h := range done.PassOn {
		s.calls++
		s.tables.passOn(h)
	}
}

// joinLocked puts w into its queue. One of readers and writers learns what w's owner
// holds already.
func (s *shard) joinLocked(w *waiter) {
	w.q = s.queueLocked(w.key)
	if w.owned && !w.q.key.kind.exclusive() {
		for _, k := range [...]kind{readKind, writeKind} {
			for _, h := range s.shared[sharedKey{w.key.name, w.caller.Owner, k}] {
				if !h.is(leaving|lost) && !w.q.line.Has(h.owner, h) {
					w.q.line.Held(h.owner, k == readKind, h)
				}
			}
		}
	}
	s.stepLocked(w.q.line.Join(&w.caller))
}

// queuesOf are the kinds of the queues that are told of a hold.
func queuesOf(k kind) []queueKind {
	switch {
	case k.exclusive():
		return []queueKind{mutexQueue, fairQueue}
	case k == permitKind:
		return nil // permits have no owners
	}
	return []queueKind{rwQueue, readersQueue}
}

// tookLocked tells the queues of h's name, if there are any, that h is among the
// client's holds. w is the call that took it, or nil. It has left then if its queue is
// one that knows holds. The queue that tookLocked returns is not needed any more, see
// dropLocked.
func (s *shard) tookLocked(h *hold, w *waiter) (ended *queue) {
	if h.kind.exclusive() {
		s.strangers.took(h.name, s.tables.now())
	}
	for _, k := range queuesOf(h.kind) {
		q := s.queues.get(queueKey{h.name, k})
		switch {
		case q == nil:
		case w != nil && w.q == q:
			w.q = nil
			if !h.kind.exclusive() { // of those the hold's end says when to try
				left := int64(0)
				if h.kind == readKind {
					left = 1 // others may read, too
				}
				q.probe.Answered(s.tables.now(), w.mark, waitqueue.Answer{Outcome: waitqueue.Taken, Left: left})
			}
			s.stepLocked(q.line.Took(&w.caller, h))
			ended = s.dropLocked(q)
			w.outlived = ended != nil
		default:
			s.stepLocked(q.line.Held(h.owner, h.kind == readKind, h))
		}
	}
	return ended
}

// following says what comes after a hold.
type following struct {
	waiter *waiter // who gets it; nil: nobody of this client
	// wants is what the waiter wants. The waiter itself is no more than a name once
	// shard.mu is let go of: if the hold is lost, it may get the lock from Redis, end, and
	// be another call's.
	wants wants
	over  bool  // the run is: those of other clients have their turn first
	inRun bool  // a run of hand-overs led to the hold, or strangers may wait: those of other clients go first
	ahead int64 // how many hand-overs may follow

	// At the end of a run:
	open bool // it is released in any case
	// reservation is for how long one is waited for whom no message reaches: longer
	// if ends of runs are rare.
	reservation time.Duration
}

// leavingLocked tells the queues of h's name that the last Unlock of h is about to
// end it, and returns what comes after it.
func (s *shard) leavingLocked(h *hold) (n following) {
	near, yields := s.yieldsLocked(h)
	n.inRun = near
	for _, k := range queuesOf(h.kind) {
		q := s.queues.get(queueKey{h.name, k})
		if q == nil {
			if r := h.run(); r != nil && r.past.sofar.Running() {
				n.inRun = true
			}
			continue
		}
		if q.line.Run() > 0 {
			n.inRun = true
		}
		first, over, done := q.line.Leaving(h.owner, h, s.tables.now(), yields)
		if over {
			n.over = true
		}
		if h.kind.exclusive() { // else others may have it too
			q.probe.Releasing(s.tables.now())
		}
		s.stepLocked(done)
		if first != nil {
			s.followLocked(h, first.User.(*waiter), &n)
		}
	}
	return n
}

// followLocked has h go on to w, if it can.
func (s *shard) followLocked(h *hold, w *waiter, n *following) {
	if !w.wants.follows(h, n.over) {
		return
	}
	if q := w.q; n.over {
		now := s.tables.now()
		if n.open = now > q.opened.Add(openEach); n.open {
			q.opened = now
		}
		if n.reservation = openEach; q.runEnded > 0 {
			n.reservation += 2 * time.Duration(now-q.runEnded)
		}
		q.runEnded = now
	}
	n.waiter, n.wants, n.ahead = w, w.wants, int64(w.q.line.Ahead(n.over))
}

// handedLocked tells the queue of h's name that next, which is among the client's
// holds now, has taken the place of h and is for w.
func (s *shard) handedLocked(h *hold, w *waiter, next *hold) {
	q := s.queues.get(queueKey{h.name, mutexQueue})
	s.stepLocked(q.line.Handed(h.owner, h, &w.caller, next, s.tables.now()))
	if q.line.Run() == 0 { // by a script at the end of a run: nobody waits
		s.strangers.alone(h.name, s.tables.now())
	}
	if q := s.queues.get(queueKey{h.name, fairQueue}); q != nil { // a name of two kinds: who waits there is told so
		s.stepLocked(q.line.Gone(h.owner, h))
		s.stepLocked(q.line.Held(next.owner, false, next))
	}
}

// goneLocked tells the queues of h's name, those that know of h, that h has ended. It
// returns what is not needed any more, see dropLocked.
func (s *shard) goneLocked(h *hold, r runEnd) (ended [2]*queue) {
	if h.kind == permitKind {
		s.freedLocked(queueKey{h.name, permitsQueue})
		return ended
	}
	yields := s.freedByUsLocked(h, r)
	for i, k := range queuesOf(h.kind) {
		switch q := s.queues.get(queueKey{h.name, k}); {
		case q == nil:
		case q.line.Has(h.owner, h):
			q.probe.Freed()
			if r.others > 0 && (!yields || r.awaited) {
				q.probe.RunEnded(s.tables.now(), r.heard+uint64(r.others), r.roundTrip, r.awaited)
			}
			s.stepLocked(q.line.Gone(h.owner, h))
			ended[i] = s.dropLocked(q)
		case !h.kind.exclusive(): // those who wait have another owner
			s.freedLocked(q.key)
		}
	}
	return ended
}

// freed is freedLocked.
func (t *tables) freed(k queueKey) {
	s := t.shard(k.name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freedLocked(k)
}

// freedLocked tells a queue, if there is one, that this client has released something.
func (s *shard) freedLocked(k queueKey) {
	q := s.queues.get(k)
	if q == nil {
		return
	}
	q.probe.Freed()
	s.wakeFirstLocked(q)
}

// wakeFirstLocked makes the first in line look: it may be due sooner.
func (s *shard) wakeFirstLocked(q *queue) {
	if first := q.line.First(); first != nil {
		first.User.(*waiter).wakeLocked()
	}
}

// runEnd says that a release ended a run of hand-overs, and told so many others: they
// have their turn first.
type runEnd struct {
	others    int64
	heard     uint64        // messages of the channel before those with which the others release
	roundTrip time.Duration // or half of the time that one needs who was not told
	awaited   bool          // there is such a one
	suspects  bool          // none of this client waits, but somebody was told
	sounding  bool          // see there
}

// closeQueuesLocked makes all waiters give up.
func (s *shard) closeQueuesLocked() {
	for q := range s.queues.all() {
		s.stepLocked(q.line.Close())
	}
}
