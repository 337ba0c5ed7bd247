package renewal_test

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// sleeper is a store, and the machine of its client, which can be suspended and whose wall clock can
// be set. A suspension takes no time in the bubble, because the monotonic clock stands still.
type sleeper struct {
	*store
	clocks sync.Mutex
	counts bool       // the system has a clock that counts suspension
	moves  []wallMove // of the wall clock
	slept  time.Duration
	reads  atomic.Int64 // how often the wall clock is read until read is called; 0: it is not called
	read   func()       // set before reads
}

type wallMove struct {
	at time.Time
	by time.Duration
}

// runs makes w run on the machine. counts says that the system counts suspension.
func (s *sleeper) runs(w *renewal.Watchdog, counts bool) {
	s.counts = counts
	skew := func(t time.Time) (ahead time.Duration) {
		if s.reads.Load() > 0 && s.reads.Add(-1) == 0 {
			s.read()
		}
		s.clocks.Lock()
		defer s.clocks.Unlock()
		for _, m := range s.moves {
			if !t.Before(m.at) {
				ahead += m.by
			}
		}
		return ahead
	}
	if !counts {
		w.SetClocks(skew, nil)
		return
	}
	w.SetClocks(skew, func() time.Duration {
		s.clocks.Lock()
		defer s.clocks.Unlock()
		return s.slept
	})
}

// suspend suspends the machine for d: the wall clock and the store's clock move by d.
func (s *sleeper) suspend(d time.Duration) {
	s.clocks.Lock()
	s.moves, s.slept = append(s.moves, wallMove{time.Now(), d}), s.slept+d
	s.clocks.Unlock()
	s.elapse(d)
}

// sleepUnseen suspends the machine without a move of its wall clock.
func (s *sleeper) sleepUnseen(d time.Duration) {
	s.clocks.Lock()
	s.slept += d
	s.clocks.Unlock()
	s.elapse(d)
}

// elapse lets time pass for the store alone.
func (s *sleeper) elapse(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key := range s.expiry {
		s.expiry[key] = s.expiry[key].Add(-d)
	}
}

// setWall moves the wall clock alone.
func (s *sleeper) setWall(d time.Duration) {
	s.clocks.Lock()
	defer s.clocks.Unlock()
	s.moves = append(s.moves, wallMove{time.Now(), d})
}

// onSleeper runs f with each configuration, on a system that counts suspension and on one
// that does not.
func onSleeper(t *testing.T, f func(*testing.T, *sleeper, *renewal.Watchdog, *renewal.Lane)) {
	for _, counts := range []bool{true, false} {
		t.Run(map[bool]string{true: "counted", false: "uncounted"}[counts], func(t *testing.T) {
			forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
				s := &sleeper{store: &store{}}
				w, err := renewal.New(cfg)
				require.NoError(t, err)
				t.Cleanup(w.Close)
				s.runs(w, counts)
				ln, err := w.Lane("", s)
				require.NoError(t, err)
				f(t, s, w, ln)
			})
		})
	}
}

func TestALongSleepOfTheMachineEndsTrustAtOnceAndIsTold(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
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
			// If the store was asked meanwhile, it has answered that the lease is gone.
			reasons := []renewal.Reason{renewal.Suspended, renewal.NotOwner}
			if i == 300 {
				reasons = []renewal.Reason{renewal.Expired}
			}
			require.Len(t, h.reasons(), 1)
			require.Contains(t, reasons, h.reasons()[0])
			require.LessOrEqual(t, h.toldAt().Sub(resumed), time.Second+10*time.Millisecond, "a period of the clock and a tick")
		}
		require.InDelta(t, time.Minute, w.Stats().Still, float64(2*time.Second))
		long := hs[301]
		require.True(t, long.lease.Valid())
		require.Equal(t, s.timeLeft(long.key)-w.Margin(10*time.Hour), time.Until(long.lease.Deadline()), "shorter by the sleep")
		fresh := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		require.True(t, fresh.lease.Valid())
		require.Greater(t, s.timeLeft(fresh.key), 19*time.Second)
	})
}

// TestASleepOfTheMachineIsSeenWheneverItComes: the machine sleeps just before each reading of the
// clocks.
func TestASleepOfTheMachineIsSeenWheneverItComes(t *testing.T) {
	for n := range int64(20) {
		onSleeper(t, func(t *testing.T, s *sleeper, _ *renewal.Watchdog, ln *renewal.Lane) {
			h := s.hold(t, ln, renewedFor(30*time.Second))
			time.Sleep(15*time.Second + 500*time.Millisecond)
			s.read = func() { s.suspend(time.Minute) }
			s.reads.Store(n + 1)
			time.Sleep(30 * time.Second)
			require.Len(t, h.reasons(), 1)
			require.Contains(t, []renewal.Reason{renewal.Suspended, renewal.NotOwner}, h.reasons()[0])
		})
	}
}

