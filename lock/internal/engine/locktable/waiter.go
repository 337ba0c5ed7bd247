package locktable

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// ForeignPoll is how long a waiter sleeps at most while another library has the
// lock. Such a library publishes no release.
const ForeignPoll = 250 * time.Millisecond

// Waiter is one call that takes an object. It is in the object's queue, mostly for the
// time of one try, and does what the queue's Line says. Only its goroutine uses its
// fields, except those that shard.mu guards. While it asks without a queue, another call may make
// the queue, and then sets q and mark under shard.mu.
type Waiter[H Hold] struct {
	// immutable
	table       *Table[H]
	shard       *shard[H]
	key         Key
	wants       Acquisition[H]
	needs       int64 // how much of what there is, at least 1
	sharesOwner bool  // other calls may have the same owner, and hold the object
	final       bool  // an unknown outcome ends it

	caller     waitqueue.Caller[owner.Owner, H] // guarded by shard.mu
	q          *queue[H]                        // nil until it has joined
	ownOutlook *outlook                         // of a call with Request.Alone; nil: the queue's is used by the first in line

	// guarded by shard.mu
	wake chan struct{} // of capacity 1: look again; nil until it sleeps for the first time

	mark           waitqueue.Mark    // of its last try
	lastTryAt      waitqueue.Instant // when its last try began
	stranger       bool              // a stranger held the object at its last try
	maxHandOvers   int64             // how many hand-overs inside the client might follow its last try
	retryIn        time.Duration     // after a refusal it tries again so soon, as no message reaches it; 0: one may
	spread         float64           // from 0 to 1: how much sooner it tries again than MaxPoll
	last           wire.Outcome      // of the last try that was answered, or failed
	unsure         bool              // Redis may have carried out a try that it has not answered
	told           bool              // a message had come between its last two tries
	waited         bool              // it had to wait
	unknowns       int               // unknown outcomes in a row, without the ones that the queue's Probe counts
	since          waitqueue.Instant // when it first asked in vain; 0: not yet
	warned         bool
	alone          bool // it began to ask without a queue, and another call may have made one since; of its own goroutine
	isUnreferenced bool // no queue refers to it any more
}

// NewWaiter returns a Waiter that has not joined its queue yet. Run is called once, and End
// after that.
func (t *Table[H]) NewWaiter(k Key, wants Acquisition[H], r Request) *Waiter[H] {
	w, _ := t.spareWaiters.Get().(*Waiter[H])
	if w == nil {
		w = &Waiter[H]{}
	}
	w.table, w.shard, w.key, w.wants = t, t.shard(k.Name), k, wants
	w.needs, w.sharesOwner, w.final = max(r.Needs, 1), r.SharesOwner, r.Final
	w.caller.User, w.caller.Owner, w.caller.NoWait, w.caller.Shared = w, r.Owner, r.NoWait, r.Reading
	if r.Alone {
		w.ownOutlook = &outlook{probe: waitqueue.NewProbe(&t.pacing[k.Kind]), listener: pubsub.NewListener(make(chan struct{}, 1))}
	}
	return w
}

// End is called when Run has returned. The Waiter is not used any more.
func (w *Waiter[H]) End() {
	if w.ownOutlook != nil {
		w.ownOutlook.listener.Leave()
	}
	if !w.isUnreferenced {
		return // a hold in the Line may be a part of its Caller, and an Unlock may have it as the next call
	}
	select {
	case <-w.wake:
	default:
	}
	t := w.table
	*w = Waiter[H]{wake: w.wake} // it keeps no Held
	t.spareWaiters.Put(w)
}

// Waited reports whether it had to wait until now.
func (w *Waiter[H]) Waited() bool { return w.waited }

// Forecast returns what may follow the try that runs. If the try brings a hold, up to handOvers
// hand-overs may follow inside the client. If the try is refused and no message reaches this client, the
// next try comes after again. again is 0 if a message may reach it.
func (w *Waiter[H]) Forecast() (handOvers int64, again time.Duration) {
	return w.maxHandOvers, w.retryIn
}

// Told reports, of a call that asks by itself, whether a message led to the try that runs.
func (w *Waiter[H]) Told() bool { return w.told }

