package lock

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// acquire is all four ways to take a RedLock.
func (r *RedLock) acquire(ctx context.Context, t terms) (*MultiHeld, error) {
	if t.wait && overdue(ctx) {
		t.wait, t.polite = false, true
		first := r.members[0]
		return once(ctx, first.c.cfg.IOTimeout, first.name, func(ctx context.Context) (*MultiHeld, error) { return r.acquire(ctx, t) })
	}
	if !t.renewed {
		if err := checkLease(r.members[0].name, t.lease); err != nil {
			return nil, err
		}
		if t.lease > r.cfg.LongestLease {
			return nil, fmt.Errorf("lock: %q: the lease is %v: it must be at most RedLockConfig.LongestLease, %v", r.members[0].name, t.lease, r.cfg.LongestLease)
		}
	}
	o, err := r.members[0].c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	w := &redWait{r: r, terms: t, owner: o, shared: carriesOwner(ctx), wake: make(chan struct{}, 1)}
	w.probe = waitqueue.NewProbe(&r.pacing)
	ctx = owner.With(ctx, o, nil)
	reenters := w.owns(ctx)
	if busy := r.line.busy(); busy && t.polite && !reenters {
		return nil, &HeldError{Name: r.members[0].name}
	} else if !t.wait || reenters || !busy {
		mark := w.probe.Began(r.now())
		held, err := w.ask(ctx)
		if err == nil {
			return held, nil
		}
		if ctx.Err() != nil {
			return nil, &waitError{name: r.members[0].name, errs: []error{ctx.Err(), err}}
		}
		if !t.wait || !r.passing(err) {
			return nil, err
		}
		w.answered(mark, err)
	}
	if !reenters {
		r.line.join(w)
		defer r.line.leave(w)
	}
	if w.shared {
		for _, m := range r.members {
			defer m.c.table.WatchOwner(m.name, o, w.wake)()
		}
	}
	defer w.deafen()
	return w.run(ctx)
}

// passing reports whether another attempt may do better.
func (r *RedLock) passing(err error) bool {
	var q *QuorumError
	if errors.As(err, &q) && q.final() {
		return false
	}
	if errors.Is(err, ErrUnknown) {
		return !slices.ContainsFunc(r.members, func(m *Mutex) bool { return m.c.cfg.FailFast })
	}
	return errors.Is(err, ErrNotAcquired)
}

// redWait is one waiting call of Lock.
type redWait struct {
	r *RedLock
	terms
	owner  owner.Owner
	shared bool          // others may have the owner too, and get the lock first
	wake   chan struct{} // of capacity 1: look again

	place *list.Element // in the line; nil if it does not queue; guarded by line.mu

	nudged atomic.Bool // it became the head, or the lock was unlocked in this process

	last    error  // what the last attempt said; nil before the first
	awaited bool   // another call's attempt, see probe
	owned   []bool // of each member: its owner had it before the last attempt; nil before the first

	probe     waitqueue.Probe
	listeners []pubsub.Listener // for the members' channels; nil before the first refusal
	seen      []pubsub.News     // of each of them, when last looked at
	heard     waitqueue.Heard   // how much of that came from members that refused
	ended     []bool            // of each member: its client had begun to close before the last attempt; nil before the second
	clashes   int               // attempts in a row that got some members and no quorum
}

// run tries, when it is its turn and there is a reason to, until it has the
// lock or leaves.
func (w *redWait) run(ctx context.Context) (*MultiHeld, error) {
	for slept := false; ; {
		switch due := w.due(ctx); {
		case ctx.Err() != nil:
			return nil, w.left(ctx)
		case !w.r.line.isHead(w) && !w.owns(ctx):
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
			continue
		case due > 0:
			if w.listen() {
				w.sleep(ctx, due)
				slept = true
			}
			continue
		case slept:
			slept = false
			_ = wait.Pause(ctx, nil, w.clash()) // a release comes member by member
			continue
		}
		w.noteEnded()
		mark := w.probe.Began(w.r.now())
		held, err := w.ask(ctx)
		if err == nil {
			return held, nil
		}
		if ctx.Err() == nil || w.last == nil {
			w.answered(mark, err) // else it was left, not answered
		}
		if ctx.Err() == nil && !w.r.passing(err) {
			return nil, err
		}
	}
}

