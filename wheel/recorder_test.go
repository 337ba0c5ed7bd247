package wheel_test

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/wheel"
)

func TestARecorderHasWhatEveryGoroutineRecorded(t *testing.T) {
	var r wheel.Recorder
	require.Zero(t, r.Distribution().Count)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 1000 {
				r.Record(time.Duration(g*1000+i) * time.Microsecond)
			}
		})
	}
	wg.Wait()
	d := r.Distribution()
	require.EqualValues(t, 8000, d.Count)
	require.Equal(t, 8000*7999/2*time.Microsecond, d.Sum)
	require.Equal(t, 7999*time.Microsecond, d.Max)
	require.InEpsilon(t, 4*time.Millisecond, d.P50, 1./16)
	r.Record(-time.Second)
	r.Record(time.Minute)
	since := r.Distribution().Since(d)
	require.Equal(t, time.Minute, since.Sum)
	require.Equal(t, []uint64{1, 1}, []uint64{since.Buckets()[0].Count, since.Buckets()[1].Count})
}

func TestARecorderAllocatesNothing(t *testing.T) {
	var r wheel.Recorder
	require.Zero(t, testing.AllocsPerRun(100, func() { r.Record(time.Millisecond) }))
}
