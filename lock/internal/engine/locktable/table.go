package locktable

import (
	"context"
	"hash/maphash"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// Config has what a Table needs from its client. All functions are safe for concurrent
// use.
type Config[H Hold] struct {
	Lease    time.Duration // of the client
	MaxPoll  time.Duration // how long a waiter sleeps at most while it may miss the message of a release
	FairPoll time.Duration // how long a waiter for a FairMutex sleeps at most
	HandOver bool          // holds go from one caller of the client to the next
	FailFast bool          // an unknown outcome ends a call

	Random     *rand.Rand                                                   // safe for concurrent use; it keeps clients from trying together
	Subscriber func(name string) *pubsub.Subscriber                         // of the server that has the name
	Ahead      func(name string) time.Duration                              // by which the clock of that server is ahead of this client's
	Closing    <-chan struct{}                                              // closed before Close is called
	PassOn     func(H)                                                      // releases, in the background, a hold that was handed to a caller that has left; then calls End
	Place      func(H)                                                      // takes a new hold to where it is renewed; nil if keys do not move
	LongWait   func(ctx context.Context, name string, waited time.Duration) // reports that a call has waited long for another owner's lock; may ask a server
	Logger     *record.Logger                                               // for calls that may wait for themselves
}

// Table has the holds and the waiters of a client by the names of the locks.
// They are spread over shards, so that no mutex is for the whole client. Make a Table with New.
type Table[H Hold] struct {
	// immutable
	cfg      Config[H]
	seed     maphash.Seed
	start    time.Time           // see Now
	run      waitqueue.RunLimits // of hand-overs
	pacing   [waitqueue.Kinds]waitqueue.Pacing
	yielding waitqueue.Yielding // to strangers
	idle     chan struct{}      // closed when busy is 0

	busy   atomic.Int32   // shards in which there were holds or calls ever since Close began; all of them before that
	timers sync.WaitGroup // of shards

	// Most queues and waiters last for one try. Each Table reuses only its own, because
	// another Table may be in another bubble of testing/synctest.
	spareQueues, spareWaiters sync.Pool

	shards [shards]shard[H]
}

// New returns an empty Table.
func New[H Hold](cfg Config[H]) *Table[H] {
	t := &Table[H]{cfg: cfg, seed: maphash.MakeSeed(), start: time.Now(), idle: make(chan struct{}), yielding: yieldingOf(cfg.Lease)}
	for i := range t.shards {
		s := &t.shards[i]
		s.table, s.holds.seed = t, t.seed
	}
	if cfg.HandOver {
		t.run = waitqueue.RunLimits{Length: runLength, Least: runLeast, Brief: runBrief, Time: runTime}
	}
	t.busy.Store(shards)
	for k := range t.pacing {
		t.pacing[k] = PacingOf(waitqueue.Kind(k), cfg.MaxPoll, cfg.FairPoll)
	}
	return t
}

// shard returns the shard of a name.
func (t *Table[H]) shard(name string) *shard[H] {
	return &t.shards[maphash.String(t.seed, name)>>(64-shardBits)]
}

// Live returns the exclusive hold of a name that its owner can re-enter, or nil.
func (t *Table[H]) Live(name string) H {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.liveLocked(name, owner.Nobody)
}

// Own returns the hold that an owner can re-enter, or nil.
func (t *Table[H]) Own(name string, o owner.Owner, m Mode) H {
	s := t.shard(name)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ownLocked(name, o, m)
}

// All returns all holds.
func (t *Table[H]) All() (holds []H) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		holds = s.appendAllLocked(holds)
		s.mu.Unlock()
	}
	return holds
}

// Begin records a call that Close waits for. It returns false for an acquisition after Close
// has begun.
func (t *Table[H]) Begin(name string, acquisition bool) bool {
	s := t.shard(name)
	s.calls.Add(1)
	if acquisition && s.closed.Load() {
		t.End(name)
		return false
	}
	return true
}

// End undoes Begin.
func (t *Table[H]) End(name string) {
	s := t.shard(name)
	if s.calls.Add(-1) > 0 || !s.closed.Load() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.signalIdleLocked()
}

// Counts has the numbers of holds and calls in a Table.
type Counts struct {
	Held    int     // holds
	HeldFor float64 // in seconds, how long those and all before were held
	Waiting int     // calls that wait in a queue

	Queues    int // of calls that take something
	Owners    int // owners for whose holds calls wait, see WatchOwner
	Strangers int // locks of which something is known of strangers
}

// Counts returns the Counts of now.
func (t *Table[H]) Counts() (n Counts) {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		n.Held += s.heldLocked()
		n.HeldFor += s.heldForLocked()
		n.Owners += len(s.ownerWatches)
		n.Strangers += len(s.strangers)
		for q := range s.queues.all() {
			n.Queues++
			n.Waiting += q.line.Waiting()
		}
		n.Queues += len(s.alone)
		s.mu.Unlock()
	}
	return n
}

