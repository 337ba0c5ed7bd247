package renewal

import "time"

// dispatch is the body of a dispatcher.
func (ln *Lane) dispatch(b *Batch) {
	for ln.runBatch(b) {
		if rest, recovered := ln.applyOutcomes(b); rest > 0 {
			ln.pause(rest, recovered)
		}
	}
}

// runBatch waits for due leases, sends a batch of them and returns true. It returns
// false when the lane is closed.
func (ln *Lane) runBatch(b *Batch) bool {
	ln.mu.Lock()
	for len(ln.queue) == 0 && !ln.closed {
		ln.work.Wait()
	}
	if ln.closed {
		ln.mu.Unlock()
		return false
	}
	end := ln.fillBatchLocked(b, ln.dog.now())
	ln.mu.Unlock()
	b.run(end)
	return true
}

// fillBatchLocked fills b from the queue, nearest end of trust first, and returns the latest
// end of trust of the leases in b.
func (ln *Lane) fillBatchLocked(b *Batch, now instant) instant {
	room, limit := ln.dog.cfg.MaxBatch, ln.queue[0].limit
	if b.limited = limit > 0; b.limited {
		room = min(room, limit)
	}
	end := instant(0)
	for {
		g := ln.queue[0]
		n := min(room, len(g.leases))
		end = max(end, b.fillLocked(g.leases[len(g.leases)-n:], g.verify))
		g.leases = g.leases[:len(g.leases)-n]
		if g.live -= n; g.live == 0 {
			ln.dropGroupLocked(g)
		}
		room -= n
		if room == 0 || b.limited || len(ln.queue) == 0 || ln.queue[0].limit > 0 {
			break
		}
	}
	// The batch is filled after Verify. So it begins later, even if the clock has not moved since.
	b.began = max(now, ln.lastVerify+1)
	b.flight.armLocked(now)
	ln.stats.countSent(len(b.owners))
	return end
}

// fillLocked moves the leases of a group into b, clears the slice that they were in, and
// returns their latest end of trust. verify is that of the group.
func (b *Batch) fillLocked(leases []*Lease, verify bool) instant {
	end := instant(0)
	// If there are many leases, none is in the processor's cache. This loop does so little that
	// the processor fetches many of them at once. The next loop finds them in the cache.
	for _, l := range leases {
		end = max(end, instant(l.trust.Load()))
	}
	for _, l := range leases {
		b.owners = append(b.owners, l.owner)
		b.outcomes = append(b.outcomes, unknown)
		b.flight.addLocked(l)
		l.mustVerify = l.mustVerify || verify
	}
	clear(leases)
	return end
}

// applyOutcomes applies the outcomes of b and empties b. A lease that was released, lost or
// moved meanwhile is no longer in b. If the store does not answer, applyOutcomes returns how
// long the dispatcher should rest, and a channel that is closed as soon as the store
// answers any dispatcher of the lane.
func (ln *Lane) applyOutcomes(b *Batch) (rest time.Duration, recovered <-chan struct{}) {
	dog := ln.dog
	var gone []*Lease
	ln.mu.Lock()
	now := dog.now()
	sent := now
	if b.sent {
		sent = b.stamp
	}
	answered := ln.noteAnswerLocked(b)
	// An answer to a request that was written before Verify, or at that instant, may be the old server's.
	isOld := max(sent, b.began) <= ln.lastVerify
	renewedTrust := dog.trustFrom(b.stamp, dog.cfg.TTL)
	report := BatchReport{Lane: ln.name, Leases: len(b.owners), Took: time.Duration(now - sent), Err: b.err}
	lag := instant(0)
	unsure := b.flight.leases[:0] // the leases with an unknown outcome, moved to the front
	for i, l := range b.flight.leases {
		if l == nil {
			continue
		}
		lag = max(lag, sent-l.due)
		switch v := b.outcomes[i]; {
		case v == notOwner:
			report.Lost++
			l.loseLocked(ln, NotOwner)
			gone = append(gone, l)
		case !l.isTrusted(now): // whatever the store answered, it answered too late
			l.loseLocked(ln, TrustEnded)
			gone = append(gone, l)
		case v == unknown:
			report.Unknown++
			unsure = append(unsure, l)
		default:
			report.Renewed++
			ln.applyRenewedLocked(l, sent, now, renewedTrust, isOld)
		}
	}
	report.Lag = time.Duration(lag)
	if answered {
		for _, l := range unsure {
			ln.retryLocked(l, now)
		}
	} else {
		rest, recovered = ln.requeueFailedLocked(b, unsure, now)
	}
	ln.stats.countAnswered(&report, answered)
	b.emptyLocked()
	ln.mu.Unlock()
	notifyLost(gone)
	dog.hooks.post(report)
	return rest, recovered
}

