package renewal

import (
	"slices"
	"sync/atomic"
	"time"
)

// Owner is the holder of a lease. A Renewer knows the lease by its Owner.
//
// Lost is called exactly once if the lease ends without a Release that returned
// true. It is called on the wheel's driver goroutine, on a dispatcher, or on the
// goroutine that calls Close, Move or Expire. Lost must not block. No lock of
// this package is held during the call. A Release that returns false may return
// just before Lost is called.
type Owner interface {
	Lost(Reason)
}

type state uint32

const (
	unheld   state = iota // zero value; to held in Hold
	held                  // to released in Release; to lost when the store says no, when trust ends, and in Close
	released              // terminal
	lost                  // terminal
)

// Lease is the watchdog's part of one held lease. Make it a field of your own
// struct. Its zero value is ready for one Hold. A Lease that has ended must not
// be used again. A Lease must not be copied after Hold. All methods are safe for
// concurrent use.
type Lease struct {
	_ noCopy

	// immutable after Hold
	owner   Owner
	holdEnd instant // when Config.MaxHold ends the lease, or never

	// lane is the lease's lane, whose lock guards the rest. Hold writes it, and Move
	// writes it under the locks of both lanes.
	lane atomic.Pointer[Lane]

	// atomic; written under the lane's lock
	trust atomic.Int64 // instant; the end of trust
	state atomic.Uint32

	// guarded by the lane's lock
	pos        int32   // in home.leases
	home       *group  // where it is while it is held: a window, the queue or a batch
	due        instant // when its renewal is (or was) due
	slot       uint16  // 0: none yet, or it is not renewed
	isFixed    bool    // not renewed
	mustVerify bool    // Verify or Confirm wants the store asked about it, even if it is not renewed; not yet set in a queued group with verify
	flags      uint8   // a sum of sentAlone, writtenOnce, doubted and takenOut
	fails      uint8   // unknown outcomes in a row; saturates
	moves      uint8   // how often it was moved out of a batch since the last positive answer; at most maxMoves
	reason     Reason  // why it is lost
}

// The flags of a lease. A positive answer clears them, but not takenOut.
const (
	sentAlone   uint8 = 1 << iota // its renewal failed with no other lease in the batch; it is sent alone until the store answers
	writtenOnce                   // a renewal of it was written
	doubted                       // Confirm was called while the lease was in a batch; cleared when a request for it is written
	takenOut                      // the lease was in Watchdog.takenOut, and may still be there
)

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Valid reports whether the lease is held and trusted now. It is exact by the
// clock, whatever the watchdog's goroutines do. The time in which the machine was
// suspended counts. A wall clock that is set back does not extend trust. On Linux, a
// wall clock that is set forward does not end trust. Elsewhere it does, because there
// it cannot be told from a suspended machine.
func (l *Lease) Valid() bool {
	if state(l.state.Load()) != held {
		return false
	}
	return l.isTrusted(l.lane.Load().dog.now())
}

// isTrusted reports whether trust lasts at now.
func (l *Lease) isTrusted(now instant) bool { return now < instant(l.trust.Load()) }

// Deadline returns the end of trust as it is now, or the zero Time before Hold. A
// renewal moves the end later, never earlier. A suspended machine moves the end
// earlier, because the monotonic clock stood still; see Valid.
func (l *Lease) Deadline() time.Time {
	if state(l.state.Load()) == unheld {
		return time.Time{}
	}
	return l.lane.Load().dog.timerTime(instant(l.trust.Load()))
}

// MaxHoldEnd returns when Config.MaxHold ends the lease, even if the lease is
// already lost. It returns the zero Time before Hold, and if MaxHold does not
// limit the lease.
func (l *Lease) MaxHoldEnd() time.Time {
	ln := l.lane.Load()
	if ln == nil || l.holdEnd == never {
		return time.Time{}
	}
	return ln.dog.timerTime(l.holdEnd)
}

// Lost reports whether the lease was lost, and why.
func (l *Lease) Lost() (Reason, bool) {
	if state(l.state.Load()) != lost {
		return 0, false
	}
	defer l.lock().mu.Unlock()
	return l.reason, true
}

