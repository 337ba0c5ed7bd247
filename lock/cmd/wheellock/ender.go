package main

import "time"

// action is a signal for the command.
type action uint8

const (
	nothing   action = iota
	terminate        // SIGTERM
	kill             // SIGKILL
)

// ender decides when to tell a command to end, and when to kill it. It does so when the
// lock is lost or is about to be lost. It has no clock. A command that was told to end is
// killed after its grace, even if the lock is renewed meanwhile.
//
//	            told: the lock is lost, or safe for       killed: the grace is over, or
//	            no longer than grace + reserve            the lock is safe only for reserve
//	running ───────────────────────────────────▶ told ────────────────────────▶ killed
type ender struct {
	grace   time.Duration // from SIGTERM to SIGKILL; immutable
	reserve time.Duration // from SIGKILL to the time until which the lock is safe; immutable

	killAt time.Time // zero while the command was not told to end
	killed bool
}

func newEnder(lease, grace time.Duration) *ender {
	// reserve covers a SIGKILL that a busy machine sends late or carries out late.
	return &ender{grace: grace, reserve: min(lease/20, time.Second)}
}

// step returns what to send to the command now, and when to call step again at the latest.
// The lock is safe until deadline; call step earlier if deadline changes. lost says that the
// lock is lost.
func (e *ender) step(now, deadline time.Time, lost bool) (do action, again time.Time) {
	if e.killed {
		return nothing, now.Add(e.grace + e.reserve)
	}
	end := deadline.Add(-e.reserve)
	if !e.hasToldToEnd() {
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

// hasToldToEnd reports whether the command was told to end.
func (e *ender) hasToldToEnd() bool { return !e.killAt.IsZero() }
