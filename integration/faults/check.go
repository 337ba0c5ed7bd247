package faults

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// checks look through the history of one run, piece by piece. The verdict that each
// gives is a list of violations, in words that name the holds.
type checks struct {
	// immutable
	history *history
	lease   time.Duration
	row     Row
	dir     string // for pictures

	// owned by the goroutine that settles
	record           // as it stood when the piece was cut
	late      int    // told after the server's own expiry, or too long after a loss of data
	lostHolds int    // that processes were told of
	excuses   int    // losses that were seen late by a process that stood still
	undecided int    // pieces whose order was not found in time
	checked   int    // pieces
	peak      uint64 // bytes of memory

	mu         sync.Mutex // guards violations
	violations []string
}

// mostViolations is how many are written down of a run in which everything is wrong.
const mostViolations = 1000

// A busy machine delays everything; what is counted in time has this for it,
// and what really goes wrong takes a lease.
func (c *checks) allowance() time.Duration { return c.lease / 2 }

// roundTrip bounds one, as the library does.
func (c *checks) roundTrip() time.Duration { return ioTimeout(c.lease) }

func (c *checks) wrong(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.violations) < mostViolations {
		c.violations = append(c.violations, fmt.Sprintf(format, args...))
	}
}

// piece makes every check of what happened at a key between two quiet points, and
// leaves to the next what it must know.
func (c *checks) piece(p piece) {
	c.checked++
	c.stale(p)
	c.exclusion(p)
	c.tokens(p)
	free := c.liveness(p)
	for _, h := range p.holds {
		c.loss(h)
	}
	c.toldFirst(p)
	c.linear(p)
	past := p.line.past.after(p)
	past.free = free
	for _, h := range p.holds {
		past.lost = past.lost || h.lost != forever || h.out != outOK || c.mayBeTaken(h)
	}
	p.line.past = past
}

// exclusion: the times in which holders believed do not overlap, or no more of
// them than may.
func (c *checks) exclusion(p piece) {
	var running []*hold
	for _, h := range p.holds {
		running = slices.DeleteFunc(running, func(o *hold) bool { return o.end() <= h.got })
		if h.end() <= h.got {
			continue
		}
		others := 0
		for _, o := range running {
			if c.compatible(o, h) || c.takenAway(o, h) || h.handed && c.takenAway(h, o) {
				continue
			}
			others++
			if h.kind != permit && h.kind != count {
				c.wrong("%v and %v both relied on it for %v", o, h, min(o.end(), h.end()).sub(h.got))
			}
		}
		if (h.kind == permit || h.kind == count) && others >= permits {
			c.wrong("%v is one of %d that relied on %d permits", h, others+1, permits)
		}
		running = append(running, h)
	}
}

// compatible: readers are, and the goroutines of an owner.
func (c *checks) compatible(a, b *hold) bool {
	return a.kind == read && b.kind == read || a.kind == shared && b.kind == shared && a.proc == b.proc
}

// takenAway: the server lost a in a fault that may do that, and b came after.
// That a is then told in time is for loss to check.
func (c *checks) takenAway(a, b *hold) bool {
	if !c.row.Loses {
		return false
	}
	return slices.ContainsFunc(c.faults, func(f period) bool {
		// a was granted before it returned.
		return a.minted <= f.To && b.got >= f.From && a.end() <= c.toldBy(f)
	})
}

// mayBeTaken: a fault may have taken h away, though its Unlock says that it was
// given back: if the first answer was lost, the second cannot tell one from the
// other.
func (c *checks) mayBeTaken(h *hold) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool {
		return f.From <= h.freed && f.To >= h.minted
	})
}

// toldBy is when holders know of a loss of data: within a renewal interval, a
// third of the lease and the 300th that renewals may be spread over, and a
// round trip.
func (c *checks) toldBy(f period) stamp {
	return f.To.add(c.lease/3 + c.lease/300 + c.roundTrip() + c.allowance())
}

// handOverFor is for how long a client hands a mutex on without the server.
const handOverFor = 100 * time.Millisecond

// stale finds the holds that a client handed on to its own callers for a while after
// the lock was taken from it: their tokens were reserved when it had it.
func (c *checks) stale(p piece) {
	type run struct{ first, last *hold }
	runs := map[minted]run{} // by the token of the last
	for _, h := range slices.SortedFunc(slices.Values(p.holds), func(a, b *hold) int { return cmp.Compare(a.token, b.token) }) {
		h.minted = h.called
		if !c.row.Loses || h.kind != mutex {
			continue
		}
		of := run{h, h}
		if r, ok := runs[minted{h.proc, h.key, h.token - 1}]; ok && h.called <= r.last.freed && h.got < r.first.got.add(handOverFor+c.allowance()) {
			of.first, h.minted, h.handed = r.first, min(h.called, r.first.called), true
		}
		runs[minted{h.proc, h.key, h.token}] = of
	}
}

