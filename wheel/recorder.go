package wheel

import (
	"sync/atomic"
	"time"
)

// Recorder collects durations and summarises them as a Distribution. All methods are
// safe for concurrent use. Record takes no lock and allocates nothing. The zero Recorder
// is empty and ready for use. A Recorder takes 4 KiB and must not be copied.
type Recorder struct {
	_ noCopy

	// atomic
	counts [buckets]atomic.Uint64
	sum    atomic.Int64
	max    atomic.Int64
}

// Record adds one duration. A negative duration counts as 0.
func (r *Recorder) Record(d time.Duration) {
	d = max(d, 0)
	r.record(bucketOf(uint64(d/time.Microsecond)), 1, d, d)
}

// record adds n durations of one bucket.
func (r *Recorder) record(bucket int, n uint64, sum, largest time.Duration) {
	for {
		most := r.max.Load()
		if int64(largest) <= most || r.max.CompareAndSwap(most, int64(largest)) {
			break
		}
	}
	r.sum.Add(int64(sum))
	r.counts[bucket].Add(n)
}

// Distribution returns a summary of what was recorded until now. If a Record runs at
// the same time, its duration may be in the sum and not yet in the count.
func (r *Recorder) Distribution() Distribution {
	h := &Histogram{}
	for i := range r.counts {
		h.counts[i] = r.counts[i].Load()
		h.n += h.counts[i]
	}
	h.sum, h.max = time.Duration(r.sum.Load()), time.Duration(r.max.Load())
	return h.summary()
}
