package lock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// waiter is one call that takes an object. It stands in the object's queue, most for
// the time of one try, and does what the queue's Line says. Its fields are its
// goroutine's but for those that shard.mu guards.
type waiter struct {
	// immutable
	c     *Client
	shard *shard
	key   queueKey
	wants wants
	needs int64 // how much of what there is, at least 1
	owned bool  // its owner may be others' too, who may hold the object
	final bool  // an unknown outcome ends it

	caller caller   // guarded by shard.mu
	q      *queue   // nil until it has joined
	mine   *outlook // of a FairMutex that waits; nil: the queue's, which the first in line uses

	// guarded by shard.mu
	wake chan struct{} // of capacity 1: look again; nil until it sleeps for the first time

	mark     waitqueue.Mark    // of its last try
	asked    waitqueue.Instant // when that began
	stranger bool              // at that, a stranger held the object
	more     int64             // at that, how many hand-overs might follow inside the client
	again    time.Duration     // and in how long it tries again, because no message reaches it; 0: one may
	spread   float64           // from 0 to 1: how much sooner it tries again than MaxPoll
	last     error             // what the last try that was answered, or failed, said
	waited   bool              // it had to wait
	unknowns int               // unknown outcomes in a row, but for those that the queue's Probe counts
	warned   bool
	outlived bool // its queue ended when it left
}

// newWaiter returns a waiter that has not joined yet. It is given to endWaiter.
func (t *tables) newWaiter(k queueKey, wants wants) *waiter {
	w, _ := t.spareWaiters.Get().(*waiter)
	if w == nil {
		w = &waiter{}
	}
	s := t.shard(k.name)
	w.c, w.shard, w.key, w.wants, w.needs = s.c, s, k, wants, 1
	w.caller.User = w
	return w
}

// endWaiter is called when w has left its queue and is not needed any more.
func endWaiter(w *waiter) {
	if !w.outlived {
		return // the Line may have it in mind, as what a hold came with, and an Unlock in hand
	}
	select {
	case <-w.wake:
	default:
	}
	t := w.shard.tables
	*w = waiter{wake: w.wake} // it keeps no Held
	t.spareWaiters.Put(w)
}

// wants is what a waiter wants.
type wants interface {
	// probe sends the script that takes it, once. What it said has what the answer says of
	// the next probe, apart from its outcome, which is in err: nil, ErrNotAcquired or
	// ErrUnknown, or another that says nothing of the object. If it brought a hold, the
	// queue was told.
	probe(ctx context.Context) (said waitqueue.Answer, err error)
	// reenter takes it by right of h, which its owner has, or returns errGone.
	reenter(ctx context.Context, h *hold) error
	// follows reports whether h can go on to it: by a script alone at the end of a run.
	follows(h *hold, over bool) bool
	// take takes h, which was handed over.
	take(h *hold)
	// barred is the error of one whose owner has h and cannot get another.
	barred(h *hold) error
	// channel is where it is told of a release.
	channel() string
	// refusal is the error of one that does not ask: by what the client knows another
	// has the object for so long.
	refusal(ttl time.Duration) error
}

// unowned is for objects that no owner re-enters, and that are not handed over.
type unowned struct{}

func (unowned) reenter(context.Context, *hold) error { return errGone }
func (unowned) follows(*hold, bool) bool             { return false }
func (unowned) take(*hold)                           {}
func (unowned) barred(*hold) error                   { return nil }

// outlook says when w, which probes, does so next. It has joined.
func (w *waiter) outlook() *outlook {
	if w.mine != nil {
		return w.mine
	}
	return &w.q.outlook
}

// turn is what a waiter is to do.
type turn struct {
	waitqueue.Instruction[*hold]
	line   bool          // it has the outlook, and asks Redis: of DoProbe
	first  bool          // it has it, and asks Redis next: of DoWait
	in     time.Duration // so soon; or a call that does not wait, beside the line
	listen bool          // and it listens until then
}

// run is the body of the call. It returns when the waiter has what it wants, or leaves.
func (w *waiter) run(ctx context.Context) error {
	defer w.leave()
	for ctx.Err() == nil {
		t := w.look(ctx)
		var said waitqueue.Answer
		var err error
		switch t.Do {
		case waitqueue.DoTake:
			w.wants.take(t.Hold)
			return nil
		case waitqueue.DoReturn:
			return nil
		case waitqueue.DoGiveUp:
			if t.Hold != nil {
				w.c.tables.doubt(t.Hold)
				return w.wants.barred(t.Hold)
			}
			return closedError(w.key.name)
		case waitqueue.DoRefuse:
			return w.refused()
		case waitqueue.DoWait:
			w.wait(ctx, t)
			continue
		case waitqueue.DoReenter:
			if err = w.wants.reenter(ctx, t.Hold); err == errGone {
				w.awaitEnd(ctx, t.Hold)
				continue
			}
		case waitqueue.DoProbe:
			if said, err = w.wants.probe(ctx); err == nil {
				w.got(said)
			}
		}
		if err == nil {
			return nil
		}
		if over := w.failed(ctx, t, said, err); over != nil {
			return over
		}
	}
	return w.left(ctx)
}

