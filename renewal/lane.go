package renewal

import (
	"context"
	"sync"
	"time"
)

// Lane stands for one server. It has the leases that live there, the Renewer for
// the server, and the dispatchers that call the Renewer. Lanes do not delay each
// other. All methods are safe for concurrent use.
type Lane struct {
	// immutable after Watchdog.Lane
	dog     *Watchdog
	id      int // the order in which the locks of two lanes are taken
	name    string
	renewer Renewer
	ctx     context.Context // ends at Close
	cancel  context.CancelFunc
	batches []*Batch // one per dispatcher

	mu           sync.Mutex // guards what follows and the leases; never held while a Renewer or Owner is called
	work         sync.Cond  // on mu: queue is not empty, or closed
	closed       bool
	waitingByDue map[int64]*group // waiting groups; scheduleLocked makes the key from the due time
	fixed        map[int64]*group // leases that are not renewed, by the window of their end of trust when they were added
	slots        slots
	lastGroup    *group        // what groupOfLocked returned last
	queue        queue         // of due groups
	spare        []*group      // empty groups, to be used again
	lastVerify   instant       // when Verify was last called; before every Stamp if it never was
	failures     int           // batches in a row that the store did not answer
	recovered    chan struct{} // closed at the next answer; nil if no dispatcher waits for it
	stats        laneStats
}

// maxSpare limits Lane.spare. Few are needed, because in each window about as many groups
// are dropped as are made.
const maxSpare = 8

// Name returns the name that was given to Watchdog.Lane.
func (ln *Lane) Name() string { return ln.name }

// Terms say what the store granted.
type Terms struct {
	// Stamp is a time before the first byte was written of the request that the store
	// confirmed. With a later time, the holder could be told of a loss too late.
	Stamp time.Time
	// TTL is the lease for which that request asked.
	TTL time.Duration
	// Fixed says that the lease is not renewed.
	Fixed bool
	// MaxHoldEnd is when Config.MaxHold ends a lease that replaces another one;
	// see Lease.MaxHoldEnd. Zero means MaxHold after Stamp.
	MaxHoldEnd time.Time
}

// Hold starts to watch l for owner. Unless l is fixed, Hold also starts to renew
// it. If the request that the store confirmed is older than the last Verify, the
// lease is due at once. Hold returns ErrTrustEnded if the store's answer came so late that trust
// has already ended, and ErrClosed after Close. After an error l is not held, and
// Lost is not called.
func (ln *Lane) Hold(l *Lease, owner Owner, terms Terms) error {
	if owner == nil {
		panic("renewal: bug: Hold without an owner")
	}
	dog := ln.dog
	ln.mu.Lock()
	if ln.closed {
		ln.mu.Unlock()
		return ErrClosed
	}
	if l.lane.Load() != nil {
		ln.mu.Unlock()
		panic("renewal: bug: Hold of a lease that was held before")
	}
	now := dog.now()
	sent := dog.instantOf(terms.Stamp)
	l.isFixed = terms.Fixed
	l.holdEnd = never
	if !terms.MaxHoldEnd.IsZero() {
		l.holdEnd = dog.instantOf(terms.MaxHoldEnd)
	} else if dog.cfg.MaxHold > 0 {
		l.holdEnd = sent.plus(dog.cfg.MaxHold)
	}
	l.trust.Store(0)
	l.trustLocked(dog.trustFrom(sent, terms.TTL))
	if !l.isTrusted(now) {
		ln.mu.Unlock()
		return ErrTrustEnded
	}
	l.owner = owner
	l.lane.Store(ln)
	l.state.Store(uint32(held))
	l.due = ln.firstDueLocked(l, now)
	ln.stats.leases++
	if sent > ln.lastVerify {
		ln.scheduleLocked(l, l.due, now)
	} else { // the old server may have confirmed it
		l.mustVerify = true
		ln.scheduleLocked(l, dog.floorToWindow(now), now)
	}
	ln.mu.Unlock()
	dog.watchClock()
	return nil
}

// scheduleLocked puts l into the group in which it waits. l waits to be renewed at the
// instant at, or for its end of trust if it is not renewed (any more).
func (ln *Lane) scheduleLocked(l *Lease, at, now instant) {
	var g *group
	isNotRenewed := l.isNotRenewed()
	if isNotRenewed {
		ln.leaveSlotLocked(l)
	}
	if isNotRenewed && !l.mustVerify {
		g = ln.groupOfLocked(ln.fixed, fixed, int64(instant(l.trust.Load())/instant(ln.dog.slack)))
	} else {
		// The last bit of the key keeps leases that must be sent alone in other groups than
		// the leases that are due at the same time.
		window := int64(at) << 1
		if l.flags&sentAlone != 0 {
			window |= 1
		}
		g = ln.groupOfLocked(ln.waitingByDue, waiting, window)
	}
	g.addLocked(l)
	g.armLocked(now)
}

// groupOfLocked returns the group with the key window in the map in, which is windows or
// fixed. It makes the group if there is none.
func (ln *Lane) groupOfLocked(in map[int64]*group, k kind, window int64) *group {
	if g := ln.lastGroup; g != nil && g.key == window && g.kind == k {
		return g
	}
	g := in[window]
	if g == nil {
		g = ln.newGroupLocked(k)
		g.key = window
		if k == waiting {
			g.due = instant(window >> 1)
			g.limit = int(window & 1)
		}
		in[window] = g
	}
	ln.lastGroup = g
	return g
}

