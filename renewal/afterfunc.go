package renewal

import "time"

// resetLocked arms the lease's own timer for at.
func (ln *Lane) resetLocked(l *Lease, at, now instant) {
	d := time.Duration(at - now)
	if l.timer == nil {
		l.timer = time.AfterFunc(d, l.fire)
		return
	}
	l.timer.Reset(d)
}

// fire runs in a goroutine of its own when the lease's timer fires: the lease
// is due, or its trust may be over. While it is queued or flying the timer
// guards its trust.
func (l *Lease) fire() {
	ln := l.lane
	ln.mu.Lock()
	if ln.closed || state(l.state.Load()) != held {
		ln.mu.Unlock()
		return
	}
	now, trust := ln.dog.now(), instant(l.trust.Load())
	if trust <= now {
		l.loseLocked(TrustEnded)
		ln.mu.Unlock()
		l.owner.Lost(l.reason)
		return
	}
	ln.resetLocked(l, trust, now)
	if l.home != ln.loose || l.fixed || trust >= l.until {
		ln.mu.Unlock()
		return
	}
	l.home.removeLocked(l)
	if ln.dog.cfg.MaxBatch > 1 {
		ln.enqueueLocked(l, now)
		ln.mu.Unlock()
		return
	}
	b := newBatch(ln)
	ln.batches[b] = struct{}{}
	b.flight.addLocked(l, now)
	earliest := b.launchLocked()
	ln.wg.Add(1)
	defer ln.wg.Done()
	ln.mu.Unlock()
	b.run(earliest)
	ln.mu.Lock()
	delete(ln.batches, b)
	ln.mu.Unlock()
}

// enqueueLocked puts a due lease into the queue's last cohort.
func (ln *Lane) enqueueLocked(l *Lease, now instant) {
	if ln.open == nil {
		ln.open = ln.newCohort(queued)
		ln.queue = append(ln.queue, ln.open)
	}
	ln.open.addLocked(l, now)
	ln.work.Signal()
}
