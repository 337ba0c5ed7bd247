package renewal

import (
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// kind says where a group is. The group's timer depends on it.
type kind uint8

const (
	spare   kind = iota // empty, and in Lane.spare unless that is full; to waiting, fixed or queued
	waiting             // in Lane.waitingByDue; to queued when due
	queued              // in Lane.queue until its last lease is taken
	inBatch             // the group of a Batch, always
	fixed               // in Lane.fixed; never due
)

// group is a set of leases that wait for the same moment, which is a slot or the
// end of a pause. It has one wheel timer, set to that moment or to the earliest end
// of trust of its leases, whichever is first. A batch also has a group, so trust is
// watched while I/O is slow. The lane's lock guards the fields.
type group struct {
	timer  wheel.Timer   // armed for the earlier of due (while waiting or queued) and trust; while spare, as it was before
	lane   *Lane         // immutable
	batch  *Batch        // immutable; nil except in the group of a Batch
	key    int64         // of Lane.waitingByDue or Lane.fixed
	due    instant       // when the leases are due; while queued, when all dispatchers are woken for the group
	trust  instant       // lower bound of the leases' ends of trust
	armed  instant       // the time for which timer is armed; never if it is not armed
	slept  time.Duration // epoch.slept when timer was armed; with another one it fires at another time
	leases []*Lease      // nil where a lease has left a batch
	live   int           // leases that are not nil
	place  int           // the index in Lane.queue while queued
	// limit is 0 as a rule. If the leases failed together before, it is the most of them that
	// one batch may have, and such a batch has no leases of other groups.
	limit  int
	kind   kind
	timed  bool // timer has been scheduled once
	verify bool // while queued: Verify wants the store asked about the leases; see Lease.mustVerify
}

// Fire is called by the wheel's driver.
func (g *group) Fire(*wheel.Timer) { g.lane.visitGroup(g) }

// addLocked puts l into g; the caller arms g.
func (g *group) addLocked(l *Lease) {
	l.home, l.pos = g, int32(len(g.leases))
	g.leases = append(g.leases, l)
	g.live++
	if trust := instant(l.trust.Load()); trust < g.trust {
		g.trust = trust
	}
}

// removeLocked takes l out of the group. In a batch the other leases keep their places, because
// the Renewer knows them by index.
func (g *group) removeLocked(l *Lease) {
	l.home = nil
	g.live--
	if g.kind == inBatch {
		g.leases[l.pos] = nil
		return
	}
	last := len(g.leases) - 1
	moved := g.leases[last]
	g.leases[l.pos], moved.pos = moved, l.pos
	g.leases[last] = nil
	g.leases = g.leases[:last]
	if last == 0 {
		g.lane.dropGroupLocked(g)
	}
}

// armLocked moves the timer to when the group next needs a visit, if it is not armed early enough. A timer that is
// armed too early is left alone: its visit finds nothing and arms it again. A timer that was
// armed before the machine was suspended is late by that time.
func (g *group) armLocked(now instant) {
	at, slept := g.trust, g.lane.dog.epoch.Load().slept
	if g.kind == waiting || g.kind == queued {
		at = min(at, g.due)
	}
	if g.live == 0 || at == never || at >= g.armed && slept == g.slept {
		return
	}
	half := instant(g.lane.dog.cfg.Tick / 2)
	for {
		d := time.Duration(at - now)
		// Slots are at ticks, and now was read a little earlier. Without the half tick the timer
		// would fire a tick late.
		if at != g.trust {
			d -= time.Duration(half)
		}
		if !g.setTimer(d) { // the wheel was stopped, and then Close tells every owner
			return
		}
		g.armed, g.slept = at, slept
		// If the process has stood still since now was read, the timer is late by that time.
		read := now
		if now = g.lane.dog.nowAwake(); now-read <= half || read >= at {
			return
		}
	}
}

// setTimer makes the timer fire after d, and reports whether it does.
func (g *group) setTimer(d time.Duration) bool {
	if g.timed {
		// Reset also works if the timer has fired and its visit still waits for the lock.
		_, err := g.timer.Reset(d)
		return err == nil
	}
	g.timed = g.lane.dog.wheel.Schedule(&g.timer, d, g) == nil
	return g.timed
}

// disarmLocked stops the timer. It may be armed though armed is never: if it was armed again after it had
// fired, and then its visit came.
func (g *group) disarmLocked() {
	g.timer.Stop()
	g.armed = never
}

// endedLocked ends the leases whose trust is over at now as lost, appends them to
// out, and makes g.trust exact.
func (g *group) endedLocked(now instant, out []*Lease) []*Lease {
	if g.trust > now {
		return out
	}
	earliest := never
	for i := len(g.leases) - 1; i >= 0; i-- { // from the end: removal swaps the last one in
		l := g.leases[i]
		if l == nil {
			continue
		}
		if trust := instant(l.trust.Load()); trust > now {
			earliest = min(earliest, trust)
			continue
		}
		out = append(out, l)
		l.loseLocked(g.lane, TrustEnded)
	}
	g.trust = earliest
	if g.kind == queued {
		g.lane.queue.fix(g)
	}
	return out
}
