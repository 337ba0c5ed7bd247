package renewal

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/wheel"
)

// Watchdog renews leases and watches their trust. All methods are safe for
// concurrent use. A Watchdog must be closed.
type Watchdog struct {
	// immutable after New
	cfg    Config
	base   time.Time // instants count from here
	slack  time.Duration
	wheel  *wheel.Wheel
	ctx    context.Context
	cancel context.CancelFunc
	hooks  *hooks // nil without Config.OnBatch
	random *rand.Rand
	// suspendedTime returns how long the machine was suspended since it was started, and
	// suspendedBefore is what it returned at New. suspendedTime is nil if the system cannot tell.
	suspendedTime   func() time.Duration
	suspendedBefore time.Duration
	skew            func(time.Time) time.Duration // how far a test has moved the wall clock; nil in programs

	// atomic
	isWatching     atomic.Bool // the timer clock is armed, or about to be armed
	epoch          atomic.Pointer[epoch]
	correctedFor   atomic.Int64           // ns; epoch.slept when the timers were last armed for it
	clockSetBy     atomic.Int64           // ns; how far the wall clock was set forward when the stores were last asked because of that
	lastComparison atomic.Int64           // instant; when the clocks were last compared
	lastStandstill atomic.Pointer[period] // when the process last stood still
	standstillTime atomic.Int64           // ns; how long it has stood still in all

	epochMu sync.Mutex // held while a new epoch is made, so that only one goroutine does; no other lock is taken under it

	takenOutMu sync.Mutex // guards takenOut; no other lock is taken under it
	// takenOut has the leases that were taken out of their batch while it was being written, by the
	// channel that is closed when it is written. They are in other groups now, or in no group.
	takenOut map[<-chan struct{}][]*Lease

	wg sync.WaitGroup // dispatchers and the clock's timer

	mu          sync.Mutex // guards what follows; taken before a lane's lock
	lanes       []*Lane
	ids         int       // the number of lanes made so far
	closedLanes laneStats // of lanes that were closed
	closed      bool
	clock       *time.Timer // calls compareClocks while there are leases; nil before the first lease
}

// New returns a Watchdog without lanes, or one error with all faults of cfg. It
// starts no goroutine; the first lane does.
func New(cfg Config) (*Watchdog, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Watchdog{random: rand.New(cfg.Rand), cfg: cfg, base: time.Now(), slack: cfg.slack(), suspendedTime: findSuspensionClock()}
	if w.epoch.Store(new(epoch)); w.suspendedTime != nil {
		w.suspendedBefore = w.suspendedTime()
	}
	if w.wheel, err = wheel.New(wheel.Config{Tick: cfg.Tick}); err != nil {
		return nil, fmt.Errorf("renewal: making the wheel: %w", err)
	}
	w.ctx, w.cancel = context.WithCancel(context.Background())
	w.hooks = newHooks(cfg.OnBatch)
	return w, nil
}

// Config returns the configuration with its defaults filled in.
func (w *Watchdog) Config() Config { return w.cfg }

// Margin returns the time between the end of trust and the end in the store for a
// lease of ttl.
func (w *Watchdog) Margin(ttl time.Duration) time.Duration { return w.cfg.margin(ttl) }

// Lane adds a lane that renews through r, and starts its dispatchers. After
// Close it returns ErrClosed.
func (w *Watchdog) Lane(name string, r Renewer) (*Lane, error) {
	if r == nil {
		return nil, errors.New("renewal: Lane needs a Renewer")
	}
	ln := &Lane{
		dog: w, name: name, renewer: r,
		waitingByDue: make(map[int64]*group), fixed: make(map[int64]*group),
		slots: newSlots(w.cfg, w.random.Uint64()), lastVerify: math.MinInt64,
	}
	ln.work.L = &ln.mu
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return nil, ErrClosed
	}
	ln.ctx, ln.cancel = context.WithCancel(w.ctx)
	ln.id = w.ids
	w.ids++
	w.lanes = append(w.lanes, ln)
	for range w.cfg.Dispatchers {
		b := newBatch(ln)
		ln.batches = append(ln.batches, b)
		w.wg.Go(func() {
			label("renew")
			ln.dispatch(b)
		})
	}
	return ln, nil
}
