package renewal

import "time"

// window rounds t down, so that leases that are due at about the same time, and at
// no beat, share a wake-up and a batch.
func (w *Watchdog) window(t instant) instant { return t - t%instant(w.slack) }

// firstDueLocked gives l a beat and returns when it is first renewed: when that beat
// comes, or earlier if the lease is trusted for less than a TTL.
func (ln *Lane) firstDueLocked(l *Lease, now instant) instant {
	l.beat = ln.beats.join()
	due := ln.beats.next(l.beat, now)
	if latest := ln.latestLocked(l, now); due > latest {
		part := float64(due-now) / float64(ln.dog.interval)
		due = ln.dog.window(now.plus(time.Duration(part * float64(latest-now))))
	}
	return due
}

// nextDueLocked returns when l is renewed next. It was just renewed by a request that
// was sent then.
func (ln *Lane) nextDueLocked(l *Lease, sent, now instant) instant {
	if l.beat == 0 { // it was moved here
		l.beat = ln.beats.join()
	} else {
		l.beat = ln.beats.keep(l.beat, now)
	}
	due := ln.beats.after(l.beat, sent)
	if latest := ln.latestLocked(l, now); due > latest {
		due = ln.dog.window(latest)
	}
	return due
}

// latestLocked is when l must be renewed, so that half of its trust is left.
func (ln *Lane) latestLocked(l *Lease, now instant) instant {
	return now + max(instant(l.trust.Load())-now, 0)/2
}

// leaveBeatLocked is called when l is not renewed any more in this lane.
func (ln *Lane) leaveBeatLocked(l *Lease) {
	if l.beat != 0 {
		ln.beats.leave(l.beat)
		l.beat = 0
	}
}