// look reads w's instruction, and begins what it says. At the first time w joins its
// queue.
func (w *waiter) look(ctx context.Context) turn {
	c, s := w.c, w.shard
	var ended *queue
	defer func() { c.tables.endQueue(ended) }()
	sounding := w.waited && w.key.kind == mutexQueue && c.sounding(w.key.name)
	end, limited := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.q == nil {
		s.joinLocked(w)
	}
	q, o, t := w.q, w.outlook(), turn{}
	t.Instruction = q.line.Instruction(&w.caller)
	switch t.Do {
	case waitqueue.DoTake:
		w.q = nil
		s.stepLocked(q.line.Take(&w.caller))
		ended = s.dropLocked(q)
		w.outlived = ended != nil
	case waitqueue.DoWait:
		w.sleepsLocked()
		s.watchQueueLocked(q)
	case waitqueue.DoProbe:
		now := c.tables.now()
		first := w.mine != nil || q.line.First() == &w.caller
		heard := waitqueue.Heard{}
		if first {
			heard = c.tables.heard(&o.listener)
			o.probe.Hear(now, heard)
		}
		due := w.yieldLocked(end, limited, now, sounding)
		if first && due > 0 {
			due = o.probe.DueAt(due, w.needs)
		} else if first {
			due = o.probe.Due(w.needs)
		}
		if due > now {
			w.sleepsLocked()
			t.Do, t.first, t.in, t.listen = waitqueue.DoWait, first, time.Duration(due-now), o.refused
			break
		}
		if w.asked, w.stranger = now, false; first {
			w.mark, t.line = o.probe.Began(now), true
			w.forecastLocked(heard.Confirmed == 0)
		} else {
			w.mark = o.probe.Beside()
		}
		s.stepLocked(q.line.Began(&w.caller))
	}
	return t
}

// forecastLocked works out what may come after the try of the first in line, which
// begins now. deaf: its subscription was never confirmed.
func (w *waiter) forecastLocked(deaf bool) {
	w.more, w.again = 0, 0
	if w.q.line.Len() > 1 {
		w.more = int64(w.q.line.Ahead(true))
	}
	if w.mine == nil && w.q.refused && deaf {
		w.spread = max(rand.Float64(), 0.2) // two of them, and what they take, are less than two MaxPolls
		w.again = w.c.tables.pacing[w.key.kind].Poll(w.spread)
	}
}

// sleepsLocked is called before w sleeps, by the step that has read its instruction.
func (w *waiter) sleepsLocked() {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
}

// wakeLocked makes w look again.
func (w *waiter) wakeLocked() {
	if w.wake != nil { // else it has not slept yet
		signal(w.wake)
	}
}

