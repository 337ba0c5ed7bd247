package faults

import (
	"slices"
	"time"
)

// The promises about waiting have bounds of their own, MaxPoll and a round trip.
// These are what a busy machine gets beside them.
const (
	waitSlack  = 1.0  // of a lease, for who waits for a lock that is free
	quietSlack = 0.15 // of a lease, for a key at a quiet point: a ghost must not expire meanwhile
)

// slack is a part of a lease.
func slack(part float64, lease time.Duration) time.Duration {
	return time.Duration(part * float64(lease))
}

// pollOf is the MaxPoll of a process: they have different ones, as the processes of
// a service do while its settings are being changed.
func pollOf(proc int, lease time.Duration) time.Duration {
	return lease / []time.Duration{4, 8, 16}[proc%3]
}

// ioTimeout is the library's default.
func ioTimeout(lease time.Duration) time.Duration { return min(time.Second, lease/10) }

// gone is when the server has nothing of h any more, at the latest.
func (c *checks) gone(h *hold) stamp {
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

// liveness: a lock that is free, or abandoned and past its lease, is got within
// MaxPoll by somebody who waits for it; and nobody who waits longer leaves without it.
// It returns from when the key is free after p.
func (c *checks) liveness(p piece) (free stamp) {
	free = p.line.past.free
	if c.row.Stretches {
		return free
	}
	called := make([]stamp, len(p.holds)+1) // when the first call came that brought this hold or a later one
	called[len(p.holds)] = forever
	for i, h := range slices.Backward(p.holds) {
		called[i] = min(h.called, called[i+1])
	}
	next := 0 // of the waiters: all before it have left before the lock was free
	for i, h := range p.holds {
		if wait := c.waited(h.called, free, h.got); free > 0 && wait > c.mayWait(h.proc) {
			c.wrong("%v was free for %v before it was got", h, wait)
		}
		next = c.leftAlone(p, next, free, called[i])
		free = max(free, c.gone(h))
	}
	c.leftAlone(p, next, free, forever)
	return free
}

// mayWait is how long a process waits for a lock that is free.
func (c *checks) mayWait(proc int) time.Duration {
	return pollOf(proc, c.lease) + slack(waitSlack, c.lease)
}

// waited is how long somebody who called waited for a free lock until then, on a
// machine that ran. A connection that was broken is given up and dialled anew; a
// process that stands still for a round trip breaks some by itself.
func (c *checks) waited(called, free, until stamp) time.Duration {
	from := max(called, free)
	if from >= until {
		return 0
	}
	since, stood := c.calm(from-stamp(2*c.roundTrip()), until, c.roundTrip())
	return until.sub(max(from, since.add(2*c.roundTrip()))) - stood
}

// leftAlone: of those who left without the lock, nobody had waited while it was free,
// and nobody else asked for it, for longer than it takes. taken is when the next call
// came that brought the lock. It returns the first who has not left by then.
func (c *checks) leftAlone(p piece, next int, free, taken stamp) int {
	for _, a := range p.attempts[next:] {
		if a.called >= taken {
			break
		}
		until := min(a.left, taken)
		if !a.wait || a.left == forever || until <= free || free == 0 {
			continue
		}
		if wait := c.waited(a.called, free, until); wait > c.mayWait(a.proc) {
			c.wrong("p%d.%d at %s left after it had waited for %v for a lock that was free", a.proc, a.id, a.key, wait)
		}
	}
	for next < len(p.attempts) && p.attempts[next].left <= free {
		next++
	}
	return next
}
