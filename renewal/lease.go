package renewal

import (
	"math"
	"sync/atomic"
	"time"
)

// instant is a point in time in nanoseconds from the watchdog's start, by the
// monotonic clock.
type instant int64

const never instant = math.MaxInt64

// plus saturates instead of overflowing.
func (t instant) plus(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

// Owner is who holds a lease, and what a Renewer gets to see of it.
//
// Lost is called exactly once if the lease ends without Release returning
// true: on the wheel's driver goroutine, on a dispatcher, or on the goroutine
// that calls Close. It must not block; no lock of this package is held.
type Owner interface {
	Lost(Reason)
}

type state uint32

const (
	unheld   state = iota // zero value; to held in Hold
	held                  // to released in Release; to lost when the store said no, trust ended, or Close
	released              // terminal
	lost                  // terminal
)

// Lease is the watchdog's part of one held lease. It is meant to be a field of
// the caller's own record; its zero value is ready for one Hold, and a Lease
// that has ended is not used again. A Lease must not be copied after Hold. All
// methods are safe for concurrent use.
type Lease struct {
	_ noCopy

	// immutable after Hold
	lane  *Lane
	owner Owner
	until instant // MaxHold's end, or never

	// atomic; written under lane.mu
	trust atomic.Int64 // instant; trust ends here by the monotonic clock
	wall  atomic.Int64 // and here by the wall clock, Unix ns (the monotonic clock stands still in a suspended machine)
	state atomic.Uint32

	// guarded by lane.mu
	home   *cohort // where it is: a window, the queue or a batch
	pos    int32   // in home.leases
	fixed  bool    // not renewed
	reason Reason  // why it is lost
	due    instant // when its renewal is (or was) due
	timer  *time.Timer
}

// noCopy makes go vet report copies.
type noCopy struct{}

func (*noCopy) Lock()   {}
func (*noCopy) Unlock() {}

// Valid reports whether the lease is held and trusted now, exact by the clock
// whatever the watchdog's goroutines do. Both the monotonic and the wall clock
// must be before the end of trust, so that the sleep of a suspended machine
// counts; a wall clock set back does not extend trust.
func (l *Lease) Valid() bool {
	if state(l.state.Load()) != held {
		return false
	}
	now := time.Now()
	return now.Sub(l.lane.dog.base) < time.Duration(l.trust.Load()) && now.UnixNano() < l.wall.Load()
}

// Deadline returns the end of trust as it stands now; the zero time before
// Hold. A renewal moves it later, never earlier.
func (l *Lease) Deadline() time.Time {
	if state(l.state.Load()) == unheld {
		return time.Time{}
	}
	return l.lane.dog.base.Add(time.Duration(l.trust.Load()))
}

// Lost reports whether the lease was lost, and why.
func (l *Lease) Lost() (Reason, bool) {
	if state(l.state.Load()) != lost {
		return 0, false
	}
	l.lane.mu.Lock()
	defer l.lane.mu.Unlock()
	return l.reason, true
}

// Release ends the lease for the watchdog. It returns false if the lease was
// already lost or released. After it returned, no batch is formed with this
// lease; a renewal that is already being written may still reach the store.
func (l *Lease) Release() bool {
	ln := l.lane
	if ln == nil {
		return false
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held {
		return false
	}
	l.endLocked(released)
	return true
}

// Extend notes another yes of the store (a re-entry, an extension): trust
// reaches at least stamp + ttl - margin. It returns false and changes nothing
// if the lease has ended or its trust is over.
func (l *Lease) Extend(stamp time.Time, ttl time.Duration) bool {
	ln := l.lane
	if ln == nil {
		return false
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held || !l.Valid() {
		return false
	}
	// The cohort's lower bound of trust may now be too early; its next visit
	// puts that right.
	l.trustLocked(stamp, ttl)
	return true
}

// SetFixed says whether the lease is left to its end (true) or renewed
// (false). It does nothing on a lease that has ended.
func (l *Lease) SetFixed(fixed bool) {
	ln := l.lane
	if ln == nil {
		return
	}
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held || l.fixed == fixed {
		return
	}
	l.fixed = fixed
	if l.home != nil && l.home.kind == flying {
		return // settle files it
	}
	l.leaveLocked()
	now := ln.dog.now()
	if !fixed {
		l.due = ln.dog.firstDue(now)
	}
	ln.fileLocked(l, l.due, now)
}

// trustLocked extends trust by a yes whose request was stamped at stamp.
func (l *Lease) trustLocked(stamp time.Time, ttl time.Duration) {
	dog := l.lane.dog
	span := ttl - dog.cfg.margin(ttl)
	end := dog.instant(stamp).plus(span)
	wall := stamp.UnixNano() + int64(span)
	if end > l.until {
		wall -= int64(end - l.until)
		end = l.until
	}
	if end > instant(l.trust.Load()) {
		l.trust.Store(int64(end))
	}
	l.wall.Store(max(l.wall.Load(), wall))
}

// endLocked takes the lease out of the watchdog in the terminal state s.
func (l *Lease) endLocked(s state) {
	l.state.Store(uint32(s))
	l.leaveLocked()
	l.lane.stats.leases--
}

// loseLocked ends the lease as lost. The caller calls owner.Lost(reason) once
// it has released the lock.
func (l *Lease) loseLocked(reason Reason) {
	if reason == TrustEnded && instant(l.trust.Load()) >= l.until {
		reason = MaxHold
	} else if reason == TrustEnded && l.fixed {
		reason = Expired
	}
	l.reason = reason
	l.endLocked(lost)
	l.lane.stats.lost[reason]++
}

// leaveLocked takes the lease out of its cohort and stops its own timer.
func (l *Lease) leaveLocked() {
	if l.timer != nil {
		l.timer.Stop()
	}
	if l.home != nil {
		l.home.removeLocked(l)
	}
}
