package renewal

import (
	"math/bits"
	"time"
)

// buckets is how many buckets a histogram has.
const buckets = 33 * 16

// histogram counts durations in microseconds in 16 linear steps per power of
// two (an error of at most 1/16), up to about 19 hours. It is guarded by the
// lane's lock.
type histogram struct {
	counts [buckets]uint64
	n      uint64
	sum    time.Duration
	max    time.Duration
}

// record adds n values of d; a negative d counts as 0.
func (h *histogram) record(d time.Duration, n uint64) {
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

// upperBound is the largest duration that bucket i counts; the last bucket
// counts all above too.
func upperBound(i int) time.Duration {
	if i < 16 {
		return time.Duration(i) * time.Microsecond
	}
	shift := i/16 - 1
	return time.Duration(uint64(i%16+17)<<shift-1) * time.Microsecond
}

// quantile returns a duration that the share q of the values does not exceed.
func (h *histogram) quantile(q float64) time.Duration {
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

func (h *histogram) add(o *histogram) {
	for i, c := range o.counts {
		h.counts[i] += c
	}
	h.n += o.n
	h.sum += o.sum
	h.max = max(h.max, o.max)
}

// minus returns what h has and o, an earlier state of it, has not.
func (h *histogram) minus(o *histogram) *histogram {
	d := &histogram{n: h.n - o.n, sum: h.sum - o.sum}
	for i := range h.counts {
		if d.counts[i] = h.counts[i] - o.counts[i]; d.counts[i] > 0 {
			d.max = min(upperBound(i), h.max)
		}
	}
	return d
}

// summary returns a Distribution that keeps h, which must not change any more.
func (h *histogram) summary() Distribution {
	return Distribution{Count: h.n, Sum: h.sum, P50: h.quantile(0.50), P99: h.quantile(0.99), Max: h.max, hist: h}
}

// sizes is summary for a histogram of sizes with the given sum.
func (h *histogram) sizes(sum uint64) Sizes {
	size := func(d time.Duration) int { return int(d / time.Microsecond) }
	return Sizes{Sum: sum, P50: size(h.quantile(0.50)), P99: size(h.quantile(0.99)), Max: size(h.max), hist: h}
}

// buckets returns those that are not empty.
func (h *histogram) buckets() []Bucket {
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
