package renewal

// maxMoves limits the moves out of batches in a row that cause no pause.
const maxMoves = 5

// Move moves the lease to another lane of the same watchdog. Call it when the
// lease's key now lives on another server. That lane renews the lease from then
// on, and answers that the old lane still gets are ignored. A lease that was in a
// batch, or queued for one, is due at once. If it was moved out of more than five
// batches in a row, the servers do not agree where it is, and it is due after a
// pause.
//
// Move returns false if the lease has ended. If the new lane is closed, Move ends
// the lease as lost. If a request of the old lane is being written at that
// moment, Move waits until it is written, as Release does. A Renewer may call
// Move, but not while it writes.
func (l *Lease) Move(to *Lane) bool {
	from := l.lockWith(to)
	if from == to {
		defer to.mu.Unlock()
		return state(l.state.Load()) == held
	}
	if from == nil || state(l.state.Load()) != held {
		to.mu.Unlock()
		if from != nil {
			from.mu.Unlock()
		}
		return false
	}
	writes := l.writesLocked()
	moved := l.moveLocked(from, to)
	from.mu.Unlock()
	to.mu.Unlock()
	if len(writes) > 0 {
		from.dog.awaitWritten(writes, instant(l.trust.Load()))
	}
	if !moved {
		notifyLost([]*Lease{l})
		return false
	}
	from.dog.watchClock() // compareClocks may have counted the leases of one lane before the move, and of the other after it
	return true
}

// lockWith locks the lane to and the lease's lane, and returns the lease's lane, which
// is nil before Hold. It locks two lanes in the order of their ids.
func (l *Lease) lockWith(to *Lane) *Lane {
	for {
		from := l.lane.Load()
		first, second := from, to
		switch {
		case from == nil, from == to:
			first, second = to, nil
		case from.dog != to.dog:
			panic("renewal: bug: Move to a lane of another watchdog")
		case to.id < from.id:
			first, second = to, from
		}
		first.mu.Lock()
		if second != nil {
			second.mu.Lock()
		}
		if l.lane.Load() == from {
			return from
		}
		first.mu.Unlock()
		if second != nil {
			second.mu.Unlock()
		}
	}
}

// moveLocked needs the locks of both lanes. If the new lane is closed, the lease is
// lost, and moveLocked returns false.
func (l *Lease) moveLocked(from, to *Lane) bool {
	if to.closed {
		l.loseLocked(from, Closed)
		return false
	}
	now, at := to.dog.now(), l.due
	switch l.home.kind {
	case queued:
		at = now
	case inBatch:
		if at = now; l.moves < maxMoves {
			l.moves++
		} else {
			at = now.plus(to.dog.backoff(maxMoves))
		}
	}
	l.takeOutLocked()
	from.leaveSlotLocked(l)
	from.stats.leases--
	to.stats.leases++
	l.fails = 0
	l.flags &^= sentAlone
	l.lane.Store(to)
	to.scheduleLocked(l, at, now)
	return true
}

// Lane returns the lane of the lease, or nil before Hold.
func (l *Lease) Lane() *Lane { return l.lane.Load() }
