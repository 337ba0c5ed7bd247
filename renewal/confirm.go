package renewal

// Confirm has the store asked once more, soon, whether the lease is still its
// owner's, a fixed lease too. Call it when there is a doubt. A lease that is
// waiting is made due at once and goes out with others that are. If a request is
// under way, its answer counts, and a yes is asked for once more, because that
// request may be older than the doubt. So a store that is slow gets no more
// requests by more calls, and an answer is never ignored. A lease that the store
// still has keeps its due time. Confirm does nothing if the lease has ended.
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
	case flying:
		l.flags |= doubted
	default:
		now := ln.dog.now()
		l.leaveLocked()
		l.check = true
		ln.fileLocked(l, ln.dog.window(now), now)
	}
}