// ask is one attempt. Those of one owner come one after the other, so that one
// does not take what the other got of members for a hold.
func (w *redWait) ask(ctx context.Context) (*MultiHeld, error) {
	if !w.shared {
		return w.r.askAll(ctx, w.terms, w.owner)
	}
	for p := w.r.line.begin(w.owner); p != nil; p = w.r.line.begin(w.owner) {
		known := p.await(ctx, &w.awaited)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case known != nil && !w.wait:
			return nil, known
		}
	}
	w.owned = w.r.heldBy(ctx)
	held, err := w.r.askAll(ctx, w.terms, w.owner)
	w.r.line.end(ctx, w.owner, err)
	return held, err
}

// heldBy says of each member whether the owner of ctx has it.
func (r *RedLock) heldBy(ctx context.Context) []bool {
	held := make([]bool, len(r.members))
	for i, m := range r.members {
		held[i] = m.HeldBy(ctx)
	}
	return held
}

// owns reports whether the owner has a member. Such an owner never queues
// behind others, because they may wait for it.
func (w *redWait) owns(ctx context.Context) bool {
	return w.shared && w.r.line.settle(ctx, w.owner) && slices.Contains(w.r.heldBy(ctx), true)
}

// ownsMore reports whether the owner has a member that it had not when the last
// attempt began.
func (w *redWait) ownsMore(ctx context.Context) bool {
	if !w.shared || !w.r.line.settle(ctx, w.owner) {
		return false
	}
	for i, held := range w.r.heldBy(ctx) {
		if held && (w.owned == nil || !w.owned[i]) {
			return true
		}
	}
	return false
}

func (w *redWait) left(ctx context.Context) error {
	e := &waitError{name: w.r.members[0].name, errs: []error{ctx.Err()}}
	if w.last != nil {
		e.errs = append(e.errs, w.last)
	}
	return e
}

// due is how long it is until another attempt makes sense: a member that refused was
// released, or may have been, or enough leases are over, or the owner has got a member.
func (w *redWait) due(ctx context.Context) time.Duration {
	if w.nudged.Swap(false) {
		w.probe.Freed()
	}
	var q *QuorumError
	errors.As(w.last, &q)
	for i := range w.listeners {
		news := w.listeners[i].News()
		if q != nil && q.held[i] {
			if news.Confirmed != w.seen[i].Confirmed {
				w.heard.Confirmed++
			}
			if news.Messages != w.seen[i].Messages {
				w.heard.Messages++
			}
		}
		w.seen[i] = news
	}
	now := w.r.now()
	w.probe.Hear(now, w.heard)
	if w.last != nil && w.ownsMore(ctx) {
		return 0
	}
	return time.Duration(w.probe.Due(1) - now)
}

// answered notes what an attempt said.
func (w *redWait) answered(m waitqueue.Mark, err error) {
	w.last = err
	var q *QuorumError
	errors.As(err, &q)
	if q == nil || q.Acquired == 0 {
		w.clashes = 0
	} else {
		w.clashes++ // those who got some members each, and gave them back, must part
	}
	a := waitqueue.Answer{Spread: w.r.random().Float64()}
	switch {
	case errors.Is(err, ErrUnknown) || q == nil:
		a.Outcome = waitqueue.Unknown
	case q.Held > 0:
		a.TTL = q.TTL
		if q.foreign {
			a.Within = foreignPoll
		}
	default:
		a.Outcome = waitqueue.Young // a restarted member has no vote yet
	}
	w.probe.Answered(w.r.now(), m, a)
}

func (w *redWait) clash() time.Duration {
	return wait.Upto(w.r.random(), time.Millisecond<<min(w.clashes, 7)) + time.Millisecond
}

// sleep waits until it is woken, at most d, or until ctx ends or a client begins to
// close that did not before.
func (w *redWait) sleep(ctx context.Context, d time.Duration) {
	end := time.NewTimer(d)
	defer end.Stop()
	cases := []reflect.SelectCase{receive(w.wake), receive(end.C), receive(ctx.Done())}
	for i, m := range w.r.members {
		if w.ended == nil || !w.ended[i] { // else the last attempt noticed that
			cases = append(cases, receive(m.c.closing))
		}
	}
	if i, _, _ := reflect.Select(cases); i > 2 {
		w.probe.Freed() // the attempt tells what is left
	}
}