// Unanswered reports whether a lease was lost because its trust ended, and a
// renewal of it was written that got no answer. The store may have carried out
// this renewal, or may still do so. Then the store has the lease for up to
// another TTL, although nobody holds it.
func (l *Lease) Unanswered() bool {
	ln := l.lock()
	if ln == nil {
		return false
	}
	defer ln.mu.Unlock()
	return state(l.state.Load()) == lost && l.reason != NotOwner && l.reason != Closed && l.flags&writtenOnce != 0
}

// Expire ends the lease as lost if its trust has ended by the clock and the
// watchdog has not found that yet, because its goroutines are late or the process
// was stopped. Expire then calls Lost, before it returns, with the reason that
// the watchdog would give. Expire reports whether the lease is lost now. If
// another goroutine has found the loss, that goroutine may not have called Lost
// yet. Do not call Expire under a lock that Lost takes.
func (l *Lease) Expire() (Reason, bool) {
	if l.Valid() {
		return 0, false
	}
	ln := l.lock()
	if ln == nil {
		return 0, false
	}
	s, now := state(l.state.Load()), ln.dog.now()
	if s != held || l.isTrusted(now) {
		defer ln.mu.Unlock()
		return l.reason, s == lost
	}
	l.loseLocked(ln, TrustEnded)
	reason := l.reason
	ln.mu.Unlock()
	l.owner.Lost(reason)
	return reason, true
}

// Release ends the lease for the watchdog. It returns false if the lease was
// already lost or released. After Release has returned, no renewal of the lease
// is sent. If a renewal is being written at that moment, Release waits until it
// is written. That usually takes microseconds. If a connection takes no more
// bytes, Release waits at most until the trust of the lease would have ended. A
// renewal that was written before may still reach the store.
func (l *Lease) Release() bool {
	ln := l.lock()
	if ln == nil {
		return false
	}
	if state(l.state.Load()) != held {
		ln.mu.Unlock()
		return false
	}
	var writes []<-chan struct{}
	if l.home.kind == inBatch || l.flags&takenOut != 0 { // else no request with l is being written
		writes = l.writesLocked()
	}
	l.endLocked(ln, released)
	ln.mu.Unlock()
	if len(writes) > 0 {
		ln.dog.awaitWritten(writes, instant(l.trust.Load()))
	}
	return true
}

// writesLocked returns a channel for each request with l that is being written. It is closed
// when the request is complete.
func (l *Lease) writesLocked() (writes []<-chan struct{}) {
	if written := l.writtenLocked(); written != nil {
		writes = append(writes, written)
	}
	return append(writes, l.formerWritesLocked()...)
}

// writtenLocked is writesLocked for the batch in which l is now; nil if there is none.
func (l *Lease) writtenLocked() <-chan struct{} {
	if l.home.kind != inBatch {
		return nil
	}
	return l.home.batch.writtenLocked()
}

// formerWritesLocked is writesLocked for the batches out of which l was taken.
func (l *Lease) formerWritesLocked() (writes []<-chan struct{}) {
	if l.flags&takenOut == 0 {
		return nil
	}
	w := l.lane.Load().dog
	w.takenOutMu.Lock()
	defer w.takenOutMu.Unlock()
	for written, leases := range w.takenOut {
		if slices.Contains(leases, l) {
			writes = append(writes, written)
		}
	}
	return writes
}

// awaitWritten waits until all of writes are closed, at most until the instant end.
func (w *Watchdog) awaitWritten(writes []<-chan struct{}, end instant) {
	t := time.NewTimer(time.Duration(end - w.now()))
	defer t.Stop()
	for _, written := range writes {
		select {
		case <-written:
		case <-t.C:
			return
		}
	}
}

// Extend records another positive answer of the store, for example to a
// re-entry. Trust then lasts at least until stamp + ttl - margin. Extend returns
// false and changes nothing if the lease or its trust has ended.
func (l *Lease) Extend(stamp time.Time, ttl time.Duration) bool {
	ln := l.lock()
	if ln == nil {
		return false
	}
	defer ln.mu.Unlock()
	if !l.Valid() {
		return false
	}
	// The group's lower bound of trust may now be too early. The next visit of the
	// group corrects it.
	l.trustLocked(ln.dog.trustFrom(ln.dog.instantOf(stamp), ttl))
	return true
}

