package main

import "time"

// action is what a command is to be sent.
type action uint8

const (
	nothing   action = iota
	terminate        // SIGTERM
	kill             // SIGKILL
)

// ender decides when a command whose lock is lost, or is about to be, is told to end,
// and when it is killed. It has no clock. What has begun goes on: a command that was
// told to end is killed after its grace, although the lock may be renewed meanwhile.
//
//	            told: the lock is lost, or trusted        killed: the grace is over,
//	            for no longer than grace + reserve        or trust in reserve
//	running ───────────────────────────────────▶ told ────────────────────────▶ killed
type ender struct {
	grace   time.Duration // from SIGTERM to SIGKILL; immutable
	reserve time.Duration // from SIGKILL to the end of trust; immutable

	killAt time.Time // zero while the command was not told to end
	killed bool
}

func newEnder(lease, grace time.Duration) *ender {
	// A busy machine may send SIGKILL, and carry it out, that much late.
	return &ender{grace: grace, reserve: min(lease/20, time.Second)}
}

// step returns what the command is to be sent now, and when to ask again at the latest
// if deadline, the end of trust, stays. lost: the lock is lost.
func (e *ender) step(now, deadline time.Time, lost bool) (do action, again time.Time) {
	if e.killed {
		return nothing, now.Add(e.grace + e.reserve)
	}
	end := deadline.Add(-e.reserve)
	if !e.told() {
		if !lost && now.Before(end.Add(-e.grace)) {
			return nothing, end.Add(-e.grace)
		}
		do, e.killAt = terminate, now.Add(e.grace)
	}
	if end.Before(e.killAt) {
		e.killAt = end
	}
	if !now.Before(e.killAt) {
		e.killed = true
		return kill, now.Add(e.grace + e.reserve)
	}
	return do, e.killAt
}

// told reports whether the command was told to end.
func (e *ender) told() bool { return !e.killAt.IsZero() }