func receive(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// listen listens to all members. It returns false if it did not before: what there
// is to hear is news then.
func (w *redWait) listen() bool {
	if w.listeners == nil {
		w.listeners = slices.Repeat([]pubsub.Listener{pubsub.NewListener(w.wake)}, len(w.r.members))
		w.seen = make([]pubsub.News, len(w.r.members))
	}
	did := true
	for i, m := range w.r.members {
		did = !w.listeners[i].Listen(m.c.router.Server(m.name).Subscriber(), m.rules().channel(m.name)) && did
	}
	return did
}

// noteEnded notes before an attempt whose clients are closing.
func (w *redWait) noteEnded() {
	w.ended = w.ended[:0]
	for _, m := range w.r.members {
		w.ended = append(w.ended, wait.Closed(m.c.closing))
	}
}

func (w *redWait) deafen() {
	for i := range w.listeners {
		w.listeners[i].Leave()
	}
}

// probe is a question whose answer other calls of the same owner wait for: two
// that ask at once would refuse each other.
type probe struct {
	done chan struct{} // closed when it is over
	err  error         // immutable then: a refusal or an unknown outcome; nil if it was anything else
}

// saidBy is what a call with ctx was answered, as far as it is of use to others; nil if the
// call was left.
func saidBy(ctx context.Context, err error) error {
	if ctx.Err() == nil && (errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUnknown)) {
		return err
	}
	return nil
}

// finish ends the probe; said is what saidBy returns. No context is asked under a mutex,
// because one that a Held has given out may then end a hold.
func (p *probe) finish(said error) {
	p.err = said
	close(p.done)
}

// await waits for the end of p, of another call, or of ctx. known is what it
// said, if it began after this call, which awaited another one before.
func (p *probe) await(ctx context.Context, awaited *bool) (known error) {
	select {
	case <-p.done:
	case <-ctx.Done():
		return nil
	}
	if *awaited {
		known = p.err
	}
	*awaited = true
	return known
}

// line is the queue of the callers in this process that wait for a RedLock,
// first come first served. Only its head asks the servers.
type line struct {
	mu     sync.Mutex             // guards what follows
	queue  list.List              // of *redWait
	asking map[owner.Owner]*probe // the attempt under way of an owner that others may have too
}

// begin notes that an attempt of o is under way. If another one is already it
// returns that.
func (l *line) begin(o owner.Owner) *probe {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.asking[o]; p != nil {
		return p
	}
	if l.asking == nil {
		l.asking = make(map[owner.Owner]*probe)
	}
	l.asking[o] = &probe{done: make(chan struct{})}
	return nil
}

// end undoes begin; err is what the attempt said.
func (l *line) end(ctx context.Context, o owner.Owner, err error) {
	said := saidBy(ctx, err)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking[o].finish(said)
	delete(l.asking, o)
}

// settle waits until no attempt of o is under way; false if ctx ends before.
func (l *line) settle(ctx context.Context, o owner.Owner) bool {
	l.mu.Lock()
	p := l.asking[o]
	l.mu.Unlock()
	if p == nil {
		return true
	}
	select {
	case <-p.done:
		return true
	case <-ctx.Done():
		return false
	}
}

func (l *line) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue.Len() > 0
}

func (l *line) join(w *redWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.place = l.queue.PushBack(w)
}

func (l *line) leave(w *redWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	wasHead := l.queue.Front() == w.place
	l.queue.Remove(w.place)
	if wasHead {
		l.nudgeLocked()
	}
}

// isHead reports whether it is w's turn. A caller that does not queue needs no
// turn.
func (l *line) isHead(w *redWait) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return w.place == nil || l.queue.Front() == w.place
}

// nudge makes the head look: the lock was unlocked in this process, or it has
// become the head.
func (l *line) nudge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nudgeLocked()
}

func (l *line) nudgeLocked() {
	if first := l.queue.Front(); first != nil {
		w := first.Value.(*redWait)
		w.nudged.Store(true)
		wait.Signal(w.wake)
	}
}