// tokens rise from each hold to those that were asked for after it. Goroutines of one
// owner have the same.
func (c *checks) tokens(p piece) {
	if len(p.holds) == 0 || p.holds[0].kind != mutex && p.holds[0].kind != shared {
		return
	}
	asked := slices.Clone(p.holds)
	slices.SortFunc(asked, func(a, b *hold) int { return cmp.Compare(a.minted, b.minted) })
	seen := map[int64]*hold{}
	highest, token := p.line.past.of, p.line.past.token
	i := 0
	for _, h := range asked {
		for ; i < len(p.holds) && p.holds[i].got < h.minted; i++ {
			if highest == nil || p.holds[i].token > token {
				highest, token = p.holds[i], p.holds[i].token
			}
		}
		o := seen[h.token]
		seen[h.token] = h
		switch {
		case highest != nil && h.token <= token && (h.token != token || !c.compatible(h, highest)):
			c.wrong("%v has token %d after %d of %v", h, h.token, token, highest)
		case o != nil && !c.compatible(o, h) && !o.handed && !h.handed:
			c.wrong("%v and %v have the same token %d", o, h, h.token)
		}
	}
}

// loss: who loses a lock is told before the server's own expiry of the key or,
// where a fault takes the key away, within a renewal interval and a round trip.
func (c *checks) loss(h *hold) {
	if h.lost == forever && h.out != outLost {
		return
	}
	c.lostHolds++
	// What is seen at Unlock was asked then; before it, the end of Done counts.
	seen, why := h.lost, h.why
	if seen == forever {
		seen, why = h.freed, h.whyOut
	}
	if seen < h.until && !c.mayLose(h, seen) {
		c.wrong("%v was lost %v before its time, although nothing takes locks away: %s", h, h.until.sub(seen), why)
	}
	if h.lost == forever {
		return
	}
	// It was to be told at its deadline, and that it ran no earlier is no
	// delay: who stood still is told as soon as it runs.
	after := h.lost.sub(h.until)
	if stood := time.Duration(c.excused(h.proc, h.until, h.lost)); after-stood > margin(c.lease) {
		c.late++
		c.wrong("%v was told %v after the server's own expiry", h, after-stood-margin(c.lease))
	} else if after > margin(c.lease) {
		c.excuses++
	}
	if !c.row.Loses {
		return
	}
	for _, f := range c.faults {
		if h.got > f.From || h.lost < f.From || h.until < h.lost {
			continue // not hit by it, or told by the end of trust
		}
		if by := c.toldBy(f); h.lost > by && h.lost.sub(by) > time.Duration(c.excused(h.proc, f.From, h.lost)) && !c.hitLater(h, f) {
			c.late++
			c.wrong("%v was told %v after it was taken away by %s", h, h.lost.sub(f.To), f.What)
		}
	}
}

// hitLater: a later fault may be what took it.
func (c *checks) hitLater(h *hold, than period) bool {
	return slices.ContainsFunc(c.faults, func(f period) bool { return f.From > than.From && f.From <= h.lost })
}

func (c *checks) mayLose(h *hold, seen stamp) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool { return h.minted <= f.To && f.From <= seen })
}

// toldFirst: whoever gets the lock does so after the one before was told, unless a
// fault may take it away.
func (c *checks) toldFirst(p piece) {
	hs := p.holds
	if c.row.Loses || len(hs) == 0 || hs[0].kind != mutex {
		return
	}
	for i, h := range hs[1:] {
		before := hs[i]
		if before.lost == forever || before.lost <= h.got || before.free <= h.got {
			continue
		}
		if c.excused(before.proc, before.end(), before.lost) > 0 {
			c.excuses++
			continue
		}
		c.late++
		c.wrong("%v was told %v after %v had got it", before, before.lost.sub(h.got), h)
	}
}

// noLateRenewal: nothing is renewed that was released or whose loss was told.
// What was on the wire then may arrive; a fault keeps it there.
func (c *checks) noLateRenewal(r renewal) {
	late, wire := r.at.sub(r.end), c.roundTrip()+c.allowance()
	for _, f := range c.faults {
		if f.From < r.at && f.To > r.end {
			// It was held back, and what had piled up came all at once.
			late, wire = min(late, r.at.sub(f.To)), c.lease
		}
	}
	if late > wire+time.Duration(c.excused(parent, r.end, r.at)+c.excused(theServer, r.end, r.at)) {
		c.wrong("hold %d of process %d was renewed %v after its end", r.id, r.proc, late)
	}
}

// leftovers: what processes have when they have given all back.
func (c *checks) leftovers() {
	for proc, r := range c.history.reports {
		if r.After > r.Before {
			c.wrong("process %d has %d goroutines after Close, %d before New: %s", proc, r.After, r.Before, r.Stack)
		}
		if r.Held != 0 || r.Waiting != 0 {
			c.wrong("process %d counts %d holds and %d waiters when all was given back", proc, r.Held, r.Waiting)
		}
		// The workload's own and a client's: neither grows with locks.
		const most = 80
		if r.Leases > 0 && r.Goroutines > most {
			c.wrong("process %d has %d goroutines at %d locks", proc, r.Goroutines, r.Leases)
		}
	}
}

// summary shortens a list of violations.
func summary(all []string) string {
	const most = 10
	if len(all) > most {
		all = append(slices.Clone(all[:most]), fmt.Sprintf("and %d more", len(all)-most))
	}
	return strings.Join(all, "\n")
}
