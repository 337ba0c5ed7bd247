package faults

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// checks look through the history of one run. The verdict that each gives is a
// list of violations, in words that name the holds.
type checks struct {
	*history
	lease   time.Duration
	maxPoll time.Duration
	row     Row

	violations []string
	late       int // told after the server's own expiry, or too long after a loss of data
	lostHolds  int
	excuses    int // losses that were seen late by a process that stood still
}

// A busy machine delays everything; what is counted in time has this for it,
// and what really goes wrong takes a lease.
func (c *checks) allowance() time.Duration { return c.lease / 2 }

// roundTrip bounds one, as the library does.
func (c *checks) roundTrip() time.Duration { return c.lease / 10 }

func (c *checks) wrong(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// run makes every check that needs the history alone.
func (c *checks) run() {
	for _, e := range c.events {
		if e.Op == opWrong {
			c.wrong("process %d, hold %d of %s: %s", e.Proc, e.ID, e.Key, e.Out)
		}
	}
	for _, key := range c.keys() {
		c.exclusion(key)
		c.tokens(key)
		c.liveness(key)
	}
	c.loss()
	c.noLateRenewal()
	c.leftovers()
}

func (c *checks) keys() []string {
	var keys []string
	for key := range c.byKey {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	return keys
}

// exclusion: the times in which holders believed do not overlap, or no more of
// them than may.
func (c *checks) exclusion(key string) {
	var running []*hold
	for _, h := range c.byKey[key] {
		running = slices.DeleteFunc(running, func(o *hold) bool { return o.end() <= h.got })
		if h.end() <= h.got {
			continue
		}
		others := 0
		for _, o := range running {
			if !c.compatible(o, h) && !c.takenAway(o, h) {
				others++
				if h.kind != permit && h.kind != count {
					c.wrong("%v and %v both relied on it for %v", o, h, min(o.end(), h.end()).sub(h.got))
				}
			}
		}
		if (h.kind == permit || h.kind == count) && others >= permits {
			c.wrong("%v is one of %d that relied on %d permits", h, others+1, permits)
		}
		running = append(running, h)
	}
}

func (c *checks) compatible(a, b *hold) bool { return a.kind == read && b.kind == read }

// takenAway: the server lost a in a fault that may do that, and b came after.
// That a is then told in time is for loss to check.
func (c *checks) takenAway(a, b *hold) bool {
	if !c.row.Loses {
		return false
	}
	return slices.ContainsFunc(c.faults, func(f period) bool {
		// a was granted before it returned.
		return a.called <= f.To && b.got >= f.From && a.end() <= c.toldBy(f)
	})
}

// mayBeTaken: a fault may have taken h away, though its Unlock says that it was
// given back: if the first answer was lost, the second cannot tell one from the
// other.
func (c *checks) mayBeTaken(h *hold) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool {
		return f.From <= h.freed && f.To >= h.called
	})
}

// toldBy is when holders know of a loss of data: within a renewal interval, a
// third of the lease and the 300th that renewals may be spread over, and a
// round trip.
func (c *checks) toldBy(f period) stamp {
	return f.To.add(c.lease/3 + c.lease/300 + c.roundTrip() + c.allowance())
}

// tokens rise from each hold to those that were asked for after it.
func (c *checks) tokens(key string) {
	hs := slices.Clone(c.byKey[key])
	if len(hs) == 0 || hs[0].kind != mutex {
		return
	}
	seen := map[int64]*hold{}
	for _, h := range hs {
		if o := seen[h.token]; o != nil {
			c.wrong("%v and %v have the same token %d", o, h, h.token)
		}
		seen[h.token] = h
	}
	asked := slices.Clone(hs)
	slices.SortFunc(asked, func(a, b *hold) int { return int(a.called - b.called) })
	var highest *hold
	for i, h := 0, 0; h < len(asked); h++ {
		for ; i < len(hs) && hs[i].got < asked[h].called; i++ {
			if highest == nil || hs[i].token > highest.token {
				highest = hs[i]
			}
		}
		if highest != nil && asked[h].token <= highest.token {
			c.wrong("%v has token %d after %d of %v", asked[h], asked[h].token, highest.token, highest)
		}
	}
}

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

// liveness: a lock that is free, or abandoned and past its lease, is got by
// somebody who waits for it within MaxPoll.
func (c *checks) liveness(key string) {
	if c.row.Stretches {
		return
	}
	free := stamp(0)
	for _, h := range c.byKey[key] {
		since := max(h.called, free)
		// A connection that was broken is given up and dialled anew. A machine
		// that is so busy that nobody runs does the same by itself.
		for _, f := range c.disturbances {
			if f.From < h.got {
				since = max(since, f.To.add(2*c.roundTrip()))
			}
		}
		if wait := h.got.sub(since); free > 0 && wait > c.maxPoll+c.lease {
			c.wrong("%v was free for %v before it was got", h, wait)
		}
		free = max(free, c.gone(h))
	}
}

// loss: who loses a lock is told before the server's own expiry of the key or,
// where a fault takes the key away, within a renewal interval and a round trip.
func (c *checks) loss() {
	for _, h := range c.holds {
		if h.lost == forever && h.out != outLost {
			continue
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
			continue
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
	}
	if !c.row.Loses {
		// Whoever gets the lock does so after the one before was told.
		for _, key := range c.keys() {
			c.toldFirst(key)
		}
		return
	}
	for _, f := range c.faults {
		for _, h := range c.holds {
			if h.got > f.From || h.lost == forever || h.lost < f.From || h.until < h.lost {
				continue // not hit by it, or told by the end of trust
			}
			if by := c.toldBy(f); h.lost > by && h.lost.sub(by) > time.Duration(c.excused(h.proc, f.From, h.lost)) && !c.hitLater(h, f) {
				c.late++
				c.wrong("%v was told %v after it was taken away by %s", h, h.lost.sub(f.To), f.What)
			}
		}
	}
}

// hitLater: a later fault may be what took it.
func (c *checks) hitLater(h *hold, than period) bool {
	return slices.ContainsFunc(c.faults, func(f period) bool { return f.From > than.From && f.From <= h.lost })
}

func (c *checks) mayLose(h *hold, seen stamp) bool {
	return c.row.Loses && slices.ContainsFunc(c.faults, func(f period) bool { return h.called <= f.To && f.From <= seen })
}

func (c *checks) toldFirst(key string) {
	hs := c.byKey[key]
	if len(hs) == 0 || hs[0].kind != mutex {
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
func (c *checks) noLateRenewal() {
	type name struct {
		proc int
		id   int64
	}
	ended := map[name]stamp{}
	for _, h := range c.holds {
		end := h.lost
		if h.freed != forever && h.out == outOK {
			end = min(end, h.freed)
		}
		ended[name{h.proc, h.id}] = end
	}
	for _, r := range c.renewals {
		end, ok := ended[name{r.proc, r.id}]
		if !ok || end == forever {
			continue
		}
		late, wire := r.at.sub(end), c.roundTrip()+c.allowance()
		for _, f := range c.faults {
			if f.From < r.at && f.To > end {
				// It was held back, and what had piled up came all at once.
				late, wire = min(late, r.at.sub(f.To)), c.lease
			}
		}
		if late > wire+time.Duration(c.excused(parent, end, r.at)+c.excused(theServer, end, r.at)) {
			c.wrong("hold %d of process %d was renewed %v after its end", r.id, r.proc, late)
		}
	}
}

// leftovers: what processes have when they have given all back.
func (c *checks) leftovers() {
	for proc, r := range c.reports {
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
