package renewal

import "time"

// SetClocks makes the wall clock be ahead by skew, and the machine have been suspended
// for suspended, which is nil on a system that cannot tell. It must be called before the
// first lane.
func (w *Watchdog) SetClocks(skew func(time.Time) time.Duration, suspended func() time.Duration) {
	w.skew, w.suspendedTime, w.suspendedBefore = skew, suspended, 0
}

// InSlots is how many leases of the lane have a slot.
func (ln *Lane) InSlots() int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.slots.leases
}
