package renewal

import "time"

// resetLocked arms the lease's own timer for at.
func (ln *Lane) resetLocked(l *Lease, at, now instant) {
	d := time.Duration(at - now)
	if l.rare.timer == nil {
		l.rare.timer = time.AfterFunc(d, l.fire)
		return
	}
	l.rare.timer.Reset(d)
}

// fire runs in a goroutine of its own when the lease's timer fires: the lease
// is due, or its trust may be over. While it is queued or flying the timer
// guards its trust.
func (l *Lease) fire() {
	ln := l.lock()
	if ln.closed || state(l.state.Load()) != held {
		ln.mu.Unlock()
		return
	}
	now, trust := ln.dog.now(), instant(l.trust.Load())
	if trust <= now {
		l.loseLocked(ln, TrustEnded)
		ln.mu.Unlock()
		tell([]*Lease{l})
		return
	}
	ln.resetLocked(l, trust, now)
	if l.home != ln.loose || l.final() && !l.check {
		ln.mu.Unlock()
		return
	}
	l.home.removeLocked(l)
	if ln.dog.cfg.MaxBatch > 1 {
		ln.joinLocked(l)
		ln.mu.Unlock()
		return
	}
	b := ln.idleBatchLocked()
	end := b.fillLocked([]*Lease{l})
	ln.stats.launch(1)
	ln.wg.Add(1)
	defer ln.wg.Done()
	ln.mu.Unlock()
	b.run(end)
	ln.settle(b)
	ln.mu.Lock()
	delete(ln.batches, b)
	ln.idle = append(ln.idle, b)
	ln.mu.Unlock()
}

func (ln *Lane) idleBatchLocked() *Batch {
	var b *Batch
	if n := len(ln.idle); n > 0 {
		b, ln.idle = ln.idle[n-1], ln.idle[:n-1]
	} else {
		b = newBatch(ln)
	}
	ln.batches[b] = struct{}{}
	return b
}

// joinLocked puts a due lease into the queue's open cohort, or into one of its
// own if it is to be sent alone.
func (ln *Lane) joinLocked(l *Lease) {
	if l.alone || ln.open == nil {
		c := ln.newCohortLocked(queued)
		c.addLocked(l)
		if l.alone {
			c.limit = 1
		} else {
			ln.open = c
		}
		ln.enqueueLocked(c, ln.dog.now())
		return
	}
	ln.open.addLocked(l)
	ln.queue.fix(ln.open)
	ln.work.Signal()
}
