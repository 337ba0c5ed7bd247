package renewal_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// sleeper is a machine that can be suspended: in a bubble only the wall clock
// is moved, as the monotonic one stands still, and so is the store's.
type sleeper struct {
	*store
	skew atomic.Int64
}

func (s *sleeper) suspend(d time.Duration) {
	s.skew.Add(int64(d))
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.expiry {
		s.expiry[key] = s.expiry[key].Add(-d)
	}
}

// setWall moves the wall clock alone.
func (s *sleeper) setWall(d time.Duration) { s.skew.Add(int64(d)) }

func newSleeper(t *testing.T, cfg renewal.Config) (*sleeper, *renewal.Watchdog, *renewal.Lane) {
	s := &sleeper{store: &store{}}
	w, err := renewal.New(cfg)
	require.NoError(t, err)
	t.Cleanup(w.Close)
	w.SkewWall(func() time.Duration { return time.Duration(s.skew.Load()) })
	ln, err := w.Lane("", s)
	require.NoError(t, err)
	return s, w, ln
}

func TestALongSleepOfTheMachineEndsTrustAtOnceAndIsTold(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, w, ln := newSleeper(t, cfg)
		hs := s.holdMany(t, ln, 300, 30*time.Second)
		hs = append(hs, s.hold(t, ln, fixedFor(20*time.Second)), s.hold(t, ln, fixedFor(10*time.Hour)))
		time.Sleep(15 * time.Second)
		s.suspend(time.Minute)
		resumed := time.Now()
		for _, h := range hs[:301] {
			require.False(t, h.lease.Valid(), "at once")
		}
		time.Sleep(1100 * time.Millisecond)
		for i, h := range hs[:301] {
			// The store, if it was asked meanwhile, says that it is gone.
			reasons := []renewal.Reason{renewal.TrustEnded, renewal.NotOwner}
			if i == 300 {
				reasons = []renewal.Reason{renewal.Expired}
			}
			require.Len(t, h.reasons(), 1)
			require.Contains(t, reasons, h.reasons()[0])
			require.LessOrEqual(t, h.toldAt().Sub(resumed), time.Second)
		}
		long := hs[301]
		require.True(t, long.lease.Valid())
		require.Equal(t, s.left(long.key)-w.Margin(10*time.Hour), time.Until(long.lease.Deadline()), "shorter by the sleep")
		fresh := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		require.True(t, fresh.lease.Valid())
		require.Greater(t, s.left(fresh.key), 19*time.Second)
	})
}

// TestAShortSleepOfTheMachineLosesNothing: what the leases have left is less
// than the wheel knows, so they must be renewed earlier.
func TestAShortSleepOfTheMachineLosesNothing(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, w, ln := newSleeper(t, cfg)
		hs := s.holdMany(t, ln, 300, 30*time.Second)
		for range 20 {
			time.Sleep(13 * time.Second)
			s.suspend(17 * time.Second)
		}
		time.Sleep(13 * time.Second)
		require.Empty(t, w.Stats().Lost)
		for _, h := range hs {
			require.True(t, h.lease.Valid())
			require.Greater(t, s.left(h.key), w.Margin(30*time.Second))
		}
	})
}

// TestASleepInTheMiddleOfARenewal: the answer is read after the sleep, and
// after it was noticed.
func TestASleepInTheMiddleOfARenewal(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, w, ln := newSleeper(t, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: 3 * time.Second} })
		for w.Stats().InFlight == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // the store has carried it out before the sleep, and answers after it
		s.suspend(10 * time.Second)
		time.Sleep(4 * time.Second)
		s.setFault(func() fault { return fault{drop: true} })
		time.Sleep(time.Minute)
		require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
		require.Greater(t, h.spared, time.Duration(0))
		require.Less(t, h.spared, 2*time.Second)
	})
}

func TestAWallClockSetBackDoesNotExtendTrust(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, w, ln := newSleeper(t, cfg)
		h := s.hold(t, ln, fixedFor(20*time.Second))
		renewed := s.holdMany(t, ln, 100, 30*time.Second)
		time.Sleep(5 * time.Second)
		s.setWall(-time.Hour)
		time.Sleep(20 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		require.Greater(t, h.spared, time.Duration(0))
		time.Sleep(time.Minute)
		require.Equal(t, 100, w.Stats().Leases, "nor does it end anything")

		// And it does not hide a sleep that comes after it.
		s.suspend(time.Minute)
		for _, h := range renewed {
			require.False(t, h.lease.Valid())
		}
		time.Sleep(1100 * time.Millisecond)
		require.Zero(t, w.Stats().Leases)
	})
}

// TestTrustEndedByTheWallClockDoesNotComeBack: the store has not slept and says
// yes, but Valid has already said no.
func TestTrustEndedByTheWallClockDoesNotComeBack(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, _, ln := newSleeper(t, cfg)
		hs := s.holdMany(t, ln, 1000, 30*time.Second)
		time.Sleep(15 * time.Second)
		s.setWall(time.Hour)
		valid := 0
		for range 200 {
			for _, h := range hs {
				if h.lease.Valid() {
					valid++
				}
			}
			time.Sleep(10 * time.Millisecond)
		}
		require.Zero(t, valid)
		for _, h := range hs {
			require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
		}
		require.Positive(t, s.count(), "some were renewed meanwhile")
	})
}

func TestASmallStepOfTheWallClockIsNoSleep(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s, w, ln := newSleeper(t, cfg)
		h := s.hold(t, ln, fixedFor(20*time.Second))
		end := h.lease.Deadline()
		s.setWall(10 * time.Millisecond)
		time.Sleep(20*time.Second - w.Margin(20*time.Second) - 1)
		require.True(t, h.lease.Valid())
		require.Equal(t, end, h.lease.Deadline())
		time.Sleep(time.Nanosecond)
		require.False(t, h.lease.Valid())
		require.Greater(t, s.left(h.key), 10*time.Millisecond, "if it was a sleep, there is time left all the same")
	})
}

func TestClocksAreComparedOnlyWhileThereAreLeases(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &sleeper{store: &store{}}
		w, err := renewal.New(cfg)
		require.NoError(t, err)
		t.Cleanup(w.Close)
		var looks atomic.Int64
		w.SkewWall(func() time.Duration { looks.Add(1); return 0 })
		ln, err := w.Lane("", s)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, looks.Load())
		h := s.hold(t, ln, fixedFor(time.Hour))
		time.Sleep(time.Minute)
		require.Greater(t, looks.Load(), int64(50))
		require.True(t, h.lease.Release())
		time.Sleep(time.Second)
		looks.Store(0)
		time.Sleep(time.Hour)
		require.Zero(t, looks.Load())
		s.hold(t, ln, fixedFor(time.Hour))
		looks.Store(0)
		time.Sleep(time.Minute)
		require.Greater(t, looks.Load(), int64(50), "and again")
	})
}