// TestAShortSleepOfTheMachineLosesNothing: what the leases have left is less
// than the wheel knows, so they must be renewed earlier.
func TestAShortSleepOfTheMachineLosesNothing(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		hs := s.holdMany(t, ln, 300, 30*time.Second)
		for range 20 {
			time.Sleep(13 * time.Second)
			s.suspend(17 * time.Second)
		}
		time.Sleep(13 * time.Second)
		require.Empty(t, w.Stats().Lost)
		require.InDelta(t, 20*17*time.Second, w.Stats().Still, float64(20*2*time.Second))
		before, awake := w.Stats(), time.Hour
		if testing.Short() {
			awake = time.Minute // virtual hours cost the race detector seconds
		}
		time.Sleep(awake)
		require.Zero(t, w.Stats().Since(before).Still, "nobody sleeps")
		for _, h := range hs {
			require.True(t, h.lease.Valid())
			require.Greater(t, s.timeLeft(h.key), w.Margin(30*time.Second))
		}
	})
}

// TestASleepInTheMiddleOfARenewal: the answer is read after the sleep, and
// after it was noticed.
func TestASleepInTheMiddleOfARenewal(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
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
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
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
	onSleeper(t, func(t *testing.T, s *sleeper, _ *renewal.Watchdog, ln *renewal.Lane) {
		if s.counts {
			return
		}
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
			require.Equal(t, []renewal.Reason{renewal.Suspended}, h.reasons())
		}
		require.Positive(t, s.countRenewed(), "some were renewed meanwhile")
	})
}

// TestAWallClockSetForwardLosesNothing where the system counts suspension. Elsewhere it
// loses nothing if it is set by less than the leases are trusted for.
func TestAWallClockSetForwardLosesNothing(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		step := 15 * time.Second
		if s.counts {
			step = time.Hour
		}
		hs := s.holdMany(t, ln, 300, 30*time.Second)
		end := time.Now().Add(10 * time.Minute)
		for time.Now().Before(end) {
			time.Sleep(15 * time.Second)
			s.setWall(step)
			for _, h := range hs {
				require.True(t, h.lease.Valid())
			}
		}
		require.Empty(t, w.Stats().Lost)
		for _, h := range hs {
			require.Greater(t, s.timeLeft(h.key), 15*time.Second)
		}
	})
}

// TestTheStoreIsAskedAfterTheWallClockWasSet: a virtual machine may have been paused, and
// no clock counts that.
func TestTheStoreIsAskedAfterTheWallClockWasSet(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		if !s.counts {
			return
		}
		h, gone := s.hold(t, ln, fixedFor(time.Hour)), s.hold(t, ln, fixedFor(time.Hour))
		time.Sleep(15 * time.Second)
		s.delete(gone.key)
		s.setWall(-time.Minute)
		time.Sleep(5 * time.Second)
		require.Empty(t, gone.reasons(), "set back, it proves no pause")
		s.setWall(time.Minute)
		time.Sleep(1200 * time.Millisecond)
		require.Equal(t, []renewal.Reason{renewal.NotOwner}, gone.reasons())
		require.True(t, h.lease.Valid())
	})
}

// TestASleepThatTheWallClockHidesIsNoticed: the wall clock is set back while the machine
// is suspended.
func TestASleepThatTheWallClockHidesIsNoticed(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, _ *renewal.Watchdog, ln *renewal.Lane) {
		if !s.counts {
			return
		}
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(5 * time.Second)
		s.sleepUnseen(20 * time.Second)
		time.Sleep(1200 * time.Millisecond)
		require.True(t, h.lease.Valid())
		require.Greater(t, s.timeLeft(h.key), 28*time.Second, "it was overdue")
		s.sleepUnseen(time.Minute)
		time.Sleep(1200 * time.Millisecond)
		require.False(t, h.lease.Valid())
	})
}

// TestASleepBeforeTheAnswerCountsForAnAcquisition, and for an Extend.
func TestASleepBeforeTheAnswerCountsForAnAcquisition(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		sent := func(ttl time.Duration) (*holder, renewal.Terms) {
			terms := renewal.Terms{Stamp: time.Now(), TTL: ttl, Fixed: true}
			h := &holder{key: s.put(ttl), store: s.store}
			time.Sleep(time.Millisecond)
			return h, terms
		}
		other := s.hold(t, ln, fixedFor(10*time.Minute))
		for _, slept := range []time.Duration{20 * time.Second, time.Minute} {
			for range 3 {
				h, terms := sent(30 * time.Second)
				s.suspend(slept / 2)
				time.Sleep(2 * time.Second) // it is noticed
				s.suspend(slept / 2)
				err := ln.Hold(&h.lease, h, terms)
				if slept > 30*time.Second {
					require.ErrorIs(t, err, renewal.ErrTrustEnded)
					continue
				}
				require.NoError(t, err)
				require.Equal(t, s.timeLeft(h.key)-w.Margin(30*time.Second), time.Until(h.lease.Deadline()))
				later := time.Now()
				time.Sleep(time.Millisecond)
				s.suspend(2 * time.Second)
				require.True(t, h.lease.Extend(later, 20*time.Second))
				require.Equal(t, 20*time.Second-w.Margin(20*time.Second)-2*time.Second-time.Millisecond, time.Until(h.lease.Deadline()))
				require.True(t, h.lease.Release())
			}
		}
		require.True(t, other.lease.Valid())
	})
}

