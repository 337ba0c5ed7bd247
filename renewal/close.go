package renewal

import (
	"maps"
	"slices"
)

// Close ends the lane and its dispatchers. Call it when the lane's server is not
// used any more. Close calls Owner.Lost(Closed) for every lease in the lane. A
// lease that is moved to the lane later is lost, too. Hold returns ErrClosed.
// Close does not wait for the dispatchers; Watchdog.Close does. The counts of the
// lane stay in the watchdog's Stats.
func (ln *Lane) Close() {
	w := ln.dog
	w.closeLane(ln)
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.lanes, ln)
	if i < 0 {
		return
	}
	w.lanes = slices.Delete(w.lanes, i, i+1)
	ln.mu.Lock()
	counted := ln.stats
	ln.mu.Unlock()
	counted.inFlight = 0
	w.closedLanes.add(&counted)
}

// closeLane closes the lane and calls Lost for its leases.
func (w *Watchdog) closeLane(ln *Lane) {
	gone, written := ln.close()
	for _, c := range written {
		w.awaitWritten(c, w.now().plus(w.cfg.TTL)) // so that no renewal of a lease is sent after its owner was told
	}
	notifyLost(gone)
}

// Close stops all renewals, calls Owner.Lost(Closed) for every lease that is
// still held, and returns when no goroutine of the watchdog runs. It may be
// called twice and from many goroutines, but not by an Owner, a Renewer or a
// hook.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	w.stopClockLocked()
	w.mu.Unlock()
	w.cancel()
	w.wheel.Stop()
	for _, ln := range w.snapshotLanes() {
		w.closeLane(ln)
	}
	w.wg.Wait()
	<-w.wheel.Done()
	w.hooks.close()
}

func (w *Watchdog) snapshotLanes() []*Lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lanes)
}

// close marks the lane closed. It returns the lane's leases, which are lost now, and
// the channels to wait for before the owners are told.
func (ln *Lane) close() (gone []*Lease, written []<-chan struct{}) {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.closed = true
	ln.work.Broadcast()
	for _, b := range ln.batches {
		if c := b.writtenLocked(); c != nil {
			written = append(written, c)
		}
	}
	for _, g := range ln.groupsLocked() {
		for i := len(g.leases) - 1; i >= 0; i-- {
			if l := g.leases[i]; l != nil {
				gone = append(gone, l)
				l.loseLocked(ln, Closed)
			}
		}
	}
	return gone, written
}

// groupsLocked returns all groups that may have leases.
func (ln *Lane) groupsLocked() []*group {
	all := slices.Clone([]*group(ln.queue))
	for _, in := range []map[int64]*group{ln.windows, ln.fixed} {
		for _, end := range slices.Sorted(maps.Keys(in)) {
			all = append(all, in[end])
		}
	}
	for _, b := range ln.batches {
		all = append(all, &b.flight)
	}
	return all
}
