package renewal

import "time"

// The wheel and Go's timers run by the monotonic clock, which stands still
// while a Linux machine is suspended. The store's clock does not. So a watchdog
// that has leases compares the two clocks of its own machine now and then. If they
// differ by more than a tick, the machine was suspended or the wall clock was set,
// and the watchdog corrects the leases.
const (
	maxClockPeriod = time.Second
	minClockPeriod = 10 * time.Millisecond
)

func (w *Watchdog) moment(t time.Time) moment {
	m := moment{at: instant(t.Sub(w.base)), wall: t.UnixNano()}
	if w.skew != nil {
		m.wall += int64(w.skew())
	}
	return m
}

// aheadAt returns how far the wall clock was ahead of the monotonic clock at m. At
// the watchdog's start it was ahead by 0.
func (w *Watchdog) aheadAt(m moment) time.Duration {
	return time.Duration(m.wall - w.base.UnixNano() - int64(m.at))
}

// wallGrace is how far the wall clock may be set forward without ending trust. It is
// half of the least margin, which is that of the shortest lease. After a sleep that is
// as short as this, trust still ends before the lease ends in the store.
func (cfg Config) wallGrace() time.Duration { return cfg.margin(MinTTL) / 2 }

// watchClock makes sure that the clocks are compared from now on.
func (w *Watchdog) watchClock() {
	if w.watching.Load() || w.watching.Swap(true) {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.armClockLocked()
}

func (w *Watchdog) armClockLocked() {
	w.wg.Add(1)
	d := min(max(w.cfg.TTL/30, minClockPeriod), maxClockPeriod)
	if w.clock == nil {
		w.clock = time.AfterFunc(d, w.compareClocks)
	} else {
		w.clock.Reset(d)
	}
}

// stopClockLocked is for Close.
func (w *Watchdog) stopClockLocked() {
	if w.clock != nil && w.clock.Stop() {
		w.wg.Done()
	}
}

// compareClocks is called now and then while there are leases.
func (w *Watchdog) compareClocks() {
	defer w.wg.Done()
	lanes := w.snapshotLanes()
	w.watching.Store(false) // a Hold from here on arms the timer, or is counted below
	leases := 0
	for _, ln := range lanes {
		ln.mu.Lock()
		leases += ln.stats.leases
		ln.mu.Unlock()
	}
	w.mu.Lock()
	if w.closed || leases == 0 || w.watching.Swap(true) {
		w.mu.Unlock()
		return
	}
	w.armClockLocked()
	w.mu.Unlock()
	if moved := w.clockMoved(); moved != 0 {
		w.ahead.Add(int64(moved))
		for _, ln := range lanes {
			tell(ln.clockMoved())
		}
	}
}

// clockMoved returns how far the wall clock has moved against the monotonic clock
// since the leases were last corrected; 0 if that is no more than a tick.
func (w *Watchdog) clockMoved() time.Duration {
	// The clocks are read one after the other, and the process can be stopped
	// in between. So a move counts only if two readings agree on it.
	first, second := w.aheadAt(w.moment(time.Now())), w.aheadAt(w.moment(time.Now()))
	moved := second - time.Duration(w.ahead.Load())
	if (first-second).Abs() > time.Millisecond || moved.Abs() <= w.cfg.Tick {
		return 0
	}
	return moved
}

// clockMoved corrects the lane's leases after the machine has slept or the wall
// clock was set. It takes the time that the monotonic clock has not seen from their
// trust, and makes them due that much earlier. It returns the leases that are lost
// now because their trust has ended.
func (ln *Lane) clockMoved() []*Lease {
	dog := ln.dog
	ln.mu.Lock()
	defer ln.mu.Unlock()
	if ln.closed {
		return nil
	}
	m := dog.moment(time.Now())
	now := m.at
	var gone, moved []*Lease
	for _, c := range ln.groupsLocked() {
		for i := len(c.leases) - 1; i >= 0; i-- { // from the end: removal swaps the last one in
			l := c.leases[i]
			if l == nil {
				continue
			}
			l.compareLocked(dog, m)
			switch {
			case instant(l.trust.Load()) <= now:
				gone = append(gone, l)
				l.loseLocked(ln, TrustEnded)
			case c.kind == queued || c.kind == inBatch:
				c.trust = min(c.trust, instant(l.trust.Load()))
			default:
				moved = append(moved, l)
				l.leaveLocked()
			}
		}
		if c.kind == queued {
			ln.queue.fix(c)
		}
		c.armLocked(now)
	}
	for _, l := range moved {
		l.due = dog.window(l.due)
		ln.fileLocked(l, l.due, now)
	}
	return gone
}

// compareLocked makes the rest of the lease's trust the same by both clocks. It takes
// the lesser rest. So a wall clock that was set back does not hide a later sleep.
func (l *Lease) compareLocked(dog *Watchdog, m moment) {
	grace := int64(dog.grace)
	trust := instant(l.trust.Load())
	left := min(int64(trust-m.at), l.wall.Load()-grace-m.wall)
	l.trust.Store(int64(m.at) + left)
	l.wall.Store(m.wall + left + grace)
	l.due -= trust - (m.at + instant(left))
}
