package locktable

import (
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// queue has the callers of a client for one object, as long as there are any. Its Line chooses
// the next caller, and its Probe decides when that caller asks Redis. shard.mu guards the queue.
type queue[H Hold] struct {
	key Key // immutable until it has ended

	line waitqueue.Line[owner.Owner, H]
	outlook
	heldUntil         time.Time         // when the last known lease of another owner ends
	lastForcedRelease waitqueue.Instant // when a run last ended with a release in any case, see Following.MustRelease
	runEnded          waitqueue.Instant // when a run last ended

	// its place in shard.watched
	confirm       waitqueue.Instant // when it is looked at; 0: it is not in watched
	before, after *queue[H]
}

// outlook says when a call asks Redis next.
type outlook struct {
	probe   waitqueue.Probe // guarded by shard.mu
	refused bool            // a try was refused, so the call that asks next listens; guarded by shard.mu
	// answeredAt is when Redis last refused or granted the object, or a hold of it ended. 0: not yet.
	// Guarded by shard.mu.
	answeredAt waitqueue.Instant

	// listener receives messages that make a probe due. Only the first in line uses the
	// listener of a queue or, when the queue has ended, the goroutine that ended it.
	listener pubsub.Listener
}

// noteAnswer notes that Redis has answered for the object.
func (o *outlook) noteAnswer(now waitqueue.Instant) { o.answeredAt = max(now, 1) }

// wasAnsweredLately reports whether it has done so within movedFor.
func (o *outlook) wasAnsweredLately(now waitqueue.Instant) bool {
	return o.answeredAt > 0 && now < o.answeredAt.Add(movedFor)
}

// Key finds a queue.
type Key struct {
	Name string
	Kind waitqueue.Kind
}

// queues finds the queues, by kind and name.
type queues[H Hold] [waitqueue.Kinds]map[string]*queue[H]

func (s *queues[H]) get(k Key) *queue[H] { return s[k.Kind][k.Name] }

func (s *queues[H]) add(q *queue[H]) {
	m := &s[q.key.Kind]
	if *m == nil {
		*m = make(map[string]*queue[H])
	}
	(*m)[q.key.Name] = q
}

func (s *queues[H]) remove(q *queue[H]) { delete(s[q.key.Kind], q.key.Name) }

// ordered returns all queues, sorted by kind and name, for code whose effects must not depend
// on the order of a map.
func (s *queues[H]) ordered() iter.Seq[*queue[H]] {
	return func(yield func(*queue[H]) bool) {
		for _, m := range s {
			for _, name := range slices.Sorted(maps.Keys(m)) {
				if !yield(m[name]) {
					return
				}
			}
		}
	}
}

// all returns all queues in no order, for counting.
func (s *queues[H]) all() iter.Seq[*queue[H]] {
	return func(yield func(*queue[H]) bool) {
		for _, m := range s {
			for _, q := range m {
				if !yield(q) {
					return
				}
			}
		}
	}
}

// pace is the shortest time between two tries, so that many messages do not cause as
// many tries.
const pace = 2 * time.Millisecond

// fairTogether is in how many groups the signs of life of a client's waiters for a FairMutex are
// sent in each period. Each group is one call of a script.
const fairTogether = 16

// quietPolls is the number of MaxPolls for which a refusal counts, while the subscription is
// known to miss no message. Redisson's waiters look only at the end of the lease.
const quietPolls = 6

// PacingOf says how often waiters of that kind look. poll is MaxPoll, and fair is the time
// between two looks of a waiter for a FairMutex. Some releases have no message, such as a
// writer of Redisson that continues to read, or permits that expire.
func PacingOf(k waitqueue.Kind, poll, fair time.Duration) waitqueue.Pacing {
	quiet, together := poll, time.Duration(0)
	switch k {
	case waitqueue.Exclusive:
		quiet *= quietPolls
	case waitqueue.QueueInRedis:
		poll, quiet, together = fair, fair, fair/fairTogether
	}
	return waitqueue.Pacing{
		Pace: pace, MaxPoll: poll, Quiet: quiet,
		Back: 10 * time.Millisecond, BackMost: time.Second,
		Defer: 5 * time.Millisecond, DeferEach: time.Millisecond, Together: together,
	}
}

// queueLocked returns the queue of k, or a new one if there is none. The queue of a Mutex
// learns which holds the client already has.
func (s *shard[H]) queueLocked(k Key) *queue[H] {
	if q := s.queueOfLocked(k); q != nil {
		return q
	}
	return s.newQueueLocked(k)
}

// newQueueLocked makes the queue of k.
func (s *shard[H]) newQueueLocked(k Key) *queue[H] {
	q, _ := s.table.spareQueues.Get().(*queue[H])
	if q == nil {
		q = &queue[H]{outlook: outlook{listener: pubsub.NewListener(make(chan struct{}, 1))}}
	}
	q.key = k
	q.line, q.probe = waitqueue.NewLine[owner.Owner, H](k.Kind, &s.table.run), waitqueue.NewProbe(&s.table.pacing[k.Kind])
	s.queues.add(q)
	if k.Kind.IsExclusive() {
		for _, h := range s.older[k.Name] {
			s.knownLocked(q, h)
		}
		if h, ok := s.holds.get(k.Name); ok {
			s.knownLocked(q, h)
		}
	}
	if s.closed.Load() {
		q.line.Close()
	}
	return q
}

// knownLocked tells a new queue of h, which the client already has.
func (s *shard[H]) knownLocked(q *queue[H], h H) {
	if h.IsLost() {
		return
	}
	q.line.AddHold(h.Owner(), false, h)
	if p := h.Past(); p != nil && q.key.Kind == waitqueue.Exclusive {
		q.line.RestoreRun(p.sofar)
		q.lastForcedRelease, q.runEnded = p.opened, p.runEnded
		*p = Past{}
	}
	if h.Leaving() {
		q.line.Leaving(h.Owner(), h, 0, false)
		q.probe.Releasing(s.table.Now())
	}
}

// dropLocked takes q out of the table if q is not needed any more. Then it returns q, and
// the caller must call endQueue after it has unlocked shard.mu.
func (s *shard[H]) dropLocked(q *queue[H]) *queue[H] {
	if !q.line.Idle() {
		return nil
	}
	if h, ok := s.holds.get(q.key.Name); ok && q.line.RunLength() > 0 {
		if p := h.Past(); p != nil {
			*p = Past{q.line.SuspendRun(), q.lastForcedRelease, q.runEnded}
		}
	}
	s.queues.remove(q)
	s.unwatchQueueLocked(q)
	return q
}

// endQueue ends a queue that dropLocked returned.
func (t *Table[H]) endQueue(q *queue[H]) {
	if q == nil {
		return
	}
	q.listener.Leave()
	select {
	case <-q.listener.Wake():
	default:
	}
	*q = queue[H]{outlook: outlook{listener: q.listener}} // it keeps no hold
	t.spareQueues.Put(q)
}

// stepLocked acts on the result of an event of a Line.
func (s *shard[H]) stepLocked(done waitqueue.Step[owner.Owner, H]) {
	for _, w := range done.Wake {
		w.User.(*Waiter[H]).wakeLocked()
	}
	for _, h := range done.PassOn {
		s.calls.Add(1) // until PassOn calls End
		s.table.cfg.PassOn(h)
	}
}

// joinLocked puts w into its queue. A queue of readers and writers learns which holds w's owner
// already has.
func (s *shard[H]) joinLocked(w *Waiter[H]) {
	w.q = s.queueLocked(w.key)
	if w.sharesOwner && !w.key.Kind.IsExclusive() {
		for _, m := range [...]Mode{Reading, Writing} {
			for _, h := range s.shared[sharedKey{w.key.Name, w.caller.Owner, m}] {
				if enterable(h) && !w.q.line.Has(h.Owner(), h) {
					w.q.line.AddHold(h.Owner(), m == Reading, h)
				}
			}
		}
	}
	s.stepLocked(w.q.line.Join(&w.caller))
}

// queuesOf has the kinds of the queues that are told of a hold.
var queuesOf = [...][]waitqueue.Kind{
	Exclusive: {waitqueue.Exclusive, waitqueue.QueueInRedis},
	Reading:   {waitqueue.ReadWrite, waitqueue.ReadersAlone},
	Writing:   {waitqueue.ReadWrite, waitqueue.ReadersAlone},
	Permit:    nil, // permits have no owners
}

// tookLocked tells the queues of h's name, if there are any, that h is among the
// client's holds. w is the call that took it, or nil. If w's queue knows holds, w leaves it
// here. tookLocked returns a queue that is not needed any more, see dropLocked.
func (s *shard[H]) tookLocked(h H, w *Waiter[H]) (ended *queue[H]) {
	mode := h.Mode()
	if mode == Exclusive {
		if x := s.strangersLocked(h.Name()); x != nil {
			x.Took(s.table.Now())
		}
	}
	for _, k := range queuesOf[mode] {
		q := s.queues.get(Key{h.Name(), k})
		switch {
		case q == nil:
		case w != nil && w.q == q:
			w.q = nil
			q.noteAnswer(s.table.Now())
			if mode != Exclusive { // the end of an exclusive hold says when to try
				left := int64(0)
				if mode == Reading {
					left = 1 // others may read, too
				}
				q.probe.Took(s.table.Now(), w.mark, left)
			}
			s.stepLocked(q.line.Took(&w.caller, h))
			ended = s.dropLocked(q)
			w.isUnreferenced = ended != nil
		default:
			s.stepLocked(q.line.AddHold(h.Owner(), mode == Reading, h))
		}
	}
	return ended
}

// goneLocked tells the queues of h's name that know of h that h has ended. wasCurrent says that h was
// the hold of its name. goneLocked returns the queues that are not needed any more, see dropLocked.
func (s *shard[H]) goneLocked(h H, r RunEnd, wasCurrent bool) (ended [2]*queue[H]) {
	mode := h.Mode()
	if mode == Permit {
		s.freedLocked(Key{h.Name(), waitqueue.Permits})
		return ended
	}
	yields := wasCurrent && s.freedByUsLocked(h.Name(), r)
	for i, k := range queuesOf[mode] {
		switch q := s.queues.get(Key{h.Name(), k}); {
		case q == nil:
		case q.line.Has(h.Owner(), h):
			q.probe.Freed()
			q.noteAnswer(s.table.Now())
			if r.Others > 0 && (!yields || r.Awaited) {
				q.probe.RunEnded(s.table.Now(), r.Heard+uint64(r.Others), r.RoundTrip, r.Awaited)
			}
			s.stepLocked(q.line.HoldEnded(h.Owner(), h))
			ended[i] = s.dropLocked(q)
		case mode != Exclusive: // its calls have other owners
			s.freedLocked(q.key)
		}
	}
	return ended
}

// Freed tells a queue, if there is one, that this client has released something.
func (t *Table[H]) Freed(k Key) {
	s := t.shard(k.Name)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.freedLocked(k)
}

// freedLocked is Freed.
func (s *shard[H]) freedLocked(k Key) {
	q := s.queues.get(k)
	if q == nil {
		return
	}
	q.probe.Freed()
	s.wakeFirstLocked(q)
}

// wakeFirstLocked wakes the first in line, because it may be due sooner.
func (s *shard[H]) wakeFirstLocked(q *queue[H]) {
	if first := q.line.First(); first != nil {
		first.User.(*Waiter[H]).wakeLocked()
	}
}

// closeQueuesLocked makes all waiters give up.
func (s *shard[H]) closeQueuesLocked() {
	for q := range s.queues.ordered() {
		s.stepLocked(q.line.Close())
	}
}
