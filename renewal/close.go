package renewal

import (
	"maps"
	"slices"
)

// Close ends the lane and its dispatchers. Call it when the lane's server is not
// used any more. Close calls Owner.Lost(Closed) for every lease in the lane, at
// once unless a request with the lease is being written. The contexts of the
// lane's batches end. A lease that is moved to the lane later is lost, too. Hold returns ErrClosed.
// Close does not wait for the dispatchers; Watchdog.Close does. The counts of the
// lane stay in the watchdog's Stats.
func (ln *Lane) Close() {
	w := ln.dog
	w.closeLanes(ln)
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

// closeLanes closes lanes and calls Lost for their leases.
func (w *Watchdog) closeLanes(lanes ...*Lane) {
	var gone []*Lease
	var writing []untold
	for _, ln := range lanes {
		told, later := ln.close()
		gone, writing = append(gone, told...), append(writing, later...)
	}
	defer w.tellWhenWritten(writing) // even if a Lost panics
	notifyLost(gone)
}

// untold are leases that are lost while a request with them is being written. Their owners are told
// when the request is written, so that no renewal of a lease is sent after that.
type untold struct {
	leases []*Lease
	writes []<-chan struct{}
	end    instant // the earliest end of their trust; the owners are told by then in any case
}

// tellWhenWritten calls Lost for leases that are being written, and returns when it has called all.
func (w *Watchdog) tellWhenWritten(all []untold) {
	ready := make(chan []*Lease, len(all))
	for _, u := range all {
		go func() {
			label("await a write")
			w.awaitWritten(u.writes, u.end)
			ready <- u.leases
		}()
	}
	tellReady(ready, len(all))
}

// tellReady calls Lost for n sets of leases. If one call panics or calls Goexit, the others are made
// all the same.
func tellReady(ready <-chan []*Lease, n int) {
	defer func() {
		if n > 0 {
			tellReady(ready, n)
		}
	}()
	for n > 0 {
		leases := <-ready
		n--
		notifyLost(leases)
	}
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
	w.closeLanes(w.snapshotLanes()...)
	w.wg.Wait()
	<-w.wheel.Done()
	w.hooks.close()
}

func (w *Watchdog) snapshotLanes() []*Lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lanes)
}

// close marks the lane closed, and cuts off its batches. It returns the lane's leases, which are
// lost now: those whose owners are told at once, and those that are being written.
func (ln *Lane) close() (gone []*Lease, writing []untold) {
	defer ln.cancel()
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.closed = true
	ln.work.Broadcast()
	groups := ln.groupsLocked()
	for _, g := range groups {
		var lost []*Lease
		end := never
		for i := len(g.leases) - 1; i >= 0; i-- {
			l := g.leases[i]
			if l == nil {
				continue
			}
			trust := instant(l.trust.Load())
			if len(l.formerWritesLocked()) > 0 {
				writing = append(writing, untold{[]*Lease{l}, l.writesLocked(), trust})
			} else {
				lost, end = append(lost, l), min(end, trust)
			}
			l.loseLocked(ln, Closed)
		}
		if len(lost) > 0 && g.kind == inBatch && g.batch.writing {
			writing = append(writing, untold{lost, []<-chan struct{}{g.batch.writtenLocked()}, end})
		} else {
			gone = append(gone, lost...)
		}
	}
	for _, g := range append(groups, ln.spare...) { // else the wheel keeps the lane until their timers have fired
		g.disarmLocked()
	}
	return gone, writing
}

// groupsLocked returns all groups that may have leases.
func (ln *Lane) groupsLocked() []*group {
	all := slices.Clone([]*group(ln.queue))
	for _, in := range []map[int64]*group{ln.waitingByDue, ln.fixed} {
		for _, end := range slices.Sorted(maps.Keys(in)) {
			all = append(all, in[end])
		}
	}
	for _, b := range ln.batches {
		all = append(all, &b.flight)
	}
	return all
}
