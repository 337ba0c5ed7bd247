package renewal_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

func TestStatsSinceCountsOnlyWhatCameBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		s.holdMany(t, ln, 100, 30*time.Second)
		s.setFault(func() fault { return fault{after: 700 * time.Millisecond} })
		time.Sleep(time.Minute)
		s.setFault(nil)
		time.Sleep(time.Minute) // the last that were late have settled
		before := w.Stats()
		time.Sleep(time.Minute)
		st := w.Stats().Since(before)
		require.EqualValues(t, 600, st.Renewed)
		require.EqualValues(t, 600, st.Late.Count)
		require.EqualValues(t, 600, st.Sizes.Sum)
		require.Greater(t, before.Late.Max, 600*time.Millisecond)
		count, sum := uint64(0), time.Duration(0)
		for _, b := range before.Late.Buckets() {
			count, sum = count+b.Count, sum+time.Duration(b.Count)*b.UpTo
		}
		require.Equal(t, before.Late.Count, count)
		require.InEpsilon(t, before.Late.Sum, sum, 1./16)
		require.Zero(t, st.Late.Max)
		require.Zero(t, st.Late.Sum)
		require.Equal(t, []renewal.Bucket{{UpTo: 0, Count: 600}}, st.Late.Buckets())
		require.Equal(t, 100, st.Leases)
	})
}

// TestStatsDoNotGoBackWhenALaneIsClosed: what a lane has counted is counted once all the time.
func TestStatsDoNotGoBackWhenALaneIsClosed(t *testing.T) {
	const n = 10
	s := &store{}
	w, _ := newLane(t, s, renewal.Config{})
	lanes := make([]*renewal.Lane, n)
	for i := range lanes {
		ln, err := w.Lane("", s)
		require.NoError(t, err)
		lanes[i] = ln
		s.hold(t, ln, fixedFor(time.Hour))
		ln.Verify() // which counts as a renewal, and no other comes
		for ln.Stats().Renewed == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	for _, ln := range lanes {
		before := w.Stats().Renewed
		// Stats and then Close wait for the lock. Both have waited for long, and it is taken once more when it is
		// free for Stats. So a sync.Mutex lets Close in as soon as Stats has released it for the first time.
		unlock := w.Lock()
		var wg sync.WaitGroup
		var got renewal.Stats
		wg.Go(func() { got = w.Stats() })
		time.Sleep(5 * time.Millisecond)
		wg.Go(ln.Close)
		time.Sleep(5 * time.Millisecond)
		unlock()
		unlock = w.Lock()
		time.Sleep(5 * time.Millisecond)
		unlock()
		wg.Wait()
		require.GreaterOrEqual(t, got.Renewed, before)
		require.Equal(t, before, w.Stats().Renewed)
	}
}

// TestABatchThatCloseCutsOffHasNotFailed: its count would come too late for the Stats of the watchdog.
func TestABatchThatCloseCutsOffHasNotFailed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &store{}, &hungWriter{free: make(chan struct{})}
		w, ln := newLane(t, r, renewal.Config{})
		s.hold(t, ln, renewedFor(30*time.Second))
		r.await(1)
		closed := make(chan struct{})
		go func() {
			ln.Close()
			close(closed)
		}()
		synctest.Wait()
		close(r.free)
		<-closed
		synctest.Wait()
		require.Zero(t, w.Stats().Failed)
		require.Zero(t, ln.Stats().Failed)
		require.Zero(t, ln.Stats().InFlight)
	})
}

