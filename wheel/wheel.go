package wheel

import (
	"context"
	"fmt"
	"math/bits"
	"reflect"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"
)

// awake is the value of wakeAt while the driver does not sleep, and while it
// looks at every shard once more before it sleeps.
const awake = -1

// Wheel is a hashed timing wheel. All methods are safe for concurrent use,
// also in callbacks.
type Wheel struct {
	// Immutable after New.
	cfg      Config
	start    time.Time
	shards   []shard
	classes  uint32        // of shards; see affinity
	wake     chan struct{} // of capacity 1; wakes a driver that sleeps too long
	done     chan struct{} // closed when unfinished reaches 0
	inBubble bool          // New was called in a testing/synctest bubble

	// Atomic.
	firstOpenTick atomic.Int64 // the earliest tick at which timers may be filed; only the driver raises it, before it takes a shard's lock; nothing lowers it
	wakeAt        atomic.Int64 // the tick until which the driver sleeps; never if there is none; awake if it does not sleep
	started       atomic.Bool  // the driver was started; written under mu
	stopped       atomic.Bool  // written under mu; only becomes true
	unfinished    atomic.Int64 // the number of things for which Done waits: the end of Stop, the driver, callbacks in the Executor
	pending       atomic.Int64 // counted only if there is a MaxPending
	passing       atomic.Int64 // the tick on which the driver works; never if there is none
	callbackBegan atomic.Int64 // when the driver's present callback began, or up to beganPrecision earlier
	wakeUps       atomic.Int64
	lateness      atomic.Int64 // the largest of this window, ns

	latenessBefore atomic.Int64 // of the window before
	windowStart    atomic.Int64 // when this window began
	slow           atomic.Int64
	panics         atomic.Int64

	affinities sync.Pool // of *affinity

	mu sync.Mutex // serializes start and stop of the driver; never held while code outside this package runs

	driver *driver // made under mu when the driver is started, then owned by its goroutine
}

// New makes a wheel. Until its first timer, a wheel costs a few KiB and no
// goroutine. A wheel that had a timer must be stopped before the garbage
// collector can free it. The error names every fault in cfg.
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
	w.inBubble = isBubbleTime(w.start)
	w.classes = uint32(min(1<<bits.Len(uint(runtime.GOMAXPROCS(0)-1)), shardsPerWheel))
	var made atomic.Uint32
	w.affinities.New = func() any { return &affinity{class: made.Add(1) % w.classes} }
	w.shards = make([]shard, shardsPerWheel)
	for i := range w.shards {
		s := &w.shards[i]
		s.wheel = w
		s.ring = ring{tickLength: int64(cfg.Tick), mask: int64(cfg.Slots) - 1, visitedTo: -1}
		s.next.Store(never)
	}
	w.wakeAt.Store(never)
	w.passing.Store(never)
	w.unfinished.Store(1) // Stop's
	return w, nil
}

// Schedule arms t to fire after d. The wheel calls task.Fire(t) at the first tick
// that is not before that instant. A d of zero or less means the next tick that
// has not been processed. With a d beyond the clock's range of 292 years, t never
// fires. Schedule allocates only when the wheel has to grow.
//
// The error is ErrStopped, ErrPending, ErrTooManyPending, ErrOtherWheel,
// ErrBubble, ErrNilTimer or ErrNilTask. After an error t is as it was.
func (w *Wheel) Schedule(t *Timer, d time.Duration, task Task) error {
	return w.schedule(t, d, 0, task)
}

// ScheduleWithin is Schedule for a timer that may be late by up to slack. Of the
// ticks from d to d + slack, ScheduleWithin takes the one whose number has the
// most trailing zero bits. So timers of many different delays share few ticks, and
// the process wakes up seldom. That tick becomes the timer's deadline. Later calls
// of Reset, Next and Touch are exact. A slack of zero or less means no slack.
func (w *Wheel) ScheduleWithin(t *Timer, d, slack time.Duration, task Task) error {
	return w.schedule(t, d, slack, task)
}

// AfterFunc is Schedule of a new Timer that calls f. It allocates only this Timer.
// The wheel never uses the Timer for anything else, so a pointer that is kept too
// long cannot stop another timer. The error is one of Schedule's errors; ErrNilTask
// means that f is nil.
//
// f may run before AfterFunc returns, so it must not use the returned Timer. A
// callback that re-arms its timer needs Schedule with a TaskFunc, which gets the
// timer.
func (w *Wheel) AfterFunc(d time.Duration, f func()) (*Timer, error) {
	if f == nil {
		return nil, ErrNilTask
	}
	t := new(Timer)
	if err := w.schedule(t, d, 0, funcTask(f)); err != nil {
		return nil, err
	}
	return t, nil
}

