package renewal

import "time"

// window rounds t down. So leases that are due at about the same time, but not at a
// slot, share a wake-up and a batch.
func (w *Watchdog) window(t instant) instant { return t - t%instant(w.slack) }

// firstDueLocked gives l a slot and returns when l is first renewed. That is when the
// slot comes, or earlier if the lease is trusted for less than a TTL.
func (ln *Lane) firstDueLocked(l *Lease, now instant) instant {
	l.slot = ln.slots.join()
	due := ln.slots.next(l.slot, now)
	if latest := ln.latestLocked(l, now); due > latest {
		part := float64(due-now) / float64(ln.dog.interval)
		due = ln.dog.window(now.plus(time.Duration(part * float64(latest-now))))
	}
	return due
}

// nextDueLocked returns when l is renewed next, after a renewal whose request was
// sent at sent.
func (ln *Lane) nextDueLocked(l *Lease, sent, now instant) instant {
	if l.slot == 0 { // l was moved to this lane
		l.slot = ln.slots.join()
	} else {
		l.slot = ln.slots.keep(l.slot, now)
	}
	due := ln.slots.after(l.slot, sent)
	if latest := ln.latestLocked(l, now); due > latest {
		due = ln.dog.window(latest)
	}
	return due
}

// latestLocked returns when l must be renewed at the latest, so that half of its
// trust is left.
func (ln *Lane) latestLocked(l *Lease, now instant) instant {
	return now + max(instant(l.trust.Load())-now, 0)/2
}

// leaveSlotLocked is called when l is not renewed any more in this lane.
func (ln *Lane) leaveSlotLocked(l *Lease) {
	if l.slot != 0 {
		ln.slots.leave(l.slot)
		l.slot = 0
	}
}