// WakeAll wakes the first call of each queue.
func (t *Table[H]) WakeAll() {
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		for q := range s.queues.ordered() {
			s.wakeFirstLocked(q)
		}
		s.mu.Unlock()
	}
}

// Adopt makes h the hold of its name. The lease of h must already be watched. w is the call
// that took h, if that call is in a queue. Adopt returns false if the client is closing.
func (t *Table[H]) Adopt(h H, w *Waiter[H]) bool {
	var s *shard[H]
	if w != nil {
		s = w.shard
	} else {
		s = t.shard(h.Name())
	}
	s.mu.Lock()
	if s.closed.Load() {
		s.mu.Unlock()
		return false
	}
	if h.Mode() == Exclusive {
		if w != nil && w.alone {
			s.aloneEndsLocked(w)
		} else {
			s.queueOfLocked(Key{h.Name(), waitqueue.Exclusive})
		}
	}
	other, contradicts := s.addLocked(h)
	ended := s.tookLocked(h, w)
	s.mu.Unlock()
	t.endQueue(ended)
	if contradicts { // one of them is not in Redis any more
		other.Confirm()
		h.Confirm()
	}
	t.catchUp(h)
	return true
}

// catchUp is called when h has just become known. A move of keys before that did not include h, and
// a loss before that found no h to forget.
func (t *Table[H]) catchUp(h H) {
	if t.cfg.Place != nil {
		t.cfg.Place(h)
	}
	if h.IsLeaseLost() {
		t.Forget(h)
	}
}

// Forget removes h if it is still the hold of its name, and lets waiters go on.
func (t *Table[H]) Forget(h H) { t.ForgetAfter(h, RunEnd{}) }

// ForgetAfter is Forget of a hold whose release may have ended a run of hand-overs.
func (t *Table[H]) ForgetAfter(h H, run RunEnd) {
	run.isLookTime = run.Suspects && t.isTimeToLook(h.Name())
	s := t.shard(h.Name())
	s.mu.Lock()
	ended := s.goneLocked(h, run, s.removeLocked(h))
	if s.closed.Load() {
		s.signalIdleLocked()
	}
	s.mu.Unlock()
	for _, q := range ended {
		t.endQueue(q)
	}
}

// Deliver completes the hand-over of h. It makes next the hold of the name and gives next to
// w. next is passed on if w has left, or if Close has begun, because Close does not find next. A
// call of the same owner that re-enters next before that learns of Close, see Hold.CloseBegan. h
// ended by its Unlock, so the queue still has h, and the memory of the queue and of w is not reused
// yet.
func (t *Table[H]) Deliver(h H, w *Waiter[H], next H) {
	s := t.shard(h.Name())
	s.mu.Lock()
	if s.closed.Load() {
		next.CloseBegan() // no caller knows it yet
	}
	s.wakeOwnerWatchesLocked(next)
	before := s.heldLocked()
	other, wasCurrent := s.replaceLocked(h, next)
	s.changedLocked(before)
	s.handedLocked(h, w, next)
	isDoubtful := !wasCurrent || h.IsDoubtful()
	if isDoubtful {
		next.MarkDoubtful() // it may be handed on before it is asked about
	}
	s.mu.Unlock()
	var none H
	if other != none { // one of them is not in Redis any more, as in Adopt
		other.Confirm()
	}
	if isDoubtful {
		next.Confirm()
	}
	t.catchUp(next)
}

// Close refuses acquisitions from now on, makes all waiters give up, and returns the holds.
// Idle tells when there are no more. Close is called once.
func (t *Table[H]) Close() (holds []H) {
	for i := range t.shards {
		holds = append(holds, t.shards[i].close()...)
	}
	return holds
}

// Idle is closed when Close was called and there is neither hold nor call.
func (t *Table[H]) Idle() <-chan struct{} { return t.idle }

// Wait waits until no timer of the Table runs. Close was called.
func (t *Table[H]) Wait() { t.timers.Wait() }

// Now is the time for Lines and Probes.
func (t *Table[H]) Now() waitqueue.Instant { return waitqueue.Instant(time.Since(t.start)) }

// Instant returns the value of Now at then.
func (t *Table[H]) Instant(then time.Time) waitqueue.Instant {
	return waitqueue.Instant(then.Sub(t.start))
}

// heard returns what l has received, in the form for a Probe.
func (t *Table[H]) heard(l *pubsub.Listener) waitqueue.Heard {
	news := l.News()
	return waitqueue.Heard{Confirmed: news.Confirmed, Messages: news.Messages, Upto: t.Instant(news.Upto)}
}
