package renewal

import "time"

// SetClocks replaces the clocks of w. skew returns how far the wall clock is ahead, and
// suspended how long the machine was suspended; suspended is nil on a system that cannot
// tell. SetClocks must be called before the first lane.
func (w *Watchdog) SetClocks(skew func(time.Time) time.Duration, suspended func() time.Duration) {
	w.skew, w.suspendedTime, w.suspendedBefore = skew, suspended, 0
}

// CompareClocks does now what the clock's timer does when it fires.
func (w *Watchdog) CompareClocks() {
	w.mu.Lock()
	w.stopClockLocked()
	w.wg.Add(1)
	w.mu.Unlock()
	w.compareClocks()
}

// IsWatching reports whether the clock's timer is armed, or about to be armed.
func (w *Watchdog) IsWatching() bool { return w.isWatching.Load() }

// Lock takes the watchdog's lock.
func (w *Watchdog) Lock() (unlock func()) {
	w.mu.Lock()
	return w.mu.Unlock
}

// Lock takes the lane's lock.
func (ln *Lane) Lock() (unlock func()) {
	ln.mu.Lock()
	return ln.mu.Unlock
}

// TakenOut returns how many batches are being written out of which leases were taken.
func (w *Watchdog) TakenOut() int {
	w.takenOutMu.Lock()
	defer w.takenOutMu.Unlock()
	return len(w.takenOut)
}

// InSlots returns how many leases of the lane have a slot.
func (ln *Lane) InSlots() int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.slots.leaseCount
}
