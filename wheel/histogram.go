package wheel

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// buckets is how many buckets a histogram has.
const buckets = 33 * 16

// Distribution summarises measured durations. Quantiles are accurate to one part in 16.
type Distribution struct {
	Count         uint64
	Sum           time.Duration
	P50, P99, Max time.Duration

	hist *Histogram // from which the fields above were made, for Since
}

// Bucket counts the measured durations that are at most UpTo and above the UpTo
// of the previous bucket. The bounds are a sixteenth apart and the same for
// every Distribution.
type Bucket struct {
	UpTo  time.Duration
	Count uint64
}

// Buckets returns the buckets that are not empty, in ascending order. For a
// Distribution that Since returned, they count only the time between the two
// snapshots.
func (d Distribution) Buckets() []Bucket {
	if d.hist == nil {
		return nil
	}
	return d.hist.buckets()
}

// Since returns the Distribution of the durations that were measured between two
// snapshots, earlier and d, of the same Recorder or Histogram. Its Max is accurate to
// one part in 16. If earlier is the zero Distribution, Since returns d itself.
func (d Distribution) Since(earlier Distribution) Distribution {
	if d.hist == nil || earlier.hist == nil {
		return d
	}
	return d.hist.minus(earlier.hist).summary()
}

// Histogram counts durations. It takes 4 KiB. The zero Histogram is empty and ready for
// use. It is not safe for concurrent use; a [Recorder] is.
type Histogram struct {
	// In microseconds, in 16 linear steps per power of two (an error of at most 1/16),
	// up to about 19 hours.
	counts [buckets]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// Record adds n durations of d. A negative d counts as 0.
func (h *Histogram) Record(d time.Duration, n uint64) {
	d = max(d, 0)
	h.max = max(h.max, d)
	h.counts[bucketOf(uint64(d/time.Microsecond))] += n
	h.n += n
	h.sum += d * time.Duration(n)
}

func bucketOf(us uint64) int {
	if us < 16 {
		return int(us)
	}
	shift := bits.Len64(us) - 5
	return min((shift+1)*16+int(us>>shift)-16, buckets-1)
}

// upperBound returns the largest duration that bucket i counts. The last bucket
// also counts all larger durations.
func upperBound(i int) time.Duration {
	if i < 16 {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/16 - 1
	return time.Duration(uint64(i%16+17)<<shift-1) * time.Microsecond
}

// quantile returns a duration that a share q of the values does not exceed.
func (h *Histogram) quantile(q float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := uint64(q * float64(h.n))
	seen := uint64(0)
	for i, c := range h.counts {
		seen += c
		if seen > rank || seen == h.n {
			if i == len(h.counts)-1 {
				return h.max
			}
			return min(upperBound(i), h.max)
		}
	}
	return h.max
}

// Add adds what o has counted. o stays as it is.
func (h *Histogram) Add(o *Histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// minus returns what h has counted since o, which is an earlier state of h.
func (h *Histogram) minus(o *Histogram) *Histogram {
	d := &Histogram{n: h.n - o.n, sum: h.sum - o.sum}
	for i := range h.counts {
		if d.counts[i] = h.counts[i] - o.counts[i]; d.counts[i] > 0 {
			d.max = min(upperBound(i), h.max)
		}
	}
	return d
}

// summary returns a Distribution that keeps h, which must not change any more.
func (h *Histogram) summary() Distribution {
	return Distribution{Count: h.n, Sum: h.sum, P50: h.quantile(0.50), P99: h.quantile(0.99), Max: h.max, hist: h}
}

// Distribution returns a summary of what was recorded until now.
func (h *Histogram) Distribution() Distribution {
	copied := *h
	return copied.summary()
}

// buckets returns the buckets that are not empty.
func (h *Histogram) buckets() []Bucket {
	var all []Bucket
	for i, n := range h.counts {
		switch {
		case n == 0:
		case i == len(h.counts)-1:
			all = append(all, Bucket{h.max, n})
		default:
			all = append(all, Bucket{upperBound(i), n})
		}
	}
	return all
}

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
