package wheel

import (
	"math/bits"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// awake is wakeAt while the driver is not asleep, or about to look at every shard once more.
const awake = -1

// Wheel is a hashed timing wheel. All its methods are safe for concurrent use, from callbacks too.
type Wheel struct {
	// Immutable after New.
	cfg       Config
	start     time.Time
	classMask uint32 // number of classes of shards - 1
	plain     *set
	wake      chan struct{} // of capacity 1: one word to a driver that sleeps too long
	done      chan struct{} // closed when holds reaches 0

	// Atomic.
	open     atomic.Int64           // the earliest tick that timers may be filed at; the driver raises it before it takes a shard's lock
	wakeAt   atomic.Int64           // the tick that the driver sleeps to, never if there is none, awake if it does not sleep
	started  atomic.Bool            // the driver was started; written under mu
	stopped  atomic.Bool            // written under mu; only becomes true
	sets     atomic.Pointer[[]*set] // the plain one first; replaced under mu
	holds    atomic.Int64           // what Done waits for: Stop's end, the driver, callbacks in the Executor
	pending  atomic.Int64           // counted only if there is a MaxPending
	wakeUps  atomic.Int64
	lateness atomic.Int64 // the largest, ns
	slow     atomic.Int64
	panics   atomic.Int64

	affinities sync.Pool // of *affinity

	mu sync.Mutex // serializes start and stop of the driver and changes of sets; held for no call out of this package

	driver *driver // made under mu when the driver is started, then owned by its goroutine
}

// New makes a wheel. It costs a few KiB and no goroutine until its first timer; once it had one, it
// has to be stopped to be freed. The error names every fault in cfg.
func New(cfg Config) (*Wheel, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	w := &Wheel{
		cfg:   cfg,
		start: time.Now(),
		wake:  make(chan struct{}, 1),
		done:  make(chan struct{}),
	}
	classes := min(1<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), shardsPerSet)
	w.classMask = uint32(classes) - 1
	var made atomic.Uint32
	w.affinities.New = func() any { return &affinity{class: made.Add(1) & w.classMask} }
	w.plain = newSet(w, nil)
	w.sets.Store(&[]*set{w.plain})
	w.wakeAt.Store(never)
	w.holds.Store(1) // Stop's
	return w, nil
}

// Schedule arms t to fire d from now: task.Fire(t) is called at the first tick that is not before that
// instant. A d of zero or less means now, which is the next tick that has not been processed; a d beyond
// the clock's range of 292 years never comes. It allocates nothing.
// The error is ErrStopped, ErrPending, ErrTooManyPending, ErrOtherWheel, ErrNilTimer or ErrNilTask; t is then as it was.
func (w *Wheel) Schedule(t *Timer, d time.Duration, task Task) error {
	return w.plain.schedule(t, d, task)
}

// AfterFunc is Schedule of a new Timer, which is its one allocation, with f to be called. The Timer
// is never used for anything else, so a handle kept too long can stop no other timer.
func (w *Wheel) AfterFunc(d time.Duration, f func()) (*Timer, error) {
	if f == nil {
		return nil, ErrNilTask
	}
	t := new(Timer)
	if err := w.plain.schedule(t, d, funcTask(f)); err != nil {
		return nil, err
	}
	return t, nil
}

// Stop closes the wheel: it ends every timer that was not claimed yet and returns them, in state Stopped.
// Schedule, Reset and Next fail with ErrStopped from then on. It does not wait for callbacks, see Done;
// so it may be called from one. A second call does nothing and returns nil.
func (w *Wheel) Stop() []*Timer {
	w.mu.Lock()
	if w.stopped.Load() {
		w.mu.Unlock()
		return nil
	}
	w.stopped.Store(true)
	sets := *w.sets.Load()
	w.mu.Unlock()

	var ts []*Timer
	for _, g := range sets {
		for i := range g.shards {
			ts = g.shards[i].close(ts)
		}
	}
	w.release(len(ts))
	w.signal()
	defer w.unhold() // after the last Cancelled, a callback too
	w.cancelAll(ts)
	return ts
}

// Done returns a channel that is closed when Stop was called, the driver goroutine has ended and the
// last callback, of the Executor's too, has returned.
func (w *Wheel) Done() <-chan struct{} { return w.done }

// now is the time since the wheel's start, by the monotonic clock.
func (w *Wheel) now() int64 { return int64(time.Since(w.start)) }

// addSet makes g one of the sets that the driver and Stop go through.
func (w *Wheel) addSet(g *set) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.stopped.Load() {
		for i := range g.shards {
			g.shards[i].close(nil)
		}
		return
	}
	// Copied, since the driver reads it without mu.
	sets := append(slices.Clip(*w.sets.Load()), g)
	w.sets.Store(&sets)
}

// kick sees to it that the driver is awake at tick, which a shard's next was lowered to.
func (w *Wheel) kick(tick int64) {
	if tick < w.wakeAt.Load() {
		w.rouse()
	}
}

func (w *Wheel) rouse() {
	if w.started.Load() {
		w.signal()
	} else {
		w.startDriver() // it looks at every shard before it sleeps
	}
}

// signal wakes the driver, or makes its next sleep end at once.
func (w *Wheel) signal() {
	select {
	case w.wake <- struct{}{}:
	default: // it has been told already
	}
}

func (w *Wheel) startDriver() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.started.Load() || w.stopped.Load() {
		return
	}
	w.started.Store(true)
	w.wakeAt.Store(awake)
	w.holds.Add(1)
	w.driver = &driver{}
	go w.drive()
}

// reserve counts one more pending timer, unless there are too many.
func (w *Wheel) reserve() bool {
	if w.cfg.MaxPending == 0 {
		return true
	}
	for {
		n := w.pending.Load()
		if n >= int64(w.cfg.MaxPending) {
			return false
		}
		if w.pending.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release counts n pending timers less.
func (w *Wheel) release(n int) {
	if w.cfg.MaxPending != 0 {
		w.pending.Add(-int64(n))
	}
}

func (w *Wheel) unhold() {
	if w.holds.Add(-1) == 0 {
		close(w.done)
	}
}
