package renewal

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
	case inBatch:
		l.flags |= doubted
	default:
		now := ln.dog.now()
		l.leaveLocked()
		l.check = true
		ln.fileLocked(l, ln.dog.window(now), now)
	}
}
