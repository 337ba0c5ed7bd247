package renewal

import "time"

// SetClocks replaces the clocks of w. skew returns how far the wall clock is ahead, and
// suspended how long the machine was suspended; suspended is nil on a system that cannot
// tell. SetClocks must be called before the first lane.
func (w *Watchdog) SetClocks(skew func(time.Time) time.Duration, suspended func() time.Duration) {
	w.skew, w.suspendedTime, w.suspendedBefore = skew, suspended, 0
}

// InSlots returns how many leases of the lane have a slot.
func (ln *Lane) InSlots() int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.slots.leases
}
