package renewal_test

import (
	"context"
	"os"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/renewal"
)

// requireEven fails if a tenth of the next interval brings more, or fewer,
// renewals than its share by more than a quarter.
func requireEven(t *testing.T, s *store, leases int, interval time.Duration) {
	t.Helper()
	last := s.countRenewed()
	for range 10 {
		time.Sleep(interval / 10)
		n := s.countRenewed()
		require.InDelta(t, leases/10, n-last, float64(leases)/40)
		last = n
	}
}

func TestLoadIsEven(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	t.Parallel()
	const ttl = 30 * time.Second
	leases := 20_000
	switch {
	case testing.Short():
		leases = 5_000
	case os.Getenv("WHEELLOCK_STATES") != "":
		leases = 100_000
	}
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				if c.cfg.MaxBatch == 0 {
					c.cfg.MaxBatch = leases / 100
				}
				w, ln := newLane(t, &boundedRenewer{Renewer: s, after: time.Second}, c.cfg)
				s.holdMany(t, ln, leases, ttl)
				time.Sleep(2 * ttl / 3)
				requireEven(t, s, leases, ttl/3)

				s.blackHole(ttl / 2)
				time.Sleep(ttl / 2)
				for w.Stats().Queued+w.Stats().InFlight > 0 {
					time.Sleep(100 * time.Millisecond)
				}
				time.Sleep(2 * ttl / 3)
				requireEven(t, s, leases, ttl/3)
				require.Empty(t, w.Stats().Lost)
			})
		})
	}
}

// TestLeasesKeepTheirPlaces: though each renewal is late, leases that were
// spread stay spread, and the interval stays a third of the TTL.
func TestLeasesKeepTheirPlaces(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	t.Parallel()
	const leases = 10_000
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.fault = func() fault { return fault{after: 50 * time.Millisecond} }
		w, ln := newLane(t, s, renewal.Config{MaxBatch: 100})
		s.holdMany(t, ln, leases, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		time.Sleep(30 * time.Minute)
		require.InDelta(t, 180*leases, float64(w.Stats().Since(before).Renewed), leases)
		requireEven(t, s, leases, 10*time.Second)
	})
}

// TestBatchesAreAsFewAsFullOnesCanBe: there are as few batches as the leases fill, each is sent when
// it is due, and every lease is in one batch in every interval.
func TestBatchesAreAsFewAsFullOnesCanBe(t *testing.T) {
	for leases, batches := range map[int]int{1: 1, 1000: 1, 1025: 2, 10_000: 10, 100_000: 98} {
		if testing.Short() && leases > 10_000 {
			continue
		}
		t.Run(strconv.Itoa(leases), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				w, ln := newLane(t, s, renewal.Config{})
				s.holdMany(t, ln, leases, 30*time.Second)
				time.Sleep(20 * time.Second)
				before := w.Stats()
				time.Sleep(10 * time.Minute)
				st := w.Stats().Since(before)
				require.EqualValues(t, 60*leases, st.Renewed)
				require.Zero(t, st.Lag.Max, "never after the due point")
				require.InDelta(t, 60*batches, st.Batches, 60*0.05*float64(batches), "slots that share a tick share batches")
			})
		})
	}
}

// rhythm records when a store renews each of its keys.
type rhythm struct {
	mu       sync.Mutex // guards what follows
	last     map[int]time.Time
	shortest time.Duration // time between two renewals of a key
	longest  time.Duration
}

// forget forgets what was recorded.
func (r *rhythm) forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last, r.shortest, r.longest = map[int]time.Time{}, time.Hour, 0
}

func (r *rhythm) note(key int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	if last, renewed := r.last[key]; renewed {
		r.shortest, r.longest = min(r.shortest, now.Sub(last)), max(r.longest, now.Sub(last))
	}
	r.last[key] = now
}

