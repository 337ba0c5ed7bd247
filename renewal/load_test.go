package renewal_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// requireEven fails if a tenth of the next interval brings more, or fewer,
// renewals than its share by more than the given part of it.
func requireEven(t *testing.T, s *store, leases int, interval time.Duration, part float64) {
	t.Helper()
	last := s.count()
	for range 10 {
		time.Sleep(interval / 10)
		n := s.count()
		require.InDelta(t, leases/10, n-last, float64(leases)/10*part)
		last = n
	}
}

func TestLoadIsEven(t *testing.T) {
	t.Parallel()
	const ttl = 30 * time.Second
	leases := 100_000
	if testing.Short() {
		leases = 5_000
	}
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				w, ln := newLane(t, &cut{Renewer: s, after: time.Second}, c.cfg)
				s.holdMany(t, ln, leases, ttl)
				time.Sleep(2 * ttl / 3)
				requireEven(t, s, leases, ttl/3, 0.25)

				s.blackHole(ttl / 2)
				time.Sleep(ttl / 2)
				for w.Stats().Queued+w.Stats().InFlight > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * ttl / 3)
				requireEven(t, s, leases, ttl/3, 0.25)
				require.Empty(t, w.Stats().Lost)
			})
		})
	}
}

// TestLeasesKeepTheirPlaces: though each renewal is late, leases that were
// spread stay spread, and the interval stays a third of the TTL.
func TestLeasesKeepTheirPlaces(t *testing.T) {
	t.Parallel()
	const leases = 10_000
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.fault = func() fault { return fault{after: 300 * time.Millisecond} }
		w, ln := newLane(t, s, renewal.Config{MaxBatch: 1000})
		s.holdMany(t, ln, leases, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		time.Sleep(30 * time.Minute)
		require.InDelta(t, 180*leases, float64(w.Stats().Since(before).Renewed), leases)
		// Slow answers make batches of a second's sixth, which fall on either side
		// of a boundary.
		requireEven(t, s, leases, 10*time.Second, 0.5)
	})
}

// TestSlackLetsLeasesShareAWakeUp: leases due within TTL/300 of each other are
// one batch, sent before each of them is due.
func TestSlackLetsLeasesShareAWakeUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		s.holdMany(t, ln, 10_000, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		time.Sleep(10 * time.Minute)
		st := w.Stats().Since(before)
		require.EqualValues(t, 600_000, st.Renewed)
		require.Zero(t, st.Lag.Max, "never after the due point")
		require.InDelta(t, 6000, float64(st.Batches), 30, "100 a window")
	})
}

// TestBackPressureMakesBatchesLarger, never goroutines more.
func TestBackPressureMakesBatchesLarger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		calls, most := 0, 0
		var mu sync.Mutex
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			calls += d
			most = max(most, calls)
		}
		w, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			count(1)
			defer count(-1)
			s.Renew(ctx, b)
		}), renewal.Config{})
		s.holdMany(t, ln, 5000, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		time.Sleep(10 * time.Second)
		require.Less(t, w.Stats().Since(before).Sizes.Max, 100)
		s.setFault(func() fault { return fault{after: 400 * time.Millisecond} })
		before = w.Stats()
		time.Sleep(time.Minute)
		st := w.Stats().Since(before)
		require.Greater(t, st.Sizes.P50, 75, "one and a half windows: two slow calls at a time take what has come meanwhile")
		require.LessOrEqual(t, st.Sizes.Max, 250)
		require.InDelta(t, 30_000, float64(st.Renewed), 1000)
		require.InDelta(t, float64(st.Renewed), float64(st.Sizes.Sum), 500, "and what was in flight")
		require.Equal(t, 2, most)
	})
}

func TestADayOfTenThousandLocks(t *testing.T) {
	t.Parallel()
	day := 24 * time.Hour
	if testing.Short() {
		day = 10 * time.Minute
	}
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		hs := s.holdMany(t, ln, 10_000, 30*time.Second)
		time.Sleep(day)
		st := w.Stats()
		require.InDelta(t, 10_000*day.Seconds()/10, float64(st.Renewed), 10_000)
		require.Empty(t, st.Lost)
		require.LessOrEqual(t, st.Lag.Max, w.Config().Tick)
		for _, h := range hs {
			require.True(t, h.lease.Valid())
			require.Greater(t, s.left(h.key), 20*time.Second)
		}
	})
	t.Logf("%v in %v", day, time.Since(begin).Round(time.Millisecond))
}

// TestWhatADispatcherLeavesIsSoonTaken: one dispatcher is woken for a few
// batches; if it hangs in its first, the others come for the rest.
func TestWhatADispatcherLeavesIsSoonTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		hang := make(chan struct{})
		first := true // of all calls; guarded by mu
		var mu sync.Mutex
		w, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			mu.Lock()
			hangs := first
			first = false
			mu.Unlock()
			if hangs {
				<-hang
			}
			s.Renew(ctx, b)
		}), renewal.Config{MaxBatch: 10})
		defer close(hang)
		for range 60 { // of one cohort
			s.hold(t, ln, fixedFor(30*time.Second))
		}
		ln.Verify() // all due now
		synctest.Wait()
		require.Equal(t, 50, w.Stats().Queued, "the first call hangs, and no other dispatcher was woken")
		time.Sleep(200 * time.Millisecond) // two slack windows
		require.Equal(t, 10, w.Stats().InFlight)
		require.Zero(t, w.Stats().Queued)
	})
}

// TestLeasesTakenTogetherShareBatchesAndTheInterval: neighbours are due
// together, and no tenth of the interval is empty.
func TestLeasesTakenTogetherShareBatchesAndTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		s.holdMany(t, ln, 50_000, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		requireEven(t, s, 50_000, 10*time.Second, 0.25)
		st := w.Stats().Since(before)
		require.EqualValues(t, 50_000, st.Renewed)
		require.GreaterOrEqual(t, st.Sizes.P50, 350, "a run each")
	})
}
