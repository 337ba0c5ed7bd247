package renewal

// Pass replaces the lease l by the lease to with another owner, without a request
// to the store. To the store, both owners must be the same. to must not have been
// held before. It gets the trust and the due time of l. The answer to a renewal
// that is under way counts for to. l is released. MaxHold counts from now. Only
// the new owner is told of a later loss.
//
// Pass returns false, and changes nothing, if l has ended, if l is fixed, or if
// the present trust of l reaches the end of MaxHold of l or of to.
func (l *Lease) Pass(to *Lease, owner Owner) bool {
	ln := l.lock()
	if ln == nil {
		return false
	}
	defer ln.mu.Unlock()
	if to.lane.Load() != nil {
		panic("renewal: bug: Pass to a lease that was held before")
	}
	trust, until := instant(l.trust.Load()), never
	now := ln.dog.now()
	if most := ln.dog.cfg.MaxHold; most > 0 {
		until = now.plus(most)
	}
	if state(l.state.Load()) != held || !l.isTrusted(now) || l.isNotRenewed() || trust >= until {
		return false
	}
	to.owner, to.holdEnd = owner, until
	to.trust.Store(int64(trust))
	to.pos, to.home, to.due = l.pos, l.home, l.due
	to.mustVerify, to.flags, to.fails, to.moves = l.mustVerify, l.flags, l.fails, l.moves
	if l.flags&takenOut != 0 {
		ln.dog.passTakenOut(l, to)
	}
	to.slot, l.slot = l.slot, 0
	to.home.leases[to.pos] = to
	to.lane.Store(ln)
	to.state.Store(uint32(held))
	l.home = nil
	l.state.Store(uint32(released))
	return true
}
