package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestWhenACommandIsToldToEndAndKilled(t *testing.T) {
	// A lease of 20 s: SIGKILL a second before trust ends, SIGTERM 4 s before that.
	const lease, grace = 20 * time.Second, 4 * time.Second
	const never = time.Duration(-1)
	type look struct {
		at, deadline time.Duration // since the start
		lost         bool
		do           action
		again        time.Duration // since the start; never: it does not matter
	}
	for name, looks := range map[string][]look{
		"renewed in time": {
			{0, 20 * time.Second, false, nothing, 15 * time.Second},
			{7 * time.Second, 26 * time.Second, false, nothing, 21 * time.Second},
			{14 * time.Second, 33 * time.Second, false, nothing, 28 * time.Second},
		},
		"not renewed": {
			{0, 20 * time.Second, false, nothing, 15 * time.Second},
			{15*time.Second - 1, 20 * time.Second, false, nothing, 15 * time.Second},
			{15 * time.Second, 20 * time.Second, false, terminate, 19 * time.Second},
			{16 * time.Second, 20 * time.Second, false, nothing, 19 * time.Second},
			{19*time.Second - 1, 20 * time.Second, false, nothing, 19 * time.Second},
			{19 * time.Second, 20 * time.Second, false, kill, never},
			{20 * time.Second, 20 * time.Second, true, nothing, never},
		},
		"renewed again after it was told": {
			{15 * time.Second, 20 * time.Second, false, terminate, 19 * time.Second},
			{17 * time.Second, 36 * time.Second, false, nothing, 19 * time.Second},
			{19 * time.Second, 36 * time.Second, false, kill, never},
		},
		"looked at late": {
			{16 * time.Second, 20 * time.Second, false, terminate, 19 * time.Second},
			{25 * time.Second, 20 * time.Second, false, kill, never},
		},
		"the machine slept": {
			{0, 20 * time.Second, false, nothing, 15 * time.Second},
			{time.Hour, 20 * time.Second, true, kill, never},
		},
		"trust in reserve": {
			{19 * time.Second, 20 * time.Second, false, kill, never},
		},
		"lost, with trust left": {
			{2 * time.Second, 20 * time.Second, true, terminate, 6 * time.Second},
			{5 * time.Second, 20 * time.Second, true, nothing, 6 * time.Second},
			{6 * time.Second, 20 * time.Second, true, kill, never},
		},
		"lost, with little trust left": {
			{17 * time.Second, 20 * time.Second, true, terminate, 19 * time.Second},
			{19 * time.Second, 20 * time.Second, true, kill, never},
		},
		"lost after it was told": {
			{15 * time.Second, 20 * time.Second, false, terminate, 19 * time.Second},
			{16 * time.Second, 20 * time.Second, true, nothing, 19 * time.Second},
		},
		"the wall clock shortens trust": {
			{15 * time.Second, 20 * time.Second, false, terminate, 19 * time.Second},
			{16 * time.Second, 18 * time.Second, false, nothing, 17 * time.Second},
			{17 * time.Second, 18 * time.Second, false, kill, never},
		},
	} {
		t.Run(name, func(t *testing.T) {
			start := time.Now()
			e := newEnder(lease, grace)
			for i, l := range looks {
				do, again := e.step(start.Add(l.at), start.Add(l.deadline), l.lost)
				require.Equal(t, l.do, do, "look %d", i)
				if l.again != never {
					require.Equal(t, l.again, again.Sub(start), "look %d", i)
				}
			}
		})
	}
}

func TestWithoutGraceACommandIsKilledAtOnce(t *testing.T) {
	now := time.Now()
	do, _ := newEnder(time.Second, 0).step(now, now.Add(time.Second), true)
	require.Equal(t, kill, do)
}

// TestRenewalHasTimeBeforeACommandIsTold: a lease is renewed every third of it. Even with
// the longest grace, a renewal that is in time comes before the command is told to end.
func TestRenewalHasTimeBeforeACommandIsTold(t *testing.T) {
	for _, lease := range []time.Duration{minLease, 3 * time.Second, 30 * time.Second, time.Hour} {
		now := time.Now()
		_, again := newEnder(lease, lease/2).step(now, now.Add(lease-lease/50), false)
		require.Greater(t, again.Sub(now), lease/3+lease/20)
	}
}