// TestNoRenewalButTheFirstIsMoreThanASixthOfTheTTLEarly, and none is late: while
// leases come and go, after an outage, and when a lone lease is left.
func TestNoRenewalButTheFirstIsMoreThanASixthOfTheTTLEarly(t *testing.T) {
	const ttl = 30 * time.Second
	synctest.Test(t, func(t *testing.T) {
		r := &rhythm{}
		r.forget()
		s := &store{write: r.note}
		w, ln := newLane(t, &boundedRenewer{Renewer: s, after: time.Second}, renewal.Config{})
		requireRhythm := func() {
			t.Helper()
			r.mu.Lock()
			defer r.mu.Unlock()
			require.GreaterOrEqual(t, r.shortest, ttl/6-w.Config().Tick)
			require.LessOrEqual(t, r.longest, ttl/3)
		}
		batches := func(d time.Duration) uint64 {
			before := w.Stats()
			time.Sleep(d)
			return w.Stats().Since(before).Batches
		}
		hs := s.holdMany(t, ln, 10_000, ttl)
		time.Sleep(time.Minute)
		requireRhythm()
		for i, h := range hs {
			if i%2 == 0 {
				h.lease.Release()
			}
		}
		time.Sleep(time.Minute)
		requireRhythm()
		require.EqualValues(t, 5, batches(ttl/3), "half of the batches, too")

		s.blackHole(ttl / 2)
		time.Sleep(ttl/2 + 2*time.Second)
		r.forget()
		time.Sleep(time.Minute)
		requireRhythm()
		require.EqualValues(t, 5, batches(ttl/3))

		for _, h := range hs[:len(hs)-1] {
			h.lease.Release()
		}
		time.Sleep(3 * time.Minute)
		requireRhythm()
		require.EqualValues(t, 6, batches(time.Minute), "of a lone lease")
		require.Empty(t, w.Stats().Lost)
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
		s.holdMany(t, ln, 20*1024, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1024, w.Stats().Since(before).Sizes.Max)
		s.setFault(func() fault { return fault{after: 1200 * time.Millisecond} })
		before = w.Stats()
		time.Sleep(time.Minute)
		st := w.Stats().Since(before)
		require.Greater(t, st.Sizes.P50, 1024, "two slow calls at a time take what has come meanwhile")
		require.LessOrEqual(t, st.Sizes.Max, renewal.DefaultMaxBatch)
		require.InDelta(t, 6*20*1024, float64(st.Renewed), 2*20*1024)
		require.InDelta(t, float64(st.Renewed), float64(st.Sizes.Sum), 2*renewal.DefaultMaxBatch, "and what was in flight")
		require.Equal(t, 2, most)
	})
}

func TestHoursOfTenThousandLocks(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	t.Parallel()
	long := 2 * time.Hour
	switch {
	case testing.Short():
		long = 10 * time.Minute
	case os.Getenv("WHEELLOCK_STATES") != "":
		long = 6 * time.Hour
	}
	begin := time.Now()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		hs := s.holdMany(t, ln, 10_000, 30*time.Second)
		time.Sleep(long)
		st := w.Stats()
		require.InDelta(t, 10_000*long.Seconds()/10, float64(st.Renewed), 10_000)
		require.Empty(t, st.Lost)
		require.LessOrEqual(t, st.Lag.Max, w.Config().Tick)
		for _, h := range hs {
			require.True(t, h.lease.Valid())
			require.Greater(t, s.timeLeft(h.key), 20*time.Second)
		}
	})
	t.Logf("%v in %v", long, time.Since(begin).Round(time.Millisecond))
}

// TestWhatADispatcherLeavesIsSoonTaken: one dispatcher is woken for a few
// batches. If it hangs in its first batch, the others send the rest.
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
		for range 60 { // of one group
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
		const leases = 64 * 1024
		s.holdMany(t, ln, leases, 30*time.Second)
		time.Sleep(20 * time.Second)
		before := w.Stats()
		requireEven(t, s, leases, 10*time.Second)
		st := w.Stats().Since(before)
		require.EqualValues(t, leases, st.Renewed)
		require.Equal(t, 1024, st.Sizes.P50)
	})
}