// SetFixed(true) makes the lease fixed. SetFixed(false) makes the watchdog renew it. SetFixed does
// nothing if the lease has ended. Config.MaxHold counts from the acquisition,
// even for a lease that was fixed at first.
func (l *Lease) SetFixed(fixed bool) {
	ln := l.lock()
	if ln == nil {
		return
	}
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held || l.isFixed == fixed {
		return
	}
	l.takeOutLocked() // even out of a batch, whose answer does not count for l then
	l.isFixed = fixed
	now := ln.dog.now()
	if fixed {
		ln.leaveSlotLocked(l)
	} else {
		l.due = ln.firstDueLocked(l, now)
	}
	due := l.due
	if l.mustVerify { // Verify or Confirm has made l due at once, and the store has not answered yet
		due = ln.dog.floorToWindow(now)
	}
	ln.scheduleLocked(l, due, now)
}

// lock returns the lease's lane, locked, or nil before Hold.
func (l *Lease) lock() *Lane {
	for {
		ln := l.lane.Load()
		if ln == nil {
			return nil
		}
		ln.mu.Lock()
		if l.lane.Load() == ln {
			return ln
		}
		ln.mu.Unlock()
	}
}

// latestDueLocked returns when the lease must be renewed at the latest, so that half of its
// trust is left.
func (l *Lease) latestDueLocked(now instant) instant {
	return now + max(instant(l.trust.Load())-now, 0)/2
}

// trustFrom returns the end of trust that a positive answer gives to a request for
// ttl that was sent at sent.
func (w *Watchdog) trustFrom(sent instant, ttl time.Duration) instant {
	return sent.plus(ttl - w.cfg.margin(ttl))
}

// trustLocked extends trust after a positive answer.
func (l *Lease) trustLocked(end instant) {
	if end > l.holdEnd && !l.isFixed {
		end = l.holdEnd
	}
	if end > instant(l.trust.Load()) {
		l.trust.Store(int64(end))
	}
}

// isNotRenewed reports whether the lease is not renewed any more: it is fixed, or it is trusted
// to the end of MaxHold already. It needs the lane's lock.
func (l *Lease) isNotRenewed() bool { return l.isFixed || instant(l.trust.Load()) >= l.holdEnd }

// endLocked takes the lease out of the watchdog in the terminal state s.
func (l *Lease) endLocked(ln *Lane, s state) {
	l.state.Store(uint32(s))
	l.home.removeLocked(l)
	ln.leaveSlotLocked(l)
	ln.stats.leases--
}

// loseLocked ends the lease as lost. The caller must call owner.Lost(reason) when
// it has released the lock.
func (l *Lease) loseLocked(ln *Lane, reason Reason) {
	switch {
	case reason != TrustEnded:
	case l.isFixed:
		reason = Expired
	case l.isNotRenewed():
		reason = MaxHold
	case l.fails == 0 && ln.dog.stoodStillAt(instant(l.trust.Load())):
		reason = Suspended
	}
	l.reason = reason
	l.endLocked(ln, lost)
	ln.stats.lost[reason]++
}

// takeOutLocked takes the lease out of its group, to be put into another one. If a request with
// it is being written, Release still waits for that.
func (l *Lease) takeOutLocked() {
	l.mustVerify = l.mustVerify || l.home.verify
	if written := l.writtenLocked(); written != nil {
		l.flags |= takenOut
		l.home.lane.dog.noteTakenOut(l, written)
	}
	l.home.removeLocked(l)
}

// noteTakenOut notes that l was taken out of the batch that is being written until written is closed. The
// lane's lock is held, so the batch is still being written.
func (w *Watchdog) noteTakenOut(l *Lease, written <-chan struct{}) {
	w.takenOutMu.Lock()
	defer w.takenOutMu.Unlock()
	if w.takenOut == nil {
		w.takenOut = make(map[<-chan struct{}][]*Lease)
	}
	w.takenOut[written] = append(w.takenOut[written], l)
}

// passTakenOut adds the lease to to every list that has l. The lock of l's lane may not be held, so a batch
// may have been written meanwhile. Then its list is gone.
func (w *Watchdog) passTakenOut(l, to *Lease) {
	w.takenOutMu.Lock()
	defer w.takenOutMu.Unlock()
	for written, leases := range w.takenOut {
		if slices.Contains(leases, l) {
			w.takenOut[written] = append(leases, to)
		}
	}
}

// Owner returns the owner of the lease, or nil before Hold and Pass.
func (l *Lease) Owner() Owner { return l.owner }
