package renewal

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

// Lane is the watchdog's way to one server: the leases that live there, its
// Renewer, and the dispatchers that call it. Lanes do not delay each other.
// All methods are safe for concurrent use.
type Lane struct {
	// immutable after Watchdog.Lane
	dog     *Watchdog
	name    string
	renewer Renewer
	ctx     context.Context // ends at Close
	wg      *sync.WaitGroup // the watchdog's

	mu      sync.Mutex // guards what follows and the leases; never held while a Renewer or Owner is called
	work    sync.Cond  // on mu: queue is not empty, or closed
	closed  bool
	windows map[int64]*cohort   // waiting cohorts by window
	fixed   map[int64]*cohort   // fixed leases, by the window of their end of trust when filed
	queue   []*cohort           // due, in order of arrival
	open    *cohort             // AfterFunc: the last of queue while it takes more leases
	loose   *cohort             // AfterFunc: waiting leases
	batches map[*Batch]struct{} // one a dispatcher, and one a flying lease of AfterFunc without batches
	fails   int                 // batches in a row of which nothing is known
	stats   laneStats
}

// Name returns the name that the lane was made with.
func (ln *Lane) Name() string { return ln.name }

// Terms are what the store granted.
type Terms struct {
	// Stamp is when the request that was answered yes began to be written, or
	// earlier. Later would break the promise that loss is told in time.
	Stamp time.Time
	// TTL is what that request asked for.
	TTL time.Duration
	// Fixed leases are not renewed.
	Fixed bool
}

// Hold begins to watch and, unless fixed, to renew l for owner. It returns
// ErrTrustEnded if the yes came so late that its trust is already over, and
// ErrClosed after Close; l is then not held and Lost is not called.
func (ln *Lane) Hold(l *Lease, owner Owner, terms Terms) error {
	if owner == nil {
		panic("renewal: bug: Hold without an owner")
	}
	dog := ln.dog
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return ErrClosed
	}
	if l.lane != nil {
		panic("renewal: bug: Hold of a lease that was held before")
	}
	now := dog.now()
	l.lane, l.owner, l.fixed, l.until = ln, owner, terms.Fixed, never
	if dog.cfg.MaxHold > 0 && !terms.Fixed {
		l.until = dog.instant(terms.Stamp).plus(dog.cfg.MaxHold)
	}
	l.trustLocked(terms.Stamp, terms.TTL)
	if instant(l.trust.Load()) <= now {
		*l = Lease{} // as it was: nothing has seen it
		return ErrTrustEnded
	}
	l.state.Store(uint32(held))
	l.due = dog.firstDue(now)
	ln.stats.leases++
	ln.fileLocked(l, l.due, now)
	return nil
}

// fileLocked puts l where it waits: to be renewed at the instant at, or for
// its end of trust if it is not to be renewed (any more).
func (ln *Lane) fileLocked(l *Lease, at, now instant) {
	trust := instant(l.trust.Load())
	final := l.fixed || trust >= l.until
	if ln.dog.cfg.Driver == AfterFunc {
		ln.loose.addLocked(l, now)
		if final {
			at = never
		}
		ln.resetLocked(l, min(at, trust), now)
		return
	}
	w := instant(ln.dog.slack)
	if final {
		ln.windowLocked(ln.fixed, fixed, int64(trust/w)).addLocked(l, now)
		return
	}
	ln.windowLocked(ln.windows, waiting, int64(at/w)).addLocked(l, now)
}

func (ln *Lane) windowLocked(in map[int64]*cohort, k kind, window int64) *cohort {
	c := in[window]
	if c == nil {
		c = ln.newCohort(k)
		c.window, c.due = window, instant(window)*instant(ln.dog.slack)
		in[window] = c
	}
	return c
}

func (ln *Lane) newCohort(k kind) *cohort {
	return &cohort{lane: ln, kind: k, trust: never, armed: never}
}

// dropLocked forgets a cohort that has become empty.
func (ln *Lane) dropLocked(c *cohort) {
	switch c.kind {
	case waiting:
		delete(ln.windows, c.window)
	case fixed:
		delete(ln.fixed, c.window)
	case queued:
		if i := slices.Index(ln.queue, c); i >= 0 {
			ln.queue = slices.Delete(ln.queue, i, i+1)
		}
		if ln.open == c {
			ln.open = nil
		}
	default:
		return
	}
	if c.armed != never {
		c.timer.Stop()
		c.armed = never
	}
}

// visit is called when c's timer fires: it tells the leases whose trust ended
// and queues the cohort when it is due.
func (ln *Lane) visit(c *cohort) {
	ln.mu.Lock()
	c.armed = never
	if ln.closed || c.live == 0 {
		ln.mu.Unlock()
		return
	}
	now := ln.dog.now()
	ended := c.endedLocked(now, nil)
	if c.kind == waiting && c.live > 0 && c.due <= now {
		delete(ln.windows, c.window)
		c.kind = queued
		ln.queue = append(ln.queue, c)
		if c.live > ln.dog.cfg.MaxBatch {
			ln.work.Broadcast()
		} else {
			ln.work.Signal()
		}
	}
	c.armLocked(now)
	ln.mu.Unlock()
	tell(ended)
}

func tell(lost []*Lease) {
	for _, l := range lost {
		l.owner.Lost(l.reason) // reason is final once the lease is lost
	}
}

// queuedLocked counts the leases that are due and not in a batch.
func (ln *Lane) queuedLocked() int {
	n := 0
	for _, c := range ln.queue {
		n += c.live
	}
	return n
}

// takeLocked moves up to limit leases from the queue into b, nearest end of
// trust first, and returns how many.
func (ln *Lane) takeLocked(b *Batch, limit int, now instant) int {
	for b.flight.live < limit && len(ln.queue) > 0 {
		c := slices.MinFunc(ln.queue, func(x, y *cohort) int { return cmp.Compare(x.trust, y.trust) })
		if c == ln.open {
			ln.open = nil // later leases wait behind these
		}
		for b.flight.live < limit && c.live > 0 {
			l := c.leases[len(c.leases)-1]
			c.removeLocked(l) // the last one drops c
			b.flight.addLocked(l, now)
		}
	}
	return b.flight.live
}

// backoffLocked is how long an unknown lease waits before it is sent again:
// it doubles with each batch of which nothing came back.
func (ln *Lane) backoffLocked() time.Duration {
	longest := max(ln.dog.cfg.TTL/24, ln.dog.slack)
	d := min(ln.dog.slack<<min(ln.fails, 10), longest)
	return d - rand.N(d/4+1)
}