func signal(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// warnAfter is how long a wait on a lock of this very client goes on before it
// is warned about: it may be an owner that was lost on the way.
const warnAfter = 10 * time.Second

// wait waits until w is woken or, if it is to ask Redis next, until that is due. It
// does not wait if it begins to listen.
func (w *waiter) wait(ctx context.Context, t turn) {
	w.waited = true
	var heard <-chan struct{}
	var due <-chan time.Time
	switch {
	case !t.first && t.in > 0: // a call that does not wait leaves a release to strangers
		timer := time.NewTimer(t.in)
		defer timer.Stop()
		due = timer.C
	case t.first:
		l := &w.outlook().listener
		if t.listen && l.Listen(w.c.router.Server(w.key.name).Subscriber(), w.wants.channel()) {
			return // what was heard before is news
		}
		heard = l.Wake()
		timer := time.NewTimer(t.in)
		defer timer.Stop()
		due = timer.C
	case !w.warned:
		timer := time.NewTimer(warnAfter)
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-w.wake:
	case <-heard:
	case <-due:
		if !t.first && t.in == 0 {
			w.warn()
		}
	case <-ctx.Done():
	}
}

// warn says once that w waits for a lock of this client.
func (w *waiter) warn() {
	w.warned = true
	if w.key.kind == mutexQueue && w.c.tables.lookup(w.key.name) != nil {
		w.c.cfg.Logger.Warn("lock: still waiting for a lock that this client itself holds: "+
			"unlock it, or use the context of its Held to re-enter", "name", w.key.name, "waited", warnAfter)
	}
}

// awaitEnd waits until the queue knows that h, which cannot be re-entered, has
// ended. The goroutine that ends a hold tells the queue without I/O.
func (w *waiter) awaitEnd(ctx context.Context, h *hold) {
	if h.is(lost) {
		w.c.tables.forget(h)
		return
	}
	w.shard.mu.Lock()
	known := w.q.line.Instruction(&w.caller).Do != waitqueue.DoReenter
	w.sleepsLocked()
	w.shard.mu.Unlock()
	if known {
		return
	}
	select {
	case <-w.wake:
	case <-ctx.Done():
	}
}

// got tells the queue of a try that brought what w wants, if that was no hold.
func (w *waiter) got(said waitqueue.Answer) {
	if w.q == nil {
		return
	}
	c, s := w.c, w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	said.Outcome = waitqueue.Taken
	w.outlook().probe.Answered(c.tables.now(), w.mark, said)
	if w.key.kind == latchQueue {
		s.stepLocked(w.q.line.Opened(&w.caller))
	}
	s.wakeFirstLocked(w.q)
}

// failed notes how a try or a re-entry has failed. It returns the error of a call
// that is over.
func (w *waiter) failed(ctx context.Context, t turn, said waitqueue.Answer, err error) error {
	if t.Do == waitqueue.DoReenter {
		return w.notReentered(ctx, err)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) { // the try was left, not answered
		if w.caller.Try {
			return err
		}
		if w.last == nil {
			w.last = err
		}
		return w.left(ctx)
	}
	w.last = err
	refused, unknown := errors.Is(err, ErrNotAcquired), errors.Is(err, ErrUnknown)
	w.answered(said, err)
	if refused && w.key.kind.exclusive() {
		w.c.tables.doubtName(w.key.name)
	}
	switch {
	case refused, unknown && !w.c.cfg.FailFast && !w.final, w.caller.Try:
		w.waited = true
		if unknown && !t.line {
			w.backOff(ctx)
		}
		return nil // its instruction says how it goes on
	case ctx.Err() != nil:
		return newWaitError(ctx, w.key.name, err)
	}
	return err
}

// answered tells the queue what a try has brought that brought nothing.
func (w *waiter) answered(said waitqueue.Answer, err error) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	q, o, now := w.q, w.outlook(), w.c.tables.now()
	switch {
	case errors.Is(err, ErrNotAcquired):
		o.refused = true
		s.refusedLocked(w, now)
		if w.again == 0 && w.mine == nil { // else it has said when it tries again
			w.spread = rand.Float64()
		}
		var other *HeldError
		if errors.As(err, &other) {
			q.heldUntil = time.Now().Add(max(other.TTL, 0))
		}
		said.Outcome, said.Spread = waitqueue.Refused, w.spread
		o.probe.Answered(now, w.mark, said)
		s.stepLocked(q.line.Refused(&w.caller))
	case errors.Is(err, ErrUnknown):
		o.probe.Answered(now, w.mark, waitqueue.Answer{Outcome: waitqueue.Unknown, Spread: rand.Float64()})
		fallthrough
	default: // Redis said no to this request, which says nothing of the object
		s.stepLocked(q.line.Unanswered(&w.caller))
	}
	if w.mine == nil && q.line.First() != &w.caller {
		s.wakeFirstLocked(q)
	}
}

func (w *waiter) notReentered(ctx context.Context, err error) error {
	w.last = err
	switch {
	case w.caller.Try:
		return err
	case ctx.Err() != nil:
		return newWaitError(ctx, w.key.name, err)
	case !errors.Is(err, ErrUnknown) || w.c.cfg.FailFast:
		return err
	}
	w.waited = true
	w.backOff(ctx)
	return nil
}

// backOff waits after an unknown outcome of which the queue's Probe knows nothing.
func (w *waiter) backOff(ctx context.Context) {
	_ = wait.Pause(ctx, w.c.closing, wait.Backoff(w.unknowns))
	w.unknowns++
}

// refused is the error of a call that does not wait.
func (w *waiter) refused() error {
	if w.last != nil {
		return w.last
	}
	return w.wants.refusal(max(time.Until(w.heldUntil()), 0))
}

// left is the error of a wait that ctx ended. A waiter that never asked Redis
// uses what other callers of this client know.
func (w *waiter) left(ctx context.Context) error {
	if w.last == nil && w.q != nil {
		if d := time.Until(w.heldUntil()); d > 0 {
			w.last = w.wants.refusal(d)
		}
	}
	return newWaitError(ctx, w.key.name, w.last)
}

// heldUntil is when the lease of the holder of w's object ends, as far as this
// client's own hold and its waiters know.
func (w *waiter) heldUntil() time.Time {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.holds.get(w.key.name); w.key.kind.exclusive() && h != nil && !h.is(lost) {
		return h.lease.Deadline()
	}
	return w.q.heldUntil
}

// leave takes w out of its queue, wherever it stands.
func (w *waiter) leave() {
	if w.q == nil {
		return
	}
	s := w.shard
	s.mu.Lock()
	s.stepLocked(w.q.line.Leave(&w.caller))
	ended := s.dropLocked(w.q)
	s.mu.Unlock()
	w.outlived = ended != nil
	w.c.tables.endQueue(ended)
}
