package renewal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// Watchdog renews leases and watches their trust. All methods are safe for
// concurrent use. A Watchdog must be closed.
type Watchdog struct {
	// immutable after New
	cfg      Config
	base     time.Time // instants count from here
	slack    time.Duration
	interval time.Duration
	grace    time.Duration
	wheel    *wheel.Wheel
	ctx      context.Context
	cancel   context.CancelFunc
	hooks    *hooks               // nil without any
	skew     func() time.Duration // nil; a test's: how far the wall clock was moved

	// atomic
	watching atomic.Bool  // clock is armed, or about to be
	ahead    atomic.Int64 // ns that the wall clock was ahead when the leases were last put right

	wg sync.WaitGroup // dispatchers and the clock's timer

	mu     sync.Mutex // guards what follows; taken before a lane's lock
	lanes  []*Lane
	ids    int       // of lanes made so far
	past   laneStats // of lanes that were closed
	closed bool
	clock  *time.Timer // compares the clocks while there are leases; nil before the first
}

// New returns a Watchdog without lanes, or all faults of cfg joined. It starts
// no goroutine; the first lane does.
func New(cfg Config) (*Watchdog, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watchdog{cfg: cfg, base: time.Now(), slack: cfg.slack(), interval: cfg.interval(), grace: cfg.wallGrace()}
	if w.wheel, err = wheel.New(wheel.Config{Tick: cfg.Tick}); err != nil {
		return nil, fmt.Errorf("renewal: making the wheel: %w", err)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.hooks = newHooks(cfg.OnBatch)
	return w, nil
}

// Config returns the configuration with its defaults filled in.
func (w *Watchdog) Config() Config { return w.cfg }

// Margin returns how long before its expiry in the store a lease of ttl stops
// being trusted.
func (w *Watchdog) Margin(ttl time.Duration) time.Duration { return w.cfg.margin(ttl) }

// Lane adds a lane that renews through r, and starts its dispatchers. After
// Close it returns ErrClosed.
func (w *Watchdog) Lane(name string, r Renewer) (*Lane, error) {
	if r == nil {
		return nil, errors.New("renewal: Lane needs a Renewer")
	}
	ln := &Lane{
		dog: w, name: name, renewer: r, ctx: w.ctx,
		windows: make(map[int64]*cohort), fixed: make(map[int64]*cohort),
		beats: newBeats(w.cfg, rand.Uint64()),
	}
	ln.work.L = &ln.mu
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	ln.id = w.ids
	w.ids++
	w.lanes = append(w.lanes, ln)
	for range w.cfg.Dispatchers {
		b := newBatch(ln)
		ln.batches = append(ln.batches, b)
		w.wg.Go(func() { ln.dispatch(b) })
	}
	return ln, nil
}

// Close ends the lane and its dispatchers, because its server is not used any
// more. For every lease in the lane, Owner.Lost(Closed) is called, also for one
// that is moved there later. Hold returns ErrClosed. Close does not wait for
// the dispatchers; Watchdog.Close does. What the lane has counted stays in the
// watchdog's Stats.
func (ln *Lane) Close() {
	w := ln.dog
	w.end(ln)
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
	w.past.add(&counted)
}

// end closes the lane and calls Lost of its leases.
func (w *Watchdog) end(ln *Lane) {
	gone, written := ln.close()
	for _, c := range written {
		w.await(c, w.now().plus(w.cfg.TTL)) // no renewal is sent after its loss was told
	}
	tell(gone)
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
		w.end(ln)
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

// close marks the lane closed. It returns its leases, which are lost, and
// channels to wait for before their owners are told.
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
	for _, c := range ln.cohortsLocked() {
		for i := len(c.leases) - 1; i >= 0; i-- {
			if l := c.leases[i]; l != nil {
				gone = append(gone, l)
				l.loseLocked(ln, Closed)
			}
		}
	}
	return gone, written
}

// cohortsLocked returns all cohorts that may have leases.
func (ln *Lane) cohortsLocked() []*cohort {
	all := slices.Clone([]*cohort(ln.queue))
	for _, in := range []map[int64]*cohort{ln.windows, ln.fixed} {
		for _, c := range in {
			all = append(all, c)
		}
	}
	for _, b := range ln.batches {
		all = append(all, &b.flight)
	}
	return all
}

func (w *Watchdog) now() instant { return instant(time.Since(w.base)) }
