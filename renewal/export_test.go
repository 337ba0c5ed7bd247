package renewal

import "time"

// SkewWall makes the wall clock be ahead by what skew returns; to be called
// before the first lane.
func (w *Watchdog) SkewWall(skew func() time.Duration) { w.skew = skew }

// InSlots is how many leases of the lane have a slot.
func (ln *Lane) InSlots() int {
	ln.mu.Lock()
	defer ln.mu.Unlock()
	return ln.slots.leases
}
