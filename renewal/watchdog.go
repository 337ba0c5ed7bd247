package renewal

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// Watchdog renews leases and watches their trust. All methods are safe for
// concurrent use. It must be closed.
type Watchdog struct {
	// immutable after New
	cfg      Config
	base     time.Time // instants count from here
	slack    time.Duration
	interval time.Duration
	wheel    *wheel.Wheel // nil with AfterFunc
	ctx      context.Context
	cancel   context.CancelFunc

	wg sync.WaitGroup // dispatchers, and AfterFunc's goroutines in flight

	mu     sync.Mutex // guards lanes and closed; taken before a lane's lock
	lanes  []*Lane
	closed bool
}

// New returns a Watchdog without lanes, or all faults of cfg joined. It starts
// no goroutine; lanes and leases do.
func New(cfg Config) (*Watchdog, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watchdog{cfg: cfg, base: time.Now(), slack: cfg.slack(), interval: cfg.interval()}
	if cfg.Driver == Wheel {
		if w.wheel, err = wheel.New(wheel.Config{Tick: cfg.Tick}); err != nil {
			return nil, fmt.Errorf("renewal: making the wheel: %w", err)
		}
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	return w, nil
}

// Config returns the configuration with its defaults filled in.
func (w *Watchdog) Config() Config { return w.cfg }

// Margin is how long before its expiry a lease of ttl stops being trusted.
func (w *Watchdog) Margin(ttl time.Duration) time.Duration { return w.cfg.margin(ttl) }

// Lane adds a lane that renews through r and starts its dispatchers. It
// returns ErrClosed after Close.
func (w *Watchdog) Lane(name string, r Renewer) (*Lane, error) {
	if r == nil {
		return nil, errors.New("renewal: Lane needs a Renewer")
	}
	ln := &Lane{
		dog: w, name: name, renewer: r, ctx: w.ctx, wg: &w.wg,
		windows: make(map[int64]*cohort), fixed: make(map[int64]*cohort), batches: make(map[*Batch]struct{}),
	}
	ln.work.L = &ln.mu
	ln.loose = ln.newCohort(loose)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	w.lanes = append(w.lanes, ln)
	if w.cfg.Driver == AfterFunc && w.cfg.MaxBatch == 1 {
		return ln, nil // each renewal is a goroutine of its own
	}
	for range w.cfg.Dispatchers {
		b := newBatch(ln)
		ln.batches[b] = struct{}{}
		w.wg.Go(func() { ln.dispatch(b) })
	}
	return ln, nil
}

// Close stops all renewals, tells every lease that is still held Lost(Closed)
// and returns when no goroutine of the watchdog runs. It may be called twice
// and from many goroutines, but not from an Owner or a Renewer.
func (w *Watchdog) Close() {
	w.mu.Lock()
	w.closed = true
	w.mu.Unlock()
	w.cancel()
	if w.wheel != nil {
		w.wheel.Stop()
	}
	for _, ln := range w.snapshotLanes() {
		tell(ln.close())
	}
	w.wg.Wait()
	if w.wheel != nil {
		<-w.wheel.Done()
	}
}

func (w *Watchdog) snapshotLanes() []*Lane {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.lanes)
}

// close marks the lane closed and returns its leases, lost.
func (ln *Lane) close() []*Lease {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	ln.closed = true
	ln.work.Broadcast()
	cohorts := append(slices.Clone(ln.queue), ln.loose)
	for _, in := range []map[int64]*cohort{ln.windows, ln.fixed} {
		for _, c := range in {
			cohorts = append(cohorts, c)
		}
	}
	for b := range ln.batches {
		cohorts = append(cohorts, &b.flight)
	}
	var gone []*Lease
	for _, c := range cohorts {
		for i := len(c.leases) - 1; i >= 0; i-- {
			if l := c.leases[i]; l != nil {
				gone = append(gone, l)
				l.loseLocked(Closed)
			}
		}
	}
	return gone
}

// dispatch is the body of a dispatcher.
func (ln *Lane) dispatch(b *Batch) {
	for {
		ln.mu.Lock()
		for len(ln.queue) == 0 && !ln.closed {
			ln.work.Wait()
		}
		if ln.closed {
			ln.mu.Unlock()
			return
		}
		ln.takeLocked(b, ln.dog.cfg.MaxBatch, ln.dog.now())
		earliest := b.launchLocked()
		ln.mu.Unlock()
		b.run(earliest)
	}
}

func (w *Watchdog) now() instant { return instant(time.Since(w.base)) }

func (w *Watchdog) instant(t time.Time) instant { return instant(t.Sub(w.base)) }

// firstDue is when a lease that is held, or heard of again, at now is first
// renewed: at random over the interval (but for its first tenth, so that locks
// held for moments are not renewed), so that leases taken together part.
func (w *Watchdog) firstDue(now instant) instant {
	least := w.interval / 10
	return now.plus(least + rand.N(w.interval-least+1))
}