func (ln *Lane) newGroupLocked(k kind) *group {
	var g *group
	if n := len(ln.spare); n > 0 {
		g = ln.spare[n-1]
		ln.spare[n-1] = nil
		ln.spare = ln.spare[:n-1]
	} else {
		g = &group{lane: ln, armed: never}
	}
	g.kind, g.trust, g.limit, g.verify = k, never, 0, false
	return g
}

// dropGroupLocked forgets a group that has become empty. If the group is kept, its timer usually stays
// armed, because a lease that is taken and soon released leaves an empty group, and the next lease needs
// the timer for the same moment. If no lease comes, the timer fires once for nothing.
func (ln *Lane) dropGroupLocked(g *group) {
	wasQueued := g.kind == queued // for the case that a dispatcher hangs
	switch g.kind {
	case waiting:
		delete(ln.waitingByDue, g.key)
	case fixed:
		delete(ln.fixed, g.key)
	case queued:
		ln.queue.remove(g)
	}
	g.kind = spare
	isKept := len(ln.spare) < maxSpare
	if isKept {
		ln.spare = append(ln.spare, g)
	}
	if wasQueued || !isKept {
		g.disarmLocked()
	}
}

// visitGroup is called when g's timer fires. It ends the leases whose trust has ended, and
// queues the group if it is due.
func (ln *Lane) visitGroup(g *group) {
	ln.mu.Lock()
	g.armed = never
	if ln.closed || g.live == 0 {
		ln.mu.Unlock()
		return
	}
	now := ln.dog.now()
	ended := g.endedLocked(now, nil)
	if g.live > 0 && g.due <= now {
		switch g.kind {
		case waiting:
			delete(ln.waitingByDue, g.key)
			ln.enqueueLocked(g, now)
		case queued:
			g.due = never
			ln.work.Broadcast()
		}
	}
	g.armLocked(now)
	ln.mu.Unlock()
	notifyLost(ended)
}

// soloBatches is how many batches one dispatcher sends before others help.
const soloBatches = 8

// enqueueLocked puts a group into the queue and wakes one dispatcher for it. Unless
// there is much to do, waking several dispatchers costs more than it gains, because
// one dispatcher that goes from batch to batch keeps its processor awake and its
// cache warm. But that dispatcher may hang. So if the group is still in the queue when
// its timer fires, all dispatchers are woken; see visitGroup.
func (ln *Lane) enqueueLocked(g *group, now instant) {
	g.due = now.plus(ln.dog.slack)
	ln.queue.push(g)
	g.armLocked(now)
	if g.live > soloBatches*ln.dog.cfg.MaxBatch {
		ln.work.Broadcast()
	} else {
		ln.work.Signal()
	}
}

// notifyLost calls Lost of the owners of leases that were lost. If one call panics or calls
// Goexit, the other owners are called all the same.
func notifyLost(lost []*Lease) {
	for len(lost) > 0 {
		l := lost[0]
		lost = lost[1:]
		notifyOne(l, lost)
	}
}

func notifyOne(l *Lease, others []*Lease) {
	returned := false
	defer func() {
		if !returned {
			notifyLost(others)
		}
	}()
	l.owner.Lost(l.reason) // reason is final once the lease is lost
	returned = true
}

// countQueuedLocked counts the leases that are due and not in a batch.
func (ln *Lane) countQueuedLocked() int {
	n := 0
	for _, g := range ln.queue {
		n += g.live
	}
	return n
}

// backoff returns the pause after the given number of failures in a row.
func (w *Watchdog) backoff(fails int) time.Duration {
	longest := max(w.cfg.TTL/24, w.slack)
	d := min(w.slack<<min(max(fails-1, 0), 10), longest)
	return d - time.Duration(w.random.Int64N(int64(d/4)+1))
}

// floorToWindow returns the beginning of the window in which t is. Time is divided into
// windows of the width slack. Leases that are due in the same window, but not at a slot,
// become due at its beginning, so they share a wake-up and a batch.
func (w *Watchdog) floorToWindow(t instant) instant { return t - t%instant(w.slack) }

// firstDueLocked gives l a slot and returns when l is first renewed. That is when the
// slot comes, or earlier if the lease is trusted for less than a TTL.
func (ln *Lane) firstDueLocked(l *Lease, now instant) instant {
	l.slot = ln.slots.join()
	due := ln.slots.nextMoment(l.slot, now)
	if latest := l.latestDueLocked(now); due > latest {
		part := float64(due-now) / float64(ln.slots.interval)
		due = ln.dog.floorToWindow(now.plus(time.Duration(part * float64(latest-now))))
	}
	return due
}

// nextDueLocked returns when l is renewed next, after a renewal whose request was
// sent at sent.
func (ln *Lane) nextDueLocked(l *Lease, sent, now instant) instant {
	if l.slot == 0 { // l was moved to this lane
		l.slot = ln.slots.join()
	} else {
		l.slot = ln.slots.keepOrChange(l.slot, now)
	}
	due := ln.slots.nextRenewal(l.slot, sent)
	if latest := l.latestDueLocked(now); due > latest {
		due = ln.dog.floorToWindow(latest)
	}
	return due
}

// leaveSlotLocked is called when l is not renewed any more in this lane.
func (ln *Lane) leaveSlotLocked(l *Lease) {
	if l.slot != 0 {
		ln.slots.leave(l.slot)
		l.slot = 0
	}
}
