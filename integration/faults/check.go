package faults

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// checks check the history of one run when it is over. They report violations, in words
// that name the holds.
type checks struct {
	*history // no longer guarded
	lease    time.Duration
	row      Row
	dir      string // for pictures

	late       int // told after the server's own expiry, or too long after a loss of data
	lost       int // holds whose loss processes were told of
	excuses    int // losses that were seen late by a process that stood still
	undecided  int // keys for which the search for an order took too long
	violations []string
}

// maxViolations is how many violations of a run are recorded at most.
const maxViolations = 1000

// allowance is the time by which a busy machine may exceed the bounds of a promise. A real fault
// takes a lease.
func (c *checks) allowance() time.Duration { return c.lease / 2 }

// roundTrip bounds a round trip, as the library does.
func (c *checks) roundTrip() time.Duration { return ioTimeout(c.lease) }

func (c *checks) addViolation(format string, args ...any) {
	if len(c.violations) < maxViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

// checkAll makes every check of the history.
func (c *checks) checkAll() {
	c.sort()
	for _, e := range c.wrongs {
		c.addViolation("process %d, hold %d of %s: %s", e.Proc, e.ID, e.Key, e.Out)
	}
	for _, key := range slices.Sorted(maps.Keys(c.keys)) {
		l := c.keys[key]
		c.findHandedOn(l)
		c.checkExclusion(l)
		c.checkTokens(l)
		c.checkWaits(l)
		for _, h := range l.holds {
			c.checkLoss(h)
		}
		c.checkToldFirst(l)
		if !isOwn(key) {
			c.checkOrder(key, l)
		}
	}
	c.checkReports()
}

// checkExclusion compares the times in which holders relied on the lock. Only those of readers may
// overlap.
func (c *checks) checkExclusion(l *keyHistory) {
	var running []*hold
	for _, h := range l.holds {
		running = slices.DeleteFunc(running, func(o *hold) bool { return o.end() <= h.got })
		if h.end() <= h.got {
			continue
		}
		for _, o := range running {
			if excused := o.kind == read && h.kind == read || c.wasTakenAway(o, h) || h.handed && c.wasTakenAway(h, o); !excused {
				c.addViolation("%v and %v both relied on it for %v", o, h, min(o.end(), h.end()).sub(h.got))
			}
		}
		running = append(running, h)
	}
}

// wasTakenAway reports whether a fault may have made the server lose a before b was taken. checkLoss
// checks that the holder of a is then told in time.
func (c *checks) wasTakenAway(a, b *hold) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool {
		return a.minted <= f.To && b.got >= f.From && a.end() <= c.toldBy(f)
	})
}

// mayBeTaken reports whether a fault may have taken h away, although its Unlock says
// that it was given back. If the first answer was lost, the second answer cannot tell
// one from the other.
func (c *checks) mayBeTaken(h *hold) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool { return f.From <= h.freed && f.To >= h.minted })
}

// toldBy returns when holders must know of a loss of data: a renewal interval and a round trip after
// it. The interval is a third of the lease, and up to a 300th more because renewals are spread.
func (c *checks) toldBy(f period) stamp {
	return f.To.add(c.lease/3 + c.lease/300 + c.roundTrip() + c.allowance())
}

// handOverFor is for how long a client hands a mutex over in memory.
const handOverFor = 100 * time.Millisecond

// findHandedOn finds the holds that a client handed over to its own callers for a while
// after a fault took the lock from it. The client had reserved their tokens before.
func (c *checks) findHandedOn(l *keyHistory) {
	if !c.row.Loses {
		return
	}
	type minted struct {
		proc  int
		token int64
	}
	type run struct{ first, last *hold }
	runs := map[minted]run{} // by the token of the last
	for _, h := range slices.SortedFunc(slices.Values(l.holds), func(a, b *hold) int { return cmp.Compare(a.token, b.token) }) {
		of := run{h, h}
		if r, ok := runs[minted{h.proc, h.token - 1}]; ok && h.called <= r.last.freed && h.got < r.first.got.add(handOverFor+c.allowance()) {
			of.first, h.minted, h.handed = r.first, min(h.called, r.first.called), true
		}
		runs[minted{h.proc, h.token}] = of
	}
}