// outlook returns the outlook by which w asks Redis. w has joined its queue.
func (w *Waiter[H]) outlook() *outlook {
	if w.ownOutlook != nil {
		return w.ownOutlook
	}
	return &w.q.outlook
}

// decision is what a waiter is to do.
type decision[H Hold] struct {
	waitqueue.Instruction[H]
	byOutlook bool          // with DoProbe: its outlook has decided that it asks Redis now
	isFirst   bool          // with DoWait: its outlook decides when it asks Redis
	in        time.Duration // with DoWait: how soon it asks Redis; 0: that is not known
	listen    bool          // with isFirst: it listens until then
}

// Run is the body of the call. It returns when the waiter has what it wants, or leaves. The Outcome
// is the outcome of the last try. Its End is set if the call ended for another reason.
func (w *Waiter[H]) Run(ctx context.Context) wire.Outcome {
	defer w.leave()
	for wait.Ended(ctx) == nil {
		t := w.decide(ctx)
		var o wire.Outcome
		switch t.Do {
		case waitqueue.DoTake:
			w.wants.Take(t.Hold)
			return wire.Outcome{Result: wire.Granted}
		case waitqueue.DoReturn:
			return wire.Outcome{Result: wire.Granted}
		case waitqueue.DoGiveUp:
			var none H
			if t.Hold != none {
				w.table.doubt(t.Hold)
				return w.wants.RefuseDeadlock(t.Hold)
			}
			w.last.End = wire.ByClose
			return w.last
		case waitqueue.DoRefuse:
			return w.refused()
		case waitqueue.DoWait:
			w.wait(ctx, t)
			continue
		case waitqueue.DoReenter:
			if o = w.wants.Reenter(ctx, t.Hold); o.Result == wire.Gone {
				w.awaitEnd(ctx, t.Hold)
				continue
			}
		case waitqueue.DoProbe:
			if o = w.wants.Try(ctx); o.Result == wire.Granted && w.q != nil {
				w.got(o)
			}
		}
		if o.Result == wire.Granted {
			return o
		}
		if w.failed(ctx, t, o) {
			return w.last
		}
	}
	return w.left()
}

// decide reads w's instruction and begins to follow it. At its first call, w joins its queue.
func (w *Waiter[H]) decide(ctx context.Context) decision[H] {
	table, s := w.table, w.shard
	var ended *queue[H]
	defer func() { table.endQueue(ended) }()
	isLookTime := w.waited && w.key.Kind == waitqueue.Exclusive && table.isTimeToLook(w.key.Name)
	end, limited := ctx.Deadline()
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.q == nil {
		if s.asksAloneLocked(w) {
			return decision[H]{Instruction: waitqueue.Instruction[H]{Do: waitqueue.DoProbe}, byOutlook: true}
		}
		s.joinLocked(w)
	}
	q, o, t := w.q, w.outlook(), decision[H]{}
	t.Instruction = q.line.Instruction(&w.caller)
	switch t.Do {
	case waitqueue.DoTake:
		w.q = nil
		s.stepLocked(q.line.Take(&w.caller))
		ended = s.dropLocked(q)
		w.isUnreferenced = ended != nil
	case waitqueue.DoWait:
		w.sleepsLocked()
		s.watchQueueLocked(q)
	case waitqueue.DoProbe:
		now := table.Now()
		first := w.ownOutlook != nil || q.line.First() == &w.caller
		heard := waitqueue.Heard{}
		if first {
			heard = table.heard(&o.listener)
			o.probe.Hear(now, heard)
		}
		due := w.yieldUntilLocked(end, limited, now, isLookTime)
		switch {
		case first && due > 0:
			due = o.probe.DueAt(due, w.needs)
		case first:
			due = o.probe.Due(w.needs)
		case w.last.Result == wire.Refused && !w.caller.NoWait: // its owner has a hold that Redis does not know
			due = max(due, w.lastTryAt.Add(table.pacing[w.key.Kind].Poll(w.spread)))
		}
		if due > now {
			w.sleepsLocked()
			t.Do, t.isFirst, t.in = waitqueue.DoWait, first, time.Duration(due-now)
			t.listen = o.refused || o.probe.AwaitsSilentClient(now)
			break
		}
		w.told = w.ownOutlook != nil && o.probe.HasMessage()
		if w.lastTryAt, w.stranger = now, false; first {
			w.mark, t.byOutlook = o.probe.Began(now), true
			w.forecastLocked(heard.Confirmed == 0)
		} else {
			w.mark = o.probe.BeganBeside()
		}
		s.stepLocked(q.line.Began(&w.caller))
	}
	return t
}

