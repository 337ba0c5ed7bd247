package lock

import (
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
)

// part is a member's hold.
type part = quorum.Grant[*hold.Held]

// newMultiHeld returns the MultiHeld that the user gets. start was called before.
func (x *multiHold) newMultiHeld() *MultiHeld {
	held := &MultiHeld{x}
	if slices.ContainsFunc(x.parts, func(p part) bool { return p.Hold.DropsForgotten() }) {
		runtime.AddCleanup(held, (*multiHold).forget, x)
	}
	return held
}

// forget ends the renewal, because no caller can unlock x any more; see Config.DropForgotten.
func (x *multiHold) forget() {
	if x.state.Load() != stateHeld {
		return
	}
	x.mu.Lock()
	x.forgotten = true
	x.endRetakesLocked()
	parts := x.parts
	x.mu.Unlock()
	for _, p := range parts {
		p.Hold.Forget()
	}
}

// start begins to watch the parts. The MultiHeld may be lost when start returns.
func (x *multiHold) start() {
	x.watch.Init((*multiSubject)(x))
	for seat, p := range x.parts {
		x.watchPart(seat, p)
	}
	if x.from != nil { // a RedLock ends before its parts do, see drift
		x.mu.Lock()
		end, _ := quorum.Deadline(x.parts, x.need)
		x.timer = time.AfterFunc(time.Until(end), x.atDeadline)
		x.mu.Unlock()
	}
}

// watchPart makes the end of a part call partEnded.
func (x *multiHold) watchPart(seat int, p part) {
	p.Hold.Watch().OnEnd(func(err error) { x.partEnded(seat, p, err) })
}

// mustBeMade panics if no call has returned x.
func (x *MultiHeld) mustBeMade() {
	if x == nil || x.multiHold == nil {
		panic("lock: this MultiHeld is nil or zero: check the error of Lock, and use the MultiHeld that it returned")
	}
}

// currentParts returns the parts as they are now.
func (x *multiHold) currentParts() []part {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.parts
}

// partEnded notes that a part ended, and why. The watchdog calls it, so it does not
// block.
func (x *multiHold) partEnded(seat int, p part, err error) {
	var cause *LostError
	if !errors.As(err, &cause) {
		return // Unlock of the MultiHeld has unlocked it
	}
	x.mu.Lock()
	x.ended++
	enough := len(x.parts)-x.ended >= x.need
	if enough {
		x.retakeLocked(seat, cause.Reason)
		if x.timer != nil {
			end, _ := quorum.Deadline(x.parts, x.need)
			x.timer.Reset(time.Until(end)) // the loss has moved the deadline earlier
		}
	}
	x.mu.Unlock()
	if !enough {
		x.lose(cause)
	}
	if cause.Reason == Closed { // the part may be held for long yet
		p.Hold.OnLoss(x.partLost)
	}
}

// partLost is called when a part is lost whose client had begun to close before. It does not block.
func (x *multiHold) partLost(err error) {
	var cause *LostError
	if errors.As(err, &cause) && x.tooFew(x.currentParts()) {
		x.lose(cause)
	}
}

// tooFew reports whether too few of parts are not lost. A part whose client closes is not lost before
// Close gives up.
func (x *multiHold) tooFew(parts []part) bool {
	left := 0
	for _, p := range parts {
		if !p.Hold.Ended() {
			left++
		}
	}
	return left < x.need
}

// atDeadline is called at the deadline as it was known. Renewals may have moved the
// deadline later since.
func (x *multiHold) atDeadline() {
	if x.look() != nil {
		return
	}
	// A renewal may come at any moment, so the timer runs again whatever look has found. If the deadline
	// has passed, it fires at once.
	x.mu.Lock()
	defer x.mu.Unlock()
	end, ok := quorum.Deadline(x.parts, x.need)
	if ok && x.state.Load() == stateHeld { // if too few parts are left, partEnded is just being called for the last one
		x.timer.Reset(time.Until(end))
	}
}

// multiSubject is a multiHold as its watch sees it.
type multiSubject multiHold

// Look implements watch.Subject.
func (x *multiSubject) Look() error { return (*multiHold)(x).look() }

// Value implements watch.Subject.
func (x *multiSubject) Value(key any) any {
	return x.owner.Value(key)
}

// look ends the MultiHeld if it is over by the clock, and returns why it was lost.
func (x *multiHold) look() error {
	for x.state.Load() == stateHeld {
		if cause := x.lost(); cause != nil {
			return cause
		}
		parts := x.currentParts()
		if quorum.CountValid(parts, time.Now()) >= x.need || x.loseIf(parts, x.whyNotValid(parts)) {
			break
		}
	}
	if cause := x.lost(); cause != nil {
		return cause
	}
	return nil
}

// whyNotValid returns why too few of parts are held. It also ends the parts that are over by
// the clock.
func (x *multiHold) whyNotValid(parts []part) *LostError {
	var why *LostError
	ended := 0
	for _, p := range parts {
		if errors.As(p.Hold.Err(), &why) {
			ended++
		}
	}
	if len(parts)-ended < x.need {
		return why
	}
	// Enough parts are still held, but for less time than clocks may run apart.
	p := parts[0].Hold
	cause := &LostError{Name: p.Name(), Reason: TrustEnded}
	if !p.Renewed() {
		cause.Reason = Expired
	}
	return cause
}

// lose is loseIf for the parts that x has now, whatever they are.
func (x *multiHold) lose(cause *LostError) { x.loseIf(nil, cause) }

// loseIf ends the MultiHeld if it still has these parts. parts may be nil, for whatever parts it
// has. loseIf returns false if the parts have changed, because a member was taken again meanwhile.
//
// A client that closes keeps its holds until Unlock, and so do the other clients. So the MultiHeld that
// was ended because of this (Closed) is lost later, when too few parts are left.
func (x *multiHold) loseIf(parts []part, cause *LostError) bool {
	x.mu.Lock()
	if parts != nil && &parts[0] != &x.parts[0] {
		x.mu.Unlock()
		return false
	}
	first := x.cause == nil
	over := first && cause.Reason != Closed || x.tooFew(x.parts)
	if x.isLost || !first && !over || x.state.Load() != stateHeld {
		x.mu.Unlock()
		return true
	}
	if first || cause.Reason != Closed {
		x.cause = cause
	}
	x.isLost, x.lostAt = over, time.Now()
	parts = x.parts
	x.endRetakesLocked()
	x.mu.Unlock()
	x.watch.End(cause)
	if !over {
		return true
	}
	for _, p := range parts {
		p.Hold.Rest() // a holder that was told of the loss need not unlock, so renewal must end here
	}
	return true
}
