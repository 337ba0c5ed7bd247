package renewal

import (
	"maps"
	"slices"
)

// Verify makes every lease of the lane due at once, even fixed ones. Call it
// when the server behind the lane was replaced, or may have lost data. The
// leases go out as fast as the dispatchers can send them, the nearest end of
// trust first. An answer to a request that was written before Verify counts, but
// the store is asked once more. From now on the Renewer must send to the new
// server.
func (ln *Lane) Verify() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return
	}
	now := ln.dog.now()
	ln.lastVerify = max(now, ln.lastVerify+1) // a batch between two calls is from before the second, even if the clock stood still
	for _, b := range ln.batches {
		for _, l := range b.flight.leases {
			if l != nil {
				l.mustVerify = true
			}
		}
	}
	for _, g := range ln.queue {
		g.verify = true
	}
	for _, in := range []map[int64]*group{ln.waitingByDue, ln.fixed} {
		for _, end := range slices.Sorted(maps.Keys(in)) {
			g := in[end]
			g.verify = true
			ln.enqueueLocked(g, now)
		}
		clear(in)
	}
}

// Verify makes this lease due at once, as Lane.Verify does with all leases. The
// answer to a request that is under way is ignored. Verify does nothing if the
// lease has ended.
func (l *Lease) Verify() {
	ln := l.lock()
	if ln == nil {
		return
	}
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held || ln.closed {
		return
	}
	now := ln.dog.now()
	l.takeOutLocked()
	l.mustVerify = true
	ln.scheduleLocked(l, ln.dog.floorToWindow(now), now)
}

// Confirm makes the Renewer soon ask the store whether the owner still has the
// lease. Call it when you doubt that. Confirm also works for a fixed lease. A
// lease that is waiting becomes due at once, and goes out with other leases that
// are due. If a request is under way, its answer counts. After a positive answer
// the store is asked once more, because that request may be older than the doubt.
// So more calls do not send more requests to a slow store, and no answer is
// ignored. A lease that the store still has keeps its due time. Confirm does
// nothing if the lease has ended.
func (l *Lease) Confirm() {
	ln := l.lock()
	if ln == nil {
		return
	}
	defer ln.mu.Unlock()
	if state(l.state.Load()) != held || ln.closed {
		return
	}
	switch l.home.kind {
	case queued:
		l.mustVerify = true
	case inBatch:
		l.mustVerify = true
		l.flags |= doubted
	default:
		now := ln.dog.now()
		l.home.removeLocked(l)
		l.mustVerify = true
		ln.scheduleLocked(l, ln.dog.floorToWindow(now), now)
	}
}
