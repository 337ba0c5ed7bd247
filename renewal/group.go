package renewal

import (
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// kind says where a group is. The group's timer depends on it.
type kind uint8

const (
	spare   kind = iota // in Lane.spare, empty; to waiting, fixed or queued
	waiting             // in Lane.windows; to queued when due
	queued              // in Lane.queue until its last lease is taken
	inBatch             // the group of a Batch, always
	fixed               // in Lane.fixed; never due
)

// group is a set of leases that wait for the same moment, which is a slot or the
// end of a pause. It has one wheel timer, set to that moment or to the earliest end
// of trust of its leases, whichever is first. A batch also has a group, so trust is
// watched while I/O is slow. The lane's lock guards the fields.
type group struct {
	timer  wheel.Timer // armed for the earlier of due (while waiting or queued) and trust
	lane   *Lane       // immutable
	batch  *Batch      // immutable; nil except in the group of a Batch
	window int64       // the key in Lane.windows or Lane.fixed
	due    instant     // when the leases are due; while queued, when all dispatchers are woken for the group
	trust  instant     // lower bound of the leases' ends of trust
	armed  instant     // the time for which timer is armed; never if it is not armed
	leases []*Lease
	live   int // leases that are not nil; a batch keeps places, so it has gaps
	place  int // in Lane.queue while queued
	limit  int // 0, or the most leases of a batch, which has no leases of other groups: these leases failed together
	kind   kind
	timed  bool // timer has been scheduled once
}

// Fire is called by the wheel's driver.
func (c *group) Fire(*wheel.Timer) { c.lane.visitGroup(c) }

// addLocked puts l into c; the caller arms c.
func (c *group) addLocked(l *Lease) {
	l.home, l.pos = c, int32(len(c.leases))
	c.leases = append(c.leases, l)
	c.live++
	if trust := instant(l.trust.Load()); trust < c.trust {
		c.trust = trust
	}
}

// removeLocked takes l out. In a batch the other leases keep their places, because
// the Renewer knows them by index.
func (c *group) removeLocked(l *Lease) {
	l.home = nil
	c.live--
	if c.kind == inBatch {
		c.leases[l.pos] = nil
		return
	}
	last := len(c.leases) - 1
	moved := c.leases[last]
	c.leases[l.pos], moved.pos = moved, l.pos
	c.leases[last] = nil
	c.leases = c.leases[:last]
	if last == 0 {
		c.lane.dropGroupLocked(c)
	}
}

// wakeLocked returns when the group next needs a visit.
func (c *group) wakeLocked() instant {
	switch {
	case c.live == 0:
		return never
	case c.kind == waiting, c.kind == queued:
		return min(c.due, c.trust)
	}
	return c.trust
}

// armLocked moves the timer if it is not armed early enough. A timer that is
// armed too early is left alone: its visit finds nothing and arms it again.
func (c *group) armLocked(now instant) {
	at := c.wakeLocked()
	if at >= c.armed {
		return
	}
	d := time.Duration(at - now)
	if at != c.trust { // slots are at ticks, and now is a little old, for which half a tick makes up
		d -= c.lane.dog.cfg.Tick / 2
	}
	var err error
	if c.timed {
		_, err = c.timer.Reset(d) // pending or not, because a visit that waited for the lock may be an old one
	} else {
		err = c.lane.dog.wheel.Schedule(&c.timer, d, c)
		c.timed = err == nil
	}
	if err == nil { // the only error is that of a stopped wheel, and then Close tells every owner
		c.armed = at
	}
}

// disarmLocked stops the timer.
func (c *group) disarmLocked() {
	if c.armed != never {
		c.timer.Stop()
		c.armed = never
	}
}

// endedLocked ends the leases whose trust is over at now as lost, appends them to
// out, and makes c.trust exact.
func (c *group) endedLocked(now instant, out []*Lease) []*Lease {
	if c.trust > now {
		return out
	}
	earliest := never
	for i := len(c.leases) - 1; i >= 0; i-- { // from the end: removal swaps the last one in
		l := c.leases[i]
		if l == nil {
			continue
		}
		if trust := instant(l.trust.Load()); trust > now {
			earliest = min(earliest, trust)
			continue
		}
		out = append(out, l)
		l.loseLocked(c.lane, TrustEnded)
	}
	c.trust = earliest
	if c.kind == queued {
		c.lane.queue.fix(c)
	}
	return out
}
