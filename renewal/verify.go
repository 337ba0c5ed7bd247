package renewal

// Verify makes every lease of the lane due at once, fixed ones too: the server
// behind the lane is another one, or may have lost what it knew. They go out as
// fast as the lane's dispatchers carry them, nearest end of trust first. The
// answer to a request that was written before Verify counts, and is asked for
// again. What the Renewer uses from now on must lead to the new server.
func (ln *Lane) Verify() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return
	}
	now := ln.dog.now()
	ln.verified = now
	for _, c := range ln.windows {
		ln.enqueueLocked(c, now)
	}
	clear(ln.windows)
	for _, c := range ln.fixed {
		for _, l := range c.leases {
			l.check = true
		}
		ln.enqueueLocked(c, now)
	}
	clear(ln.fixed)
}

// Verify makes this lease due at once, as Lane.Verify does with all. What a
// request that is under way brings counts no more. It does nothing on a lease
// that has ended.
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
	l.leaveLocked()
	l.check = true
	ln.fileLocked(l, ln.dog.window(now), now)
}