// emptyLocked makes b ready to be filled again.
func (b *Batch) emptyLocked() {
	clear(b.flight.leases)
	b.flight.leases, b.flight.trust, b.flight.live = b.flight.leases[:0], never, 0
	clear(b.owners)
	b.owners, b.outcomes, b.sent, b.err = b.owners[:0], b.outcomes[:0], false, nil
}

// applyRenewedLocked records a positive answer for l, and schedules l for its next due time. The
// answer isOld if the store must be asked once more.
func (ln *Lane) applyRenewedLocked(l *Lease, sent, now, renewedTrust instant, isOld bool) {
	l.mustVerify = isOld || l.flags&doubted != 0
	l.fails, l.moves, l.flags = 0, 0, l.flags&takenOut
	isNotRenewed := l.isNotRenewed()
	if !isNotRenewed {
		l.trustLocked(renewedTrust)
	}
	switch {
	case l.mustVerify:
		ln.scheduleLocked(l, now, now)
		return
	case isNotRenewed, sent < l.due:
		// Verify or Confirm had the store asked about l before its due time. l keeps its due
		// time. Otherwise leases that are verified together would be renewed together from
		// then on.
		ln.scheduleLocked(l, l.due, now)
		return
	}
	ln.stats.lag.Record(time.Duration(sent-l.due), 1)
	ln.stats.late.Record(time.Duration(now-l.due), 1)
	l.due = ln.nextDueLocked(l, sent, now)
	ln.scheduleLocked(l, l.due, now)
}

// retryLocked schedules a lease with an unknown outcome, to be sent again after a pause.
func (ln *Lane) retryLocked(l *Lease, now instant) {
	l.fails = min(l.fails, 254) + 1
	ln.scheduleLocked(l, ln.dog.floorToWindow(now.plus(ln.dog.backoff(int(l.fails)))), now)
}

// noteAnswerLocked reports whether the store answered b, and records what follows for the
// lane. An answer ends the lane's row of failures. A batch whose leases had all ended before they
// were sent counts as answered, but does not end the row. So does a batch that Close cuts off.
func (ln *Lane) noteAnswerLocked(b *Batch) bool {
	for _, v := range b.outcomes {
		if v == unknown {
			continue
		}
		ln.failures = 0
		if ln.recovered != nil {
			close(ln.recovered)
			ln.recovered = nil
		}
		return true
	}
	if b.flight.live == 0 && (b.err == nil || ln.closed) {
		return true
	}
	if b.err == nil {
		b.err = errSilent
	}
	return false
}

// requeueFailedLocked puts leases that failed together back into the queue, and returns how
// long the dispatcher rests before its next batch.
//
// The leases stay together. If they fail once more, they are halved, so that a lease that
// makes its batches fail is soon alone. A lease that fails alone backs off, and its failures
// do not count for the lane. After the first failure of the lane there is no rest. After more
// failures in a row, its dispatchers rest between batches. The rest counts from the
// beginning of the batch that failed, so a batch that took long is followed by no rest.
func (ln *Lane) requeueFailedLocked(b *Batch, leases []*Lease, now instant) (time.Duration, <-chan struct{}) {
	size := len(leases)
	if b.limited {
		size = (size + 1) / 2
	}
	switch len(leases) {
	case 0:
	case 1:
		leases[0].flags |= sentAlone
		ln.retryLocked(leases[0], now)
	default:
		for len(leases) > 0 {
			n := min(size, len(leases))
			ln.requeueGroupLocked(leases[:n], now)
			leases = leases[n:]
		}
	}
	if b.limited && len(b.owners) == 1 && ln.dog.cfg.MaxBatch > 1 {
		return 0, nil
	}
	if ln.failures++; ln.failures < 2 {
		return 0, nil
	}
	if ln.recovered == nil {
		ln.recovered = make(chan struct{})
	}
	return ln.dog.backoff(ln.failures-1) - time.Duration(now-b.began), ln.recovered
}

// requeueGroupLocked puts leases into the queue as one group.
func (ln *Lane) requeueGroupLocked(leases []*Lease, now instant) {
	g := ln.newGroupLocked(queued)
	for _, l := range leases {
		l.fails = min(l.fails, 254) + 1
		g.addLocked(l)
	}
	g.limit = len(leases)
	ln.enqueueLocked(g, now)
}

// pause waits for d, but not longer than until the store answers again or the
// lane is closed.
func (ln *Lane) pause(d time.Duration, recovered <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-recovered:
	case <-ln.ctx.Done():
	}
}
