package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/owner"
)

// retake brings a member of a RedLock back into a hold that has lost it. A server that was
// restarted is empty, so without this the third of three that are restarted one after the
// other would end the hold.
//
// Once per interval of renewal it asks the member, as an attempt does (RedLock.ask), while the
// hold is trusted without it. A key that somebody has deleted stays lost. It was deleted if
// the server said that it is gone, and runs since before it voted, or is Durable. If instead
// the trust in the member has ended, nothing says so: the key has expired.
//
// # Why no second owner has a quorum meanwhile
//
// A vote lasts from the yes of a member until the trust in it ends: in that yes, or in the
// last renewal. Two votes of one member, for different owners, never overlap. As long as one
// lasts, the server has the key and refuses others. If it was restarted after it said yes, it
// may not vote before it was up for LongestLease, and by then every vote that it can have
// forgotten has ended. If it is Durable, it forgets none. All this is so whenever in the life
// of its hold a vote was given, so it is so of those that a retake gets: they are a yes of
// Mutex.acquire and then one of mayVote, like the first.
//
// A hold is valid at the moments at which votes of a majority for it last. If two holds were
// valid at one moment, their majorities would share a member, and its votes would overlap. So
// it does not matter when the votes were given, or whether it is the same majority all the
// time. But a hold that was not valid for a moment must stay lost, because another may
// have been valid then: admit counts once more, and takes nothing into a hold that has ended.
type retake struct {
	// immutable
	x    *MultiHeld
	seat int // in x.parts
	lost part
	why  Reason // it was lost

	// guarded by x.mu
	timer   *time.Timer   // runs run
	running bool          // there is a run
	ended   chan struct{} // closed when the last one has ended

	err error // what it has taken may still stand in Redis; immutable once ended is closed
}

// founding is how a hold of a RedLock came about.
type founding struct {
	lock  *RedLock
	terms terms
	began time.Time // of the attempt: LockFor's d counts from there
}

// interval is the time between two runs.
func (w *retake) interval() time.Duration { return w.lost.h.c.cfg.Lease / 3 }

// retakeLocked begins to retake the member of a part that was lost, if that is of use.
func (x *MultiHeld) retakeLocked(seat int, why Reason) {
	if x.from == nil || x.cause != nil || x.state.Load() != isHeld {
		return
	}
	if why == NotOwner && !time.Now().Before(x.parts[seat].h.lease.Deadline()) {
		why = TrustEnded // that its key is gone says nothing: it has expired
	}
	if why != TrustEnded && (why != NotOwner || x.from.lock.cfg.Durable) {
		return
	}
	w := &retake{x: x, seat: seat, lost: x.parts[seat], why: why}
	if x.retakes == nil {
		x.retakes = make(map[int]*retake)
	}
	x.retakes[seat] = w
	w.timer = time.AfterFunc(w.interval(), w.run)
}

// endRetakesLocked stops those that wait, and returns those that are under way: they give
// back what they get.
func (x *MultiHeld) endRetakesLocked() (underWay []*retake) {
	for seat, w := range x.retakes {
		w.timer.Stop()
		if w.running {
			underWay = append(underWay, w)
		} else {
			delete(x.retakes, seat)
		}
	}
	return underWay
}

// run is one try. Close of the member's client waits for it.
func (w *retake) run() {
	x, h := w.x, w.lost.h
	x.mu.Lock()
	if x.retakes[w.seat] != w { // it was stopped when it was about to begin
		x.mu.Unlock()
		return
	}
	w.running, w.ended = true, make(chan struct{})
	x.mu.Unlock()
	again := false
	if h.c.table.Begin(h.name, true) { // else the client is closing
		h.c.wg.Add(1)
		defer h.c.wg.Done()
		defer h.c.table.End(h.name)
		again = w.try()
	}
	x.mu.Lock()
	w.running = false
	if x.retakes[w.seat] == w { // else it was admitted
		if again && x.cause == nil && x.state.Load() == isHeld {
			w.timer.Reset(w.interval())
		} else {
			delete(x.retakes, w.seat)
		}
	}
	close(w.ended)
	x.mu.Unlock()
}

// try asks the member once. It returns false if it is not to be asked again.
func (w *retake) try() (again bool) {
	x, r, m := w.x, w.x.from.lock, w.lost.mutex
	t, ok := w.terms()
	if !ok || !x.Valid() {
		return ok // what is not valid ends without it
	}
	ctx := owner.With(context.Background(), x.owner, nil)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.MemberTimeout)
	defer cancel()
	if !r.cfg.Durable {
		// First, so that a member that may not vote is not taken from others in vain.
		server, err := m.mayVote(ctx, r.cfg.LongestLease)
		if w.why == NotOwner && server == w.lost.server {
			return false // it was deleted
		}
		if err != nil {
			return true
		}
	}
	b := r.ask(ctx, w.lost.member, t)
	if b.held == nil {
		return true
	}
	if b.vote == votedYes && x.admit(w.seat, r.partOf(b, t)) {
		return false
	}
	if err := b.held.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
		w.err = err // its client goes on trying
	}
	return true
}

// terms are what the member is asked for; false if too little is left.
func (w *retake) terms() (terms, bool) {
	from := w.x.from
	t := terms{lease: from.terms.lease, renewed: from.terms.renewed}
	if !t.renewed {
		t.lease = (t.lease - time.Since(from.began)).Truncate(time.Millisecond)
		return t, t.lease >= MinLease
	}
	t.lease = w.lost.h.c.cfg.Lease
	t.maxHoldEnd = w.lost.h.lease.MaxHoldEnd()
	return t, t.maxHoldEnd.IsZero() || time.Now().Before(t.maxHoldEnd)
}

// admit makes p part of the hold, in the place of one that was lost. It returns false if the
// hold is not to have it: it is not valid without it, or another member shares its server.
func (x *MultiHeld) admit(seat int, p part) bool {
	x.mu.Lock()
	if x.cause != nil || x.state.Load() != isHeld || len(x.parts)-x.ended < x.need || countValid(x.parts) < x.need ||
		p.server != "" && slices.ContainsFunc(x.parts, func(o part) bool { return o.server == p.server && o.Valid() }) {
		x.mu.Unlock()
		return false
	}
	x.parts = slices.Clone(x.parts)
	x.parts[seat] = p
	x.ended--
	delete(x.retakes, seat)
	x.mu.Unlock()
	x.follow(seat, p)
	return true
}
