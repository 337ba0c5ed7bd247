package lock

import (
	"slices"

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

// PartOf is what x has of a member; it is another one once that was retaken.
func PartOf(x *MultiHeld, member int) *hold.Held {
	i := slices.IndexFunc(x.present(), func(p part) bool { return p.Member == member })
	return x.present()[i].Hold
}

// RetakenFor is what x would take a member again for; false if it would not.
func RetakenFor(x *MultiHeld, seat int) (hold.Terms, bool) {
	return (&retake{x: x.multiHold, lost: x.present()[seat]}).terms()
}

// LoseOfOtherParts loses x if its parts are what a copy of them is, and reports whether it did.
func LoseOfOtherParts(x *MultiHeld) bool {
	return x.loseIf(slices.Clone(x.present()), &LostError{Reason: Closed})
}

// StopTimer stops what tells x at its deadline, as a process does that is stopped.
func StopTimer(x *MultiHeld) {
	if x.timer != nil { // it is set before x is given out
		x.timer.Stop()
	}
}

// Untold is x if it had not been told yet of what has ended.
func Untold(x *MultiHeld) *MultiHeld {
	untold := &multiHold{from: x.from, need: x.need, parts: x.present()}
	untold.watch.Init((*multiSubject)(untold))
	return &MultiHeld{untold}
}

// Admit is admit of what x got in the place of its first member.
func (x *MultiHeld) Admit(got *Held) bool { return x.admit(0, part{Hold: got.in()}) }

// Retakes reports whether the first member of x would be asked again after such a loss.
func (x *MultiHeld) Retakes(why Reason) bool {
	x.retakeLocked(0, why)
	defer x.endRetakesLocked()
	return len(x.retakes) == 1
}
