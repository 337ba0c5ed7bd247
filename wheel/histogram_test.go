package wheel

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestHistogramQuantilesAreExactToASixteenth(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 50 {
		var h Histogram
		values := make([]time.Duration, 1000)
		for i := range values {
			values[i] = time.Duration(rng.Int64N(1 << (10 + rng.IntN(35))))
			h.Record(values[i], 1)
		}
		slices.Sort(values)
		for _, q := range []float64{0, 0.5, 0.99, 1} {
			want := values[min(int(q*1000), 999)]
			got := h.quantile(q)
			require.GreaterOrEqual(t, got+time.Microsecond, want)
			require.LessOrEqual(t, got, want+want/16+2*time.Microsecond)
		}
		require.Equal(t, values[999], h.max)
	}
	var h Histogram
	h.Record(-time.Second, 1)
	h.Record(1<<62, 1)
	require.EqualValues(t, 2, h.n)
	require.Equal(t, time.Duration(1<<62), h.quantile(1))
	require.Equal(t, []Bucket{{0, 1}, {1 << 62, 1}}, h.buckets())
}

func TestHistogramBucketsCoverEveryDurationOnce(t *testing.T) {
	for us, last := uint64(0), -1; us < 1<<17; us++ {
		i := bucketOf(us)
		require.True(t, i == last || i == last+1, "bucket of %d", us)
		last = i
		require.LessOrEqual(t, us, uint64(upperBound(i)/time.Microsecond))
	}
}

func TestHistogramsAddUp(t *testing.T) {
	var all, even, odd Histogram
	for i := range 100 {
		d := time.Duration(i*i) * time.Millisecond
		all.Record(d, 1)
		if i%2 == 0 {
			even.Record(d, 1)
		} else {
			odd.Record(d, 1)
		}
	}
	even.Add(&odd)
	require.Equal(t, all, even)
}

// TestTheDriverNotesEachLateness: it writes several timers at once if they are in one bucket.
func TestTheDriverNotesEachLateness(t *testing.T) {
	var d driver
	var all Histogram
	for _, late := range []time.Duration{0, time.Second, time.Second, time.Minute, time.Second, 0, 0} {
		d.noteLateness(int64(late))
		all.Record(late, 1)
	}
	d.flush()
	require.Equal(t, all.Distribution(), d.lateness.Distribution())
}
