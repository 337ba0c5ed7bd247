package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestPlanLeavesTwoThirdsOfTheCapacity(t *testing.T) {
	const s = time.Second
	for name, c := range map[string]struct {
		given    options
		capacity float64
		measured bool
		locks    []int
		lease    time.Duration
		duration time.Duration
		notes    int
	}{
		"a usual server":            {options{}, 90_000, false, []int{1000, 10_000}, 3 * s, 3 * s, 0},
		"a slow one":                {options{}, 6000, true, []int{200, 2000}, 3 * s, 3 * s, 0},
		"a very slow one":           {options{}, 5, true, []int{1, 2}, 3 * s, 3 * s, 1},
		"a fast one, measured":      {options{}, 50_000, true, []int{1000, 10_000}, 3 * s, 3 * s, 0},
		"many locks":                {options{locks: []int{1_000_000}}, 90_000, false, []int{1_000_000}, 100 * s, 100 * s, 0},
		"locks on a slow one":       {options{locks: []int{10, 10_000}}, 6000, true, []int{10, 10_000}, 15 * s, 15 * s, 0},
		"a lease on a slow one":     {options{lease: 30 * s}, 6000, true, []int{1000, 10_000}, 30 * s, 30 * s, 0},
		"a short lease":             {options{lease: 300 * time.Millisecond}, 6000, true, []int{20, 200}, 300 * time.Millisecond, 300 * time.Millisecond, 0},
		"the most":                  {options{max: true}, 90_000, false, []int{10_000}, 3 * s, 6 * s, 0},
		"the most of a slow one":    {options{max: true, lease: 30 * s}, 500, true, []int{1000}, 30 * s, 60 * s, 0},
		"a short duration":          {options{duration: 2 * s}, 90_000, false, []int{1000, 10_000}, 2 * s, 2 * s, 0},
		"a long duration":           {options{duration: 60 * s}, 90_000, false, []int{1000, 10_000}, 3 * s, 60 * s, 0},
		"more than is asked for":    {options{locks: []int{100_000}, lease: 3 * s}, 90_000, false, []int{100_000}, 3 * s, 3 * s, 1},
		"too much for the duration": {options{locks: []int{10_000}, duration: 5 * s}, 6000, true, []int{10_000}, 5 * s, 5 * s, 1},
	} {
		p, notes, err := choose(c.given, c.capacity, c.measured)
		require.NoError(t, err, name)
		require.Equal(t, c.locks, p.Locks, name)
		require.Equal(t, c.lease, p.Lease, name)
		require.InDelta(t, float64(c.duration), float64(p.Duration), float64(time.Millisecond), name)
		require.Len(t, notes, c.notes, name)
		require.GreaterOrEqual(t, p.Duration, p.Lease, "a lock that nobody renews would look held: %s", name)
		if c.notes == 0 {
			require.LessOrEqual(t, float64(maxOf(p.Locks))*3/p.Lease.Seconds(), c.capacity/share*1.01, name)
		}
	}
}

func TestRoundDown(t *testing.T) {
	for x, want := range map[float64]int{0: 1, 0.9: 1, 1: 1, 2.5: 2, 4.9: 2, 5: 5, 9: 5, 10: 10, 1999: 1000, 2000: 2000, 1e9: maxLocks} {
		require.Equal(t, want, roundDown(x), "%v", x)
	}
}
