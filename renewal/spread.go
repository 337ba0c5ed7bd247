package renewal

import "time"

// run is where new leases of a lane are due first. Some leases that are taken
// one after the other share a due time: one in 128 of the lane's, a batch full at
// most; and such runs are spread over the interval. So the load on the store is
// even, also after very many were taken at once, and yet wake-ups are few while
// leases are few, and when they are many those of a batch lie side by side in
// memory, here and in the store, which makes a renewal cheaper by a third.
type run struct {
	due   instant
	left  int    // how many more leases it takes
	phase uint64 // of the runs, in 1/2^64 of the span; at random when the lane is made
}

// runs is how many runs a lane has at least, if it has as many leases: the load of a
// tenth of the interval is then even to a few in a hundred.
const runs = 128

// golden is the golden ratio's part of 2^64: steps of it spread any number of
// runs evenly (Weyl's sequence).
const golden = 0x9e3779b97f4a7c15

// firstDueLocked is when a lease that is held, or heard of again, at now is
// first renewed. A lease that is trusted for less than a TTL is renewed earlier.
func (ln *Lane) firstDueLocked(now, trust instant) instant {
	span := max(min(ln.dog.interval, time.Duration(trust-now)/2), 1)
	r := &ln.run
	if r.left <= 0 || r.due <= now || r.due > now.plus(span) {
		r.phase += golden
		r.due = now.plus(1 + time.Duration(float64(span-1)*(float64(r.phase>>11)/(1<<53))))
		r.left = min(ln.stats.leases/runs+1, ln.dog.cfg.MaxBatch)
	}
	r.left--
	return r.due
}