func (w *Wheel) schedule(t *Timer, d, slack time.Duration, task Task) (err error) {
	if t == nil {
		return ErrNilTimer
	}
	if isNil(task) {
		return ErrNilTask
	}
	var old *shard
	now := w.now()
	if w.isOtherBubble(now) {
		return ErrBubble
	}
	s := t.shard.Load()
	if s == nil || s.wheel != w {
		if s, old, err = w.bindTimer(t); err != nil {
			return err
		}
	} else if s.mu.Lock(); t.shard.Load() != s {
		s.mu.Unlock()
		return w.schedule(t, d, slack, task)
	}
	deadline := deadlineAfter(now, d)
	if slack > 0 {
		deadline = s.ring.roundWithin(deadline, deadlineAfter(deadline, slack))
	}
	tick, err := s.arm(t, deadline, task)
	switch {
	case old != nil:
		if err == nil {
			t.migrated = true
			t.shard.Store(s)
		}
		old.mu.Unlock()
	case err != nil && t.state == Idle:
		t.shard.Store(nil) // a timer that was refused is bound to nothing
	}
	s.mu.Unlock()
	w.wakeBy(tick)
	return err
}

// Stop closes the wheel. It ends every timer that was not claimed yet and
// returns these timers, in state Stopped. From then on Schedule, Reset and Next
// return ErrStopped. Stop does not wait for callbacks (see Done), so a callback
// may call it. A second call does nothing and returns nil. Timers of AfterFunc and
// Every are among those that Stop returns, with a Task of this package.
func (w *Wheel) Stop() []*Timer {
	w.mu.Lock()
	if w.stopped.Load() {
		w.mu.Unlock()
		return nil
	}
	w.stopped.Store(true)
	w.mu.Unlock()

	var ts []*Timer
	var cs []cancellation
	for i := range w.shards {
		ts, cs = w.shards[i].close(ts, cs)
	}
	w.releasePending(len(ts))
	w.signalDriver()
	defer w.finishOne() // after the last Cancelled, which is a callback, too
	w.callAllCancelled(cs)
	return ts
}

// Shutdown calls Stop. Then it waits until all running callbacks have returned,
// including those in the Executor, or until ctx ends. In both cases, it returns
// all timers that Stop has returned. The error says that ctx ended first, and
// satisfies errors.Is(err, ctx.Err()). Callbacks that still run then continue. Do
// not call Shutdown in a callback of this wheel, because it would wait for that
// callback. After another Stop or Shutdown, it returns no timers but also waits.
func (w *Wheel) Shutdown(ctx context.Context) ([]*Timer, error) {
	ts := w.Stop()
	select {
	case <-w.Done():
		return ts, nil
	default:
	}
	select {
	case <-w.Done():
		return ts, nil
	case <-ctx.Done():
		return ts, fmt.Errorf("wheel: Shutdown: callbacks still run: %w", ctx.Err())
	}
}

// Done returns a channel. It is closed when Stop was called, the driver
// goroutine has ended and the last callback has returned, including those that
// the Executor runs. The channel of a Wheel that New did not make is closed.
func (w *Wheel) Done() <-chan struct{} {
	if w.done == nil {
		done := make(chan struct{})
		close(done)
		return done
	}
	return w.done
}

// isNil reports whether a task is nil, or a nil pointer or function in an
// interface, which would panic later, on the driver.
func isNil(task Task) bool {
	if (*[2]unsafe.Pointer)(unsafe.Pointer(&task))[1] != nil { // the value or pointer in the interface, without reflection
		return false
	}
	if task == nil {
		return true
	}
	kind := reflect.TypeOf(task).Kind()
	return kind != reflect.Struct && kind != reflect.Array // these have a nil pointer as their only field or element
}

// now is the time since the wheel's start, by the monotonic clock.
func (w *Wheel) now() int64 { return int64(time.Since(w.start)) }

// isOtherBubble reports whether the caller, at time now, is inside a testing/synctest
// bubble and New was not, or the other way round. The clock of a bubble starts in
// the year 2000. So such a caller sees a time since the wheel's start that is
// negative or longer than a process lives.
func (w *Wheel) isOtherBubble(now int64) bool {
	return uint64(now) >= uint64(20*365*24*time.Hour) && isBubbleTime(time.Now()) != w.inBubble
}

// isBubbleTime reports whether now, which time.Now has returned, is the time of a
// bubble. Only in a bubble it has no monotonic part.
func isBubbleTime(now time.Time) bool {
	return now == now.Round(0) //nolint:staticcheck // Equal would not compare the monotonic parts
}

// wakeBy makes sure that the driver is awake at tick, which is the new value of a
// shard's next.
func (w *Wheel) wakeBy(tick int64) {
	if tick < w.wakeAt.Load() {
		w.wakeDriver()
	}
}

func (w *Wheel) wakeDriver() {
	if w.started.Load() {
		w.signalDriver()
	} else {
		w.startDriver() // the driver looks at every shard before it sleeps
	}
}

// signalDriver wakes the driver, or makes its next sleep end at once.
func (w *Wheel) signalDriver() {
	select {
	case w.wake <- struct{}{}:
	default: // the driver has a signal already
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
	w.unfinished.Add(1)
	w.driver = &driver{}
	go w.drive()
}

// reservePending counts one more pending timer, unless there are too many.
func (w *Wheel) reservePending() bool {
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

// releasePending counts n pending timers less.
func (w *Wheel) releasePending(n int) {
	if w.cfg.MaxPending != 0 {
		w.pending.Add(-int64(n))
	}
}

func (w *Wheel) finishOne() {
	if w.unfinished.Add(-1) == 0 {
		close(w.done)
	}
}