func TestStatsCountEverything(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{MaxBatch: 10, Dispatchers: 1})
		other, err := w.Lane("other", s)
		require.NoError(t, err)
		hs := s.holdMany(t, ln, 100, 30*time.Second)
		s.hold(t, ln, fixedFor(10*time.Second))
		s.hold(t, other, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		s.delete(hs[0].key)
		time.Sleep(10 * time.Second)
		st := w.Stats()
		require.Equal(t, 100, st.Leases)
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 1, renewal.Expired: 1}, st.Lost)
		require.Equal(t, st.Sizes.Sum, st.Renewed+1)
		require.Equal(t, st.Renewed, st.Lag.Count)
		require.Zero(t, st.Failed)
		require.Equal(t, 99, ln.Stats().Leases)
		require.Equal(t, 1, other.Stats().Leases)
		require.Equal(t, ln.Stats().Batches+other.Stats().Batches, st.Batches)

		s.blackHole(15 * time.Second)
		time.Sleep(5 * time.Second)
		require.Positive(t, w.Stats().InFlight)
		require.Positive(t, w.Stats().Queued)
	})
}

func TestOnBatchIsToldOfEveryBatch(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		var mu sync.Mutex
		var renewed, lost, unknown, batches, failed int
		cfg.OnBatch = func(r renewal.BatchReport) {
			mu.Lock()
			defer mu.Unlock()
			batches++
			renewed, lost, unknown = renewed+r.Renewed, lost+r.Lost, unknown+r.Unknown
			if r.Err != nil {
				failed++
			}
			if r.Lane != "test" || r.Renewed+r.Lost+r.Unknown > r.Leases || r.Skipped > 0 {
				t.Errorf("%+v", r)
			}
		}
		w, ln := newLane(t, &boundedRenewer{Renewer: s, after: time.Second}, cfg)
		hs := s.holdMany(t, ln, 100, 30*time.Second)
		time.Sleep(time.Minute)
		s.delete(hs[0].key)
		time.Sleep(time.Minute)
		s.blackHole(12 * time.Second)
		time.Sleep(time.Minute)
		w.Close()
		st := w.Stats()
		require.EqualValues(t, st.Batches, batches)
		require.EqualValues(t, st.Renewed, renewed)
		require.EqualValues(t, st.Retried, unknown)
		require.EqualValues(t, st.Failed, failed)
		require.Equal(t, 1, lost)
		require.Positive(t, unknown)
	})
}

func TestASlowHookDelaysNoRenewalAndIsToldWhatItMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		told, skipped := 0, uint64(0)
		w, ln := newLane(t, s, renewal.Config{MaxBatch: 10, OnBatch: func(r renewal.BatchReport) {
			told++
			skipped += r.Skipped
			if told < 10 {
				time.Sleep(2 * time.Minute)
			}
		}})
		s.holdMany(t, ln, 1000, 30*time.Second)
		time.Sleep(20 * time.Minute)
		require.LessOrEqual(t, w.Stats().Lag.Max, w.Config().Tick)
		require.Empty(t, w.Stats().Lost)
		w.Close()
		require.EqualValues(t, w.Stats().Batches, told+int(skipped))
		require.Positive(t, skipped)
	})
}

// TestAnOwnerThatHangsShowsInStats: it keeps the wheel from watching the trust of others.
func TestAnOwnerThatHangsShowsInStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, s, renewal.Config{})
		require.Zero(t, w.Stats().Blocked)
		block := make(chan struct{})
		var hangs renewal.Lease
		require.NoError(t, ln.Hold(&hangs, ownerFunc(func(renewal.Reason) { <-block }),
			renewal.Terms{Stamp: time.Now(), TTL: time.Second, Fixed: true}))
		s.hold(t, ln, fixedFor(2*time.Second))
		time.Sleep(10 * time.Second)
		synctest.Wait()
		st := w.Stats()
		require.InDelta(t, 9, st.Blocked.Seconds(), 0.2)
		require.InDelta(t, 9, st.Behind.Seconds(), 0.2, "nobody has ended since")
		close(block)
		synctest.Wait()
		st = w.Stats()
		require.Zero(t, st.Blocked)
		require.Zero(t, st.Behind)
		require.Zero(t, ln.Stats().Blocked)
	})
}
