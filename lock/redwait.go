package lock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// acquire is all four ways to take a RedLock.
func (r *RedLock) acquire(ctx context.Context, t terms) (*MultiHeld, error) {
	if !t.renewed {
		if err := checkLease(t.lease); err != nil {
			return nil, err
		}
		if t.lease > r.cfg.LongestLease {
			return nil, fmt.Errorf("lock: the lease is %v: it must be at most RedLockConfig.LongestLease, %v", t.lease, r.cfg.LongestLease)
		}
	}
	o, err := r.members[0].c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	ctx = context.WithValue(ctx, ownerKey{}, ownerOrError{owner: o})
	// Who holds a member already never stands in line: those who stand there
	// may wait for him.
	reenters := slices.ContainsFunc(r.members, func(m *Mutex) bool { return m.HeldBy(ctx) })
	w := &redWait{r: r, terms: t, owner: o, wake: make(chan struct{}, 1)}
	if !t.wait || reenters || !r.line.busy() {
		held, err := r.try(ctx, t, o)
		if err == nil {
			return held, nil
		}
		if ctx.Err() != nil {
			return nil, &waitError{name: r.members[0].name, errs: []error{ctx.Err(), err}}
		}
		if !t.wait || !r.passing(err) {
			return nil, err
		}
		w.last = err
	}
	if !reenters {
		r.line.join(w)
		defer r.line.leave(w)
		w.queued = true
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
	owner  owner
	queued bool          // it stands in the line
	wake   chan struct{} // of capacity 1: look again

	nudged atomic.Bool // it became the head, or the lock was unlocked in this process

	last    error  // what the last attempt said; nil before the first
	ears    []ear  // for the members' channels; nil before the first refusal
	heard   []echo // of each of them, before the last attempt
	ended   []bool // of each member: its client had begun to close before the last attempt; nil before the second
	clashes int    // attempts in a row that got some members and no quorum
	unknown int    // attempts in a row of unknown outcome
}

// run tries, when it is its turn and there is a reason to, until it has the
// lock or leaves.
func (w *redWait) run(ctx context.Context) (*MultiHeld, error) {
	for {
		if w.last != nil {
			w.sleep(ctx)
		}
		for ctx.Err() == nil && w.queued && !w.r.line.isHead(w) {
			select {
			case <-w.wake:
			case <-ctx.Done():
			}
		}
		if ctx.Err() != nil {
			return nil, w.left(ctx)
		}
		w.listen()
		held, err := w.r.try(ctx, w.terms, w.owner)
		if err == nil {
			return held, nil
		}
		if ctx.Err() == nil || w.last == nil {
			w.last = err // else it was left, not answered
		}
		if ctx.Err() == nil && !w.r.passing(err) {
			return nil, err
		}
	}
}

func (w *redWait) left(ctx context.Context) error {
	e := &waitError{name: w.r.members[0].name, errs: []error{ctx.Err()}}
	if w.last != nil {
		e.errs = append(e.errs, w.last)
	}
	return e
}

// sleep waits until another attempt makes sense: a member that refused was
// released, or may have been, or enough leases are over.
func (w *redWait) sleep(ctx context.Context) {
	var q *QuorumError
	errors.As(w.last, &q)
	if q == nil || q.Acquired == 0 {
		w.clashes = 0
	} else {
		w.clashes++ // those who got some members each, and gave them back, must part
	}
	clash := rand.N(time.Millisecond<<min(w.clashes, 7)) + time.Millisecond
	d := w.r.members[0].c.cfg.MaxPoll
	if errors.Is(w.last, ErrUnknown) {
		d = backoff(w.unknown)
		d = d/2 + rand.N(d/2+1)
		w.unknown++
	} else {
		w.unknown = 0
		switch {
		case q.Held > 0 && w.ears == nil:
			d = 0 // once more, listening
		case q.Held > 0:
			d = w.r.members[0].poll(q.TTL)
		default:
			d = min(d, backoff(5)) // a restarted member has no vote yet
		}
	}
	end := time.NewTimer(d)
	defer end.Stop()
	for !w.news(q) {
		if !w.woken(ctx, end.C) {
			return
		}
	}
	_ = pause(ctx, nil, clash) // a release comes member by member
}

// woken waits until it is woken. It returns false if end came, ctx ended or a
// client began to close before.
func (w *redWait) woken(ctx context.Context, end <-chan time.Time) bool {
	cases := []reflect.SelectCase{receive(w.wake), receive(end), receive(ctx.Done())}
	for i, m := range w.r.members {
		if w.ended == nil || !w.ended[i] { // else the last attempt noticed that
			cases = append(cases, receive(m.c.closing))
		}
	}
	i, _, _ := reflect.Select(cases)
	return i == 0
}

func receive(from any) reflect.SelectCase {
	return reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(from)}
}

// echo is what was heard of a member's channel.
type echo struct {
	messages      uint64
	confirmations int
}

func (t *topic) echo() echo {
	t.sub.mu.Lock()
	defer t.sub.mu.Unlock()
	e := echo{messages: t.messages}
	if t.confirmed {
		e.confirmations = t.generation
	}
	return e
}

// listen listens to all members after the first refusal, and notes what was
// heard of each before an attempt, and whether it was closing.
func (w *redWait) listen() {
	if w.ears == nil && w.last != nil {
		w.ears = slices.Repeat([]ear{{wake: w.wake}}, len(w.r.members))
	}
	w.heard = w.heard[:0]
	for i := range w.ears {
		m, e := w.r.members[i], &w.ears[i]
		e.listen(m.c.node(m.name).sub, channel(m.name))
		w.heard = append(w.heard, e.topic.echo())
	}
	w.ended = w.ended[:0]
	for _, m := range w.r.members {
		w.ended = append(w.ended, m.c.ended())
	}
}

// news reports whether, since the last attempt began, a member that refused was
// released, or may have been before its channel was heard; or a hold was given
// back in this process.
func (w *redWait) news(q *QuorumError) bool {
	if w.nudged.Swap(false) {
		return true
	}
	for i := range w.ears {
		if e := w.ears[i].topic.echo(); q != nil && q.held[i] && e.confirmations != 0 && e != w.heard[i] {
			return true
		}
	}
	return false
}

func (w *redWait) deafen() {
	for i := range w.ears {
		w.ears[i].leave()
	}
}

// line is the queue of those in this process who wait for a RedLock, first come
// first served; only its head asks the servers.
type line struct {
	mu    sync.Mutex // guards what follows
	queue []*redWait
}

func (l *line) busy() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.queue) > 0
}

func (l *line) join(w *redWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queue = append(l.queue, w)
}

func (l *line) leave(w *redWait) {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.queue, w)
	l.queue = slices.Delete(l.queue, i, i+1)
	if i == 0 {
		l.nudgeLocked()
	}
}

// isHead reports whether it is w's turn.
func (l *line) isHead(w *redWait) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.queue[0] == w
}

// nudge makes the head look: the lock was unlocked in this process, or it has
// become the head.
func (l *line) nudge() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.nudgeLocked()
}

func (l *line) nudgeLocked() {
	if len(l.queue) > 0 {
		l.queue[0].nudged.Store(true)
		signal(l.queue[0].wake)
	}
}