// checkTokens: tokens rise from each hold to the holds that were asked for after it.
func (c *checks) checkTokens(l *keyHistory) {
	var highest *hold
	seen := map[int64]*hold{}
	i := 0
	for _, h := range slices.SortedFunc(slices.Values(l.holds), func(a, b *hold) int { return cmp.Compare(a.minted, b.minted) }) {
		if h.kind != mutex {
			return
		}
		for ; i < len(l.holds) && l.holds[i].got < h.minted; i++ {
			if highest == nil || l.holds[i].token > highest.token {
				highest = l.holds[i]
			}
		}
		o := seen[h.token]
		seen[h.token] = h
		switch {
		case highest != nil && h.token <= highest.token:
			c.addViolation("%v has token %d after %d of %v", h, h.token, highest.token, highest)
		case o != nil && !o.handed && !h.handed:
			c.addViolation("%v and %v have the same token %d", o, h, h.token)
		}
	}
}

// checkLoss: the holder of a lost lock is told before the server's own expiry of the
// key or, where a fault takes the key away, within a renewal interval and a round trip.
func (c *checks) checkLoss(h *hold) {
	if h.lost == forever && h.out != outLost {
		return
	}
	c.lost++
	// The loss was seen at the end of Done, or otherwise at Unlock.
	seen, why := h.lost, h.why
	if seen == forever {
		seen, why = h.freed, h.whyOut
	}
	mayLose := c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool { return h.minted <= f.To && f.From <= seen })
	if seen < h.until && !mayLose {
		c.addViolation("%v was lost %v before its time, although nothing takes locks away: %s", h, h.until.sub(seen), why)
	}
	if h.lost == forever {
		return
	}
	// The holder must be told at its deadline. A process that stood still is told as
	// soon as it runs.
	after := h.lost.sub(h.until)
	if stood := c.stoodStill(h.proc, h.until, h.lost); after-stood > margin(c.lease) {
		c.late++
		c.addViolation("%v was told %v after the server's own expiry", h, after-stood-margin(c.lease))
	} else if after > margin(c.lease) {
		c.excuses++
	}
	if !c.row.Loses || h.until < h.lost {
		return
	}
	for i, f := range c.faults {
		if h.got > f.From || h.lost < f.From {
			continue // the fault did not hit h
		}
		hitLater := slices.ContainsFunc(c.faults[i+1:], func(g period) bool { return g.From <= h.lost })
		if by := c.toldBy(f); h.lost > by && h.lost.sub(by) > c.stoodStill(h.proc, f.From, h.lost) && !hitLater {
			c.late++
			c.addViolation("%v was told %v after it was taken away by %s", h, h.lost.sub(f.To), f.What)
		}
	}
}

// checkToldFirst: a holder is told of its loss before another gets the lock, unless a
// fault may take the lock away.
func (c *checks) checkToldFirst(l *keyHistory) {
	if c.row.Loses || len(l.holds) == 0 || l.holds[0].kind != mutex {
		return
	}
	for i, h := range l.holds[1:] {
		before := l.holds[i]
		if before.lost == forever || before.lost <= h.got || before.free <= h.got {
			continue
		}
		if c.stoodStill(before.proc, before.end(), before.lost) > 0 {
			c.excuses++
			continue
		}
		c.late++
		c.addViolation("%v was told %v after %v had got it", before, before.lost.sub(h.got), h)
	}
}

// checkReports looks at what processes have when they have given everything back.
func (c *checks) checkReports() {
	for proc, r := range c.reports {
		if r.After > r.Before {
			c.addViolation("process %d has %d goroutines after Close, %d before New: %s", proc, r.After, r.Before, r.Stack)
		}
		if r.Held != 0 || r.Waiting != 0 {
			c.addViolation("process %d counts %d holds and %d waiters when all was given back", proc, r.Held, r.Waiting)
		}
	}
}

// checkSums compares the register with all additions to it.
func (c *checks) checkSums(r *register) {
	for key, l := range c.keys {
		if !strings.HasPrefix(key, "mutex-") {
			continue
		}
		var sure, maybe int64
		for _, h := range l.holds {
			for _, u := range h.uses {
				switch {
				case u.write && u.out == outOK:
					sure++
				case u.write && u.out == outUnknown:
					maybe++
				}
			}
		}
		value, err := r.value(key)
		if err != nil || value < sure || value > sure+maybe {
			c.addViolation("%s: the register counts %d, and from %d to %d were added (%v)", key, value, sure, sure+maybe, err)
		}
	}
}
