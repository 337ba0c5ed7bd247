package lock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
)

// retake brings a member of a RedLock back into a hold that has lost it. While the hold is trusted
// without the member, the retake asks the member once per renewal interval, as an attempt does
// (RedLock.ask). Package quorum has the rule, and says why it is safe.
type retake struct {
	// immutable
	x    *multiHold
	seat int // in x.parts
	lost part
	how  quorum.Retake

	// guarded by x.mu
	timer   *time.Timer   // runs run
	running bool          // run is under way
	ended   chan struct{} // closed when the last run has ended

	err error // of the release, if the member may still be taken in Redis; immutable once ended is closed
}

// founding is the attempt that made a hold of a RedLock, as far as retakes need to know it.
type founding struct {
	lock  *RedLock
	terms hold.Terms
	began time.Time // when the attempt began; d of LockFor counts from then
}

// interval is the time between two runs.
func (w *retake) interval() time.Duration { return w.client().cfg.Lease / 3 }

// client returns the member's client.
func (w *retake) client() *Client { return w.x.from.lock.members[w.lost.Member].c }

// retakeLocked begins to retake the member of a part that was lost, if the rule permits it.
func (x *multiHold) retakeLocked(seat int, why Reason) {
	if x.from == nil || x.forgotten || x.cause != nil || x.state.Load() != stateHeld {
		return
	}
	lost := x.parts[seat]
	c := x.from.lock.members[lost.Member].c
	lease := x.from.lock.leaseOf(lost.Member, x.from.terms)
	expired := !time.Now().Before(lost.Hold.Deadline().Add(c.watchdog.Margin(lease)))
	how, may := quorum.MayRetake(why, expired, lost.Server, x.from.lock.cfg.Durable)
	if !may {
		return
	}
	w := &retake{x: x, seat: seat, lost: lost, how: how}
	if x.retakes == nil {
		x.retakes = make(map[int]*retake)
	}
	x.retakes[seat] = w
	w.timer = time.AfterFunc(w.interval(), w.run)
}

// endRetakesLocked stops the retakes that wait for their timer. It returns the retakes that are
// under way. If one of these gets its member, it releases the member.
func (x *multiHold) endRetakesLocked() (underWay []*retake) {
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

// run asks the member once, when the timer fires. Close of the member's client waits for run.
func (w *retake) run() {
	x := w.x
	x.mu.Lock()
	if x.retakes[w.seat] != w { // w was stopped when it was about to begin
		x.mu.Unlock()
		return
	}
	w.running, w.ended = true, make(chan struct{})
	x.mu.Unlock()
	again := false
	if end := w.client().holds.Begin(w.lost.Hold.Name()); end != nil { // else the client is closing
		defer end()
		again = w.ask()
	}
	x.mu.Lock()
	w.running = false
	if x.retakes[w.seat] == w { // else the member was admitted
		if again && x.cause == nil && x.state.Load() == stateHeld {
			w.timer.Reset(w.interval())
		} else {
			delete(x.retakes, w.seat)
		}
	}
	close(w.ended)
	x.mu.Unlock()
}

// ask asks the member once. It returns false if the member must not be asked again.
func (w *retake) ask() (again bool) {
	x, r := w.x, w.x.from.lock
	t, ok := w.terms()
	if !ok || !x.valid() {
		return ok // a hold that is not valid ends without the member
	}
	ctx := owner.With(context.Background(), x.owner, nil)
	ctx, cancel := context.WithTimeout(ctx, r.cfg.MemberTimeout)
	defer cancel()
	left, again := quorum.AskAgain(ctx, w.how, w.lost.Member, r.voter(w.lost.Member, t), func(b quorum.Ballot[*hold.Held]) bool {
		return x.admit(w.seat, r.partOf(b, t))
	})
	if left.WasTaken {
		if err := left.Hold.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
			w.err = err // its client goes on trying
		}
	}
	return again
}

// terms returns the lease to ask the member for, or false if too little time is left.
func (w *retake) terms() (hold.Terms, bool) {
	from := w.x.from
	t := hold.Terms{Lease: from.terms.Lease, Renewed: from.terms.Renewed}
	if !t.Renewed {
		t.Lease = (t.Lease - time.Since(from.began)).Truncate(time.Millisecond)
		return t, t.Lease >= MinLease
	}
	t.MaxHoldEnd = w.lost.Hold.Hold().MaxHoldEnd()
	return t, t.MaxHoldEnd.IsZero() || time.Now().Before(t.MaxHoldEnd)
}

// admit makes p a part of the hold, in the place of a part that was lost. It returns false if the
// hold is not valid without p, or if another member shares p's server.
func (x *multiHold) admit(seat int, p part) bool {
	x.mu.Lock()
	if x.cause != nil || x.forgotten || x.state.Load() != stateHeld || !quorum.MayAdmit(x.parts, x.need, x.ended, p.Server, time.Now()) {
		x.mu.Unlock()
		return false
	}
	x.parts = slices.Clone(x.parts)
	x.parts[seat] = p
	x.ended--
	delete(x.retakes, seat)
	x.mu.Unlock()
	x.watchPart(seat, p)
	return true
}
