package wait_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

func TestOneSourceGivesOneSeriesOfPauses(t *testing.T) {
	series := func(seed uint64) (pauses []time.Duration) {
		r := wait.Random(rand.NewPCG(seed, 0))
		for n := range 20 {
			pauses = append(pauses, wait.Backoff(r, n), wait.Upto(r, time.Second))
		}
		return pauses
	}
	require.Equal(t, series(1), series(1))
	require.NotEqual(t, series(1), series(2))
}

func TestWithoutASourcePausesDiffer(t *testing.T) {
	seen := map[time.Duration]bool{}
	r := wait.Random(nil)
	for range 100 {
		seen[wait.Upto(r, time.Hour)] = true
	}
	require.Greater(t, len(seen), 90)
}

func TestBackoffRisesToASecond(t *testing.T) {
	r := wait.Random(nil)
	for n, longest := range []time.Duration{10, 20, 40, 80, 160, 320, 640, 1000, 1000, 1000} {
		longest *= time.Millisecond
		for range 100 {
			d := wait.Backoff(r, n)
			require.LessOrEqual(t, d, longest)
			require.GreaterOrEqual(t, d, longest-longest/4)
		}
	}
}
