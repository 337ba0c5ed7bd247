package faults

import (
	"slices"
	"time"
)

// pollOf is the MaxPoll of a process: they have different ones, as the processes of
// a service do while its settings are being changed.
func pollOf(proc int, lease time.Duration) time.Duration {
	return lease / []time.Duration{4, 8, 16}[proc%3]
}

// ioTimeout is the library's default.
func ioTimeout(lease time.Duration) time.Duration { return min(time.Second, lease/10) }

// goneBy returns the time by which the server has nothing of h any more.
func (c *checks) goneBy(h *hold) stamp {
	_, killed := c.killed[h.proc]
	switch {
	case h.freed != forever && h.out == outOK:
		return h.freed
	case killed && h.until == forever:
		return h.free.add(c.lease)
	}
	// Its last renewal was answered a margin and a lease before; a later one
	// may have arrived and not been answered.
	return max(h.until, min(h.lost, h.free)).add(margin(c.lease) + c.lease)
}

// checkWaits: if a lock is free, or abandoned and past its lease, a waiter gets it within
// MaxPoll. No waiter that waited longer leaves without it.
func (c *checks) checkWaits(l *keyHistory) {
	if c.row.Stretches {
		return
	}
	called := make([]stamp, len(l.holds)+1) // for each hold, the earliest call of this hold and all later ones
	called[len(l.holds)] = forever
	for i, h := range slices.Backward(l.holds) {
		called[i] = min(h.called, called[i+1])
	}
	var free stamp // 0: nobody has held it yet
	for i, h := range l.holds {
		if wait := c.waitedFor(h.called, free, h.got); free > 0 && wait > c.maxWait(h.proc) {
			c.addViolation("%v was free for %v before it was got", h, wait)
		}
		c.checkLeavers(l, free, called[i])
		free = max(free, c.goneBy(h))
	}
	c.checkLeavers(l, free, forever)
}

// maxWait returns how long a process may wait for a lock that is free: MaxPoll, and a lease more for a
// busy machine.
func (c *checks) maxWait(proc int) time.Duration { return pollOf(proc, c.lease) + c.lease }

// waitedFor returns for how much of the time from called to until a waiter waited for a lock that was
// free since free, without the disturbances. After a disturbance, broken connections must be dialled
// anew. A process that stands still for a round trip breaks some by itself.
func (c *checks) waitedFor(called, free, until stamp) time.Duration {
	from := max(called, free)
	if from >= until {
		return 0
	}
	since, stood := c.lastDisturbance(from-stamp(2*c.roundTrip()), until, c.roundTrip())
	return until.sub(max(from, since.add(2*c.roundTrip()))) - stood
}

// checkLeavers: no waiter that left without the lock had waited too long while the lock was
// free and no other client asked for it. taken is the time of the next call that got the
// lock.
func (c *checks) checkLeavers(l *keyHistory, free, taken stamp) {
	for _, a := range l.attempts {
		if a.called >= taken {
			break
		}
		until := min(a.left, taken)
		if !a.wait || until <= free || free == 0 {
			continue
		}
		if wait := c.waitedFor(a.called, free, until); wait > c.maxWait(a.proc) {
			c.addViolation("p%d.%d at %s left after it had waited for %v for a lock that was free", a.proc, a.id, a.key, wait)
		}
	}
}
