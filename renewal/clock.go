package renewal

import (
	"math"
	"time"
)

// The wheel and Go's timers run by the monotonic clock, which stands still while a
// Linux machine is suspended. The store's clock does not. So all instants of this
// package also count the time in which the machine was suspended. That time is read
// from a clock of the system that cannot be set (clock_linux.go). Reading it is slow.
// So it is read once in a clockPeriod, and whenever the wall clock has moved against
// the monotonic clock, because the wall clock of a machine that wakes up moves.
//
// Other systems have no such clock here. There a wall clock that moves forward counts
// as a machine that was suspended, because the two look the same.
const (
	maxClockPeriod = time.Second
	minClockPeriod = 10 * time.Millisecond
)

// instant is a point in time in nanoseconds from the watchdog's start. It counts
// the time in which the machine was suspended.
type instant int64

const never instant = math.MaxInt64

// plus saturates instead of overflowing.
func (t instant) plus(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

// epoch is a time in which the machine was not suspended and the wall clock was not
// set. It is immutable. All durations count from the watchdog's start.
type epoch struct {
	from     time.Duration // when its beginning was noticed, by the monotonic clock
	ahead    time.Duration // how far the wall clock has moved against the monotonic clock
	slept    time.Duration // how long the machine was suspended
	previous *epoch        // the epoch before; nil in the first epoch and in the oldest that is remembered
}

// maxEpochs is how many epochs are remembered. An answer may confirm a request that was sent
// in an earlier epoch; see instantOf.
const maxEpochs = 4

// copyNewest returns a copy of the newest n epochs of e.
func (e *epoch) copyNewest(n int) *epoch {
	if e == nil || n == 0 {
		return nil
	}
	c := *e
	c.previous = e.previous.copyNewest(n - 1)
	return &c
}

// readClocks returns the time of t by the monotonic clock, and how far the wall clock has
// moved against that clock, since the watchdog's start.
func (w *Watchdog) readClocks(t time.Time) (mono, ahead time.Duration) {
	mono = t.Sub(w.base)
	ahead = time.Duration(t.UnixNano()-w.base.UnixNano()) - mono
	if w.skew != nil {
		ahead += w.skew(t)
	}
	return mono, ahead
}

// epochFits reports whether e may be the epoch of a moment at which the wall clock was that
// far ahead.
func (w *Watchdog) epochFits(e *epoch, ahead time.Duration) bool {
	return (ahead - e.ahead).Abs() <= w.cfg.Tick
}

// now returns the present instant.
func (w *Watchdog) now() instant {
	mono, ahead := w.readClocks(time.Now())
	e := w.epoch.Load()
	if !w.epochFits(e, ahead) {
		e = w.currentEpoch()
	}
	return instant(mono + e.slept)
}

// nowAwake is now if the machine has not been suspended since now was last called. It is faster.
func (w *Watchdog) nowAwake() instant { return instant(time.Since(w.base) + w.epoch.Load().slept) }

// instantOf returns the instant of t, when a request was sent. If it is unclear whether the
// machine was suspended before t or after t, instantOf returns the earlier instant, which is
// the safe side. The caller must have called now after t.
func (w *Watchdog) instantOf(t time.Time) instant {
	mono, ahead := w.readClocks(t)
	for e := w.epoch.Load(); e != nil; e = e.previous {
		if mono >= e.from || w.epochFits(e, ahead) && (e.previous == nil || !w.epochFits(e.previous, ahead)) {
			return instant(mono + e.slept)
		}
	}
	return instant(mono)
}

// timerTime returns the instant t as a time for Go's timers, which run by the monotonic
// clock. If the machine is suspended before t, the result is later than t.
func (w *Watchdog) timerTime(t instant) time.Time {
	w.now() // notices a suspension
	return w.base.Add(time.Duration(t) - w.epoch.Load().slept)
}

// currentEpoch reads all clocks and returns the epoch that lasts now.
func (w *Watchdog) currentEpoch() *epoch {
	w.epochMu.Lock()
	defer w.epochMu.Unlock()
	e := w.epoch.Load()
	_, ahead := w.readClocks(time.Now())
	mono, again := w.readClocks(time.Now())
	// time.Now reads the wall clock first and then the monotonic clock. If the process is
	// stopped between the two, ahead is too small, so the larger of two results counts.
	ahead = max(ahead, again)
	slept := e.slept + max(ahead-e.ahead, 0)
	if w.suspendedTime != nil {
		slept = max(w.suspendedTime()-w.suspendedBefore, e.slept)
	}
	if w.epochFits(e, ahead) && slept-e.slept <= w.cfg.Tick {
		return e
	}
	e = &epoch{mono, ahead, slept, e.copyNewest(maxEpochs - 1)}
	w.epoch.Store(e)
	return e
}

// clockPeriod returns how often the clocks are compared.
func (cfg Config) clockPeriod() time.Duration {
	return min(max(cfg.TTL/30, minClockPeriod), maxClockPeriod)
}

// watchClock makes sure that the clocks are compared from now on.
func (w *Watchdog) watchClock() {
	if w.isWatching.Load() || w.isWatching.Swap(true) {
		return
	}
	w.lastComparison.Store(int64(w.now()))
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.armClockLocked()
}

func (w *Watchdog) armClockLocked() {
	w.wg.Add(1)
	d := w.cfg.clockPeriod()
	if w.clock == nil {
		w.clock = time.AfterFunc(d, w.compareClocks)
	} else {
		w.clock.Reset(d)
	}
}

// stopClockLocked stops the comparisons, for Close.
func (w *Watchdog) stopClockLocked() {
	if w.clock != nil && w.clock.Stop() {
		w.wg.Done()
	}
}

// compareClocks is called once in a clockPeriod while there are leases.
func (w *Watchdog) compareClocks() {
	defer w.wg.Done()
	e := w.currentEpoch()
	now := w.now() // read once, because a standstill between two readings would go unseen
	if p := w.findStandstill(now); p != nil {
		w.lastStandstill.Store(p)
		w.standstillTime.Add(int64(p.to - p.from))
	}
	w.lastComparison.Store(int64(now))
	w.isWatching.Store(false) // a Hold or a Move from here on arms the timer, or is counted below
	lanes := w.snapshotLanes()
	leases := 0
	for _, ln := range lanes {
		ln.mu.Lock()
		leases += ln.stats.leases
		ln.mu.Unlock()
	}
	w.mu.Lock()
	if w.closed || leases == 0 {
		w.mu.Unlock()
		return
	}
	if !w.isWatching.Swap(true) { // else a Hold or a Move has armed the timer meanwhile
		w.armClockLocked()
	}
	w.mu.Unlock()
	if slept := int64(e.slept); w.correctedFor.Swap(slept) != slept {
		for _, ln := range lanes {
			ln.correctTimers()
		}
	}
	// The wall clock was set, or a virtual machine was paused with all of its clocks. Only
	// the store knows which.
	set := int64(e.ahead - e.slept)
	if time.Duration(set-w.clockSetBy.Swap(set)) > w.cfg.Tick {
		for _, ln := range lanes {
			ln.Verify()
		}
	}
}

// correctTimers arms the timers of all groups again, because the wheel stood still
// while the machine was suspended.
func (ln *Lane) correctTimers() {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return
	}
	now := ln.dog.now()
	for _, g := range ln.groupsLocked() {
		g.armLocked(now)
	}
}

// period is the time between two instants.
type period struct{ from, to instant }

// findStandstill returns the period from when compareClocks was due until now, in which the
// process or the machine stood still. It returns nil if compareClocks is late by less than a
// clockPeriod.
func (w *Watchdog) findStandstill(now instant) *period {
	due := instant(w.lastComparison.Load()).plus(w.cfg.clockPeriod())
	if now < due.plus(w.cfg.clockPeriod()) {
		return nil
	}
	return &period{due, now}
}

// stoodStillAt reports whether the process stood still at the instant end.
func (w *Watchdog) stoodStillAt(end instant) bool {
	// compareClocks stores lastStandstill before lastComparison. This code reads them in the
	// opposite order. Otherwise it could miss a standstill that compareClocks is just noting.
	for _, p := range []*period{w.findStandstill(w.now()), w.lastStandstill.Load()} {
		if p != nil && p.from <= end && end <= p.to {
			return true
		}
	}
	return false
}