// forecastLocked works out what may come after the try of the first in line, which
// begins now. deaf: its subscription was never confirmed.
func (w *Waiter[H]) forecastLocked(deaf bool) {
	w.maxHandOvers, w.retryIn = 0, 0
	if w.q.line.Len() > 1 {
		w.maxHandOvers = int64(w.q.line.Ahead(true))
	}
	if w.ownOutlook == nil && w.q.refused && deaf {
		w.spread = max(w.table.cfg.Random.Float64(), 0.2) // two such waits with their tries take less than two MaxPolls
		w.retryIn = w.table.pacing[w.key.Kind].Poll(w.spread)
	}
}

// sleepsLocked is called before w sleeps, by the step that has read its instruction.
func (w *Waiter[H]) sleepsLocked() {
	if w.wake == nil {
		w.wake = make(chan struct{}, 1)
	}
}

// wakeLocked makes w look again.
func (w *Waiter[H]) wakeLocked() {
	if w.wake != nil { // else it has not slept yet
		wait.Signal(w.wake)
	}
}

// warnAfter is how long a wait goes on before it is warned about. If this very client holds
// the lock, the caller may have lost the owner that is in the holder's context.
const warnAfter = 10 * time.Second

// wait waits until w is woken or, if it is to ask Redis next, until that is due. It
// does not wait if it begins to listen.
func (w *Waiter[H]) wait(ctx context.Context, t decision[H]) {
	w.waited = true
	var heard <-chan struct{}
	var due <-chan time.Time
	switch {
	case !t.isFirst && t.in > 0: // it leaves a release to strangers, or was refused
		timer := time.NewTimer(t.in)
		defer timer.Stop()
		due = timer.C
	case t.isFirst:
		l := &w.outlook().listener
		if t.listen && l.Listen(w.table.cfg.Subscriber(w.key.Name), w.wants.Channel()) {
			return // look reads what the new subscription has received
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
		if !t.isFirst && t.in == 0 {
			w.warn()
		}
	case <-ctx.Done():
	}
}

// warn says once that w waits for a lock of this client.
func (w *Waiter[H]) warn() {
	w.warned = true
	if w.key.Kind == waitqueue.Exclusive && w.held() {
		w.table.cfg.Logger.Log(record.WaitsForItself, w.key.Name, warnAfter)
	}
}

// held reports whether this client has the exclusive hold of w's name.
func (w *Waiter[H]) held() bool {
	w.shard.mu.Lock()
	defer w.shard.mu.Unlock()
	_, held := w.shard.holds.get(w.key.Name)
	return held
}

// awaitEnd waits until the queue knows that h, which cannot be re-entered, has
// ended. The goroutine that ends a hold tells the queue without I/O.
func (w *Waiter[H]) awaitEnd(ctx context.Context, h H) {
	if h.IsLost() {
		w.table.Forget(h)
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

// got tells the queue that a try has brought what w wants. For a hold, tookLocked has done that.
func (w *Waiter[H]) got(o wire.Outcome) {
	s := w.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	out, now := w.outlook(), w.table.Now()
	out.probe.Took(now, w.mark, o.Free)
	out.noteAnswer(now)
	if w.key.Kind == waitqueue.Latch {
		s.stepLocked(w.q.line.Opened(&w.caller))
	}
	s.wakeFirstLocked(w.q)
}

// leave takes w out of its queue, wherever it stands.
func (w *Waiter[H]) leave() {
	if !w.alone && w.q == nil { // while alone is set, another goroutine may set w.q
		return
	}
	s := w.shard
	s.mu.Lock()
	if w.alone && s.aloneEndsLocked(w) {
		s.mu.Unlock()
		return
	}
	s.stepLocked(w.q.line.Leave(&w.caller))
	ended := s.dropLocked(w.q)
	s.mu.Unlock()
	w.isUnreferenced = ended != nil
	w.table.endQueue(ended)
}
