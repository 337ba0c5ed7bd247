package lock

import (
	"context"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/quorum"
)

// What tests of this package see of Client, Held and RedLock.

func Table(c *Client) *locktable.Table[*hold.Hold] { return c.table }
func Holds(c *Client) *hold.Engine                 { return c.holds }
func (x *Held) In() *hold.Held                     { return x.in() }
func ClientOf(m *Mutex) *Client                    { return m.c }
func FlushLog(c *Client) func()                    { return c.telling.logger.Drain }
func LabelOn(host string, cfg Config) string       { return cfg.label(host) }
func (r *RedLock) Line() *quorum.Line              { return r.line }

var (
	PassLimit = passLimit
	OnOneLine = onOneLine
)

// PartOf returns the hold of a member of x. After a retake of the member it returns another hold.
func PartOf(x *MultiHeld, member int) *hold.Held {
	i := slices.IndexFunc(x.currentParts(), func(p part) bool { return p.Member == member })
	return x.currentParts()[i].Hold
}

// RetakenFor returns the terms on which x would retake a member, or false if too little time is left.
func RetakenFor(x *MultiHeld, seat int) (hold.Terms, bool) {
	return (&retake{x: x.multiHold, lost: x.currentParts()[seat]}).terms()
}

// LoseOfOtherParts calls loseIf with a copy of the parts, as if they had been replaced meanwhile.
func LoseOfOtherParts(x *MultiHeld) bool {
	return x.loseIf(slices.Clone(x.currentParts()), &LostError{Reason: Closed})
}

// StopTimer stops the timer of x's deadline. A stopped process has the same effect.
func StopTimer(x *MultiHeld) {
	if x.timer != nil { // immutable once the user has x
		x.timer.Stop()
	}
}

// BeginUnlock does the first step of Unlock: x is not held any more, but nobody was told.
func BeginUnlock(x *MultiHeld) { x.state.Store(stateUnlocking) }

// AtDeadline does what the timer of x's deadline does when it fires.
func AtDeadline(x *MultiHeld) { x.atDeadline() }

// Untold returns a copy of x that does not know yet which of its parts have ended.
func Untold(x *MultiHeld) *MultiHeld {
	untold := &multiHold{from: x.from, need: x.need, parts: x.currentParts()}
	untold.watch.Init((*multiSubject)(untold))
	return &MultiHeld{untold}
}

// Admit calls admit with got in the place of the first member.
func (x *MultiHeld) Admit(got *Held) bool { return x.admit(0, part{Hold: got.in()}) }

// Retakes reports whether x would retake its first member after a loss for this reason.
func (x *MultiHeld) Retakes(why Reason) bool {
	x.retakeLocked(0, why)
	defer x.endRetakesLocked()
	return len(x.retakes) == 1
}

// IsTooOld reports whether a request of a semaphore or latch must not be sent again.
func IsTooOld(written time.Time) bool { return (&recorded{written: written}).isTooOld() }

// IsLastTry reports whether a wait whose time is over ends with this refusal by Redis.
func IsLastTry(said error) bool {
	err := &refusedError{op: "acquire", name: "a", said: said}
	return (&waitError{errs: []error{context.DeadlineExceeded, err}}).last() == error(err)
}