func TestASmallStepOfTheWallClockIsNoSleep(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		h := s.hold(t, ln, fixedFor(20*time.Second))
		end := h.lease.Deadline()
		s.setWall(10 * time.Millisecond)
		time.Sleep(20*time.Second - w.Margin(20*time.Second) - 1)
		require.True(t, h.lease.Valid())
		require.Equal(t, end, h.lease.Deadline())
		time.Sleep(time.Nanosecond)
		require.False(t, h.lease.Valid())
		require.Greater(t, s.timeLeft(h.key), 10*time.Millisecond, "if it was a sleep, there is time left all the same")
	})
}

// TestAHoldDuringAComparisonOfTheClocksDelaysNoCorrection: the Hold arms the clock first, while the
// comparison counts the leases.
func TestAHoldDuringAComparisonOfTheClocksDelaysNoCorrection(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		last, err := w.Lane("last", s)
		require.NoError(t, err)
		compare := func() {
			unlock := last.Lock()
			done := make(chan struct{})
			go func() {
				defer close(done)
				w.CompareClocks()
			}()
			for w.IsWatching() {
				runtime.Gosched()
			}
			s.hold(t, ln, fixedFor(10*time.Hour))
			require.True(t, w.IsWatching())
			unlock()
			<-done
			time.Sleep(100 * time.Millisecond) // much less than until the next comparison
		}
		gone, kept := s.hold(t, ln, fixedFor(time.Hour)), s.hold(t, ln, fixedFor(time.Hour))
		hs := s.holdMany(t, ln, 300, 30*time.Second)
		time.Sleep(15*time.Second + 500*time.Millisecond) // between two comparisons
		if s.counts {
			s.delete(gone.key)
			s.setWall(time.Minute)
			compare()
			require.Equal(t, []renewal.Reason{renewal.NotOwner}, gone.reasons())
		}
		s.suspend(time.Minute)
		compare()
		for _, h := range hs {
			require.Len(t, h.reasons(), 1)
		}
		require.True(t, kept.lease.Valid())
	})
}

// TestALeaseIsToldInTimeThoughAnOlderOneWasArmedBeforeASleep: both end in the same window, so they share a
// timer, and the sleep made that late.
func TestALeaseIsToldInTimeThoughAnOlderOneWasArmedBeforeASleep(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, w *renewal.Watchdog, ln *renewal.Lane) {
		s.hold(t, ln, fixedFor(leaseFor(w, time.Minute+250*time.Millisecond)))
		s.suspend(time.Minute)
		h := s.hold(t, ln, fixedFor(leaseFor(w, 260*time.Millisecond)))
		end := h.lease.Deadline()
		time.Sleep(2 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		require.LessOrEqual(t, h.toldAt().Sub(end), w.Config().Tick)
	})
}

// leaseFor returns the lease that is trusted for d, to a millisecond.
func leaseFor(w *renewal.Watchdog, d time.Duration) time.Duration {
	ttl := d
	for ttl-w.Margin(ttl) < d {
		ttl += time.Millisecond
	}
	return ttl
}

// TestALeaseThatIsMovedDuringAComparisonKeepsTheClockRunning: the lease leaves a lane that is not counted
// yet for one that is.
func TestALeaseThatIsMovedDuringAComparisonKeepsTheClockRunning(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, first := newLane(t, s, cfg)
		second, err := w.Lane("second", s)
		require.NoError(t, err)
		third, err := w.Lane("third", s)
		require.NoError(t, err)
		h := s.hold(t, third, fixedFor(time.Hour))
		time.Sleep(500 * time.Millisecond) // between two comparisons
		unlock := second.Lock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			w.CompareClocks()
		}()
		for n := 0; w.IsWatching() || n < 1000; n++ { // until it waits for the second lane
			runtime.Gosched()
		}
		require.True(t, h.lease.Move(first))
		unlock()
		<-done
		require.True(t, w.IsWatching())
	})
}

func TestClocksAreComparedOnlyWhileThereAreLeases(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &sleeper{store: &store{}}
		w, err := renewal.New(cfg)
		require.NoError(t, err)
		t.Cleanup(w.Close)
		var looks atomic.Int64
		w.SetClocks(nil, func() time.Duration { looks.Add(1); return 0 })
		ln, err := w.Lane("", s)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.Zero(t, looks.Load())
		h := s.hold(t, ln, fixedFor(time.Hour))
		time.Sleep(time.Minute)
		require.Greater(t, looks.Load(), int64(50))
		require.True(t, h.lease.Release())
		time.Sleep(2 * time.Second)
		looks.Store(0)
		time.Sleep(time.Hour)
		require.Zero(t, looks.Load())
		s.hold(t, ln, fixedFor(time.Hour))
		looks.Store(0)
		time.Sleep(time.Minute)
		require.Greater(t, looks.Load(), int64(50), "and again")
	})
}
