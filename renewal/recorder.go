package renewal

import (
	"sync/atomic"
	"time"
)

// Recorder makes a Distribution of durations that many goroutines record. Record takes
// no lock and allocates nothing. All methods are safe for concurrent use. The zero
// Recorder is empty and ready; it takes 4 KiB and must not be copied.
type Recorder struct {
	_ noCopy

	// atomic
	counts [buckets]atomic.Uint64
	sum    atomic.Int64
	max    atomic.Int64
}

// Record adds one duration; a negative one counts as 0.
func (r *Recorder) Record(d time.Duration) {
	d = max(d, 0)
	for {
		most := r.max.Load()
		if int64(d) <= most || r.max.CompareAndSwap(most, int64(d)) {
			break
		}
	}
	r.sum.Add(int64(d))
	r.counts[bucketOf(uint64(d/time.Microsecond))].Add(1)
}

// Distribution returns what was recorded until now. Of a Record that runs meanwhile
// it may have the sum and not yet the count.
func (r *Recorder) Distribution() Distribution {
	h := &histogram{}
	for i := range r.counts {
		h.counts[i] = r.counts[i].Load()
		h.n += h.counts[i]
	}
	h.sum, h.max = time.Duration(r.sum.Load()), time.Duration(r.max.Load())
	return h.summary()
}
