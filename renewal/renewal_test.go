package renewal_test

import (
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// configs renew in batches and one by one; what follows holds for both.
var configs = []struct {
	name string
	cfg  renewal.Config
}{
	{"batches", renewal.Config{}},
	{"one-by-one", renewal.Config{MaxBatch: 1, Dispatchers: 8}},
}

func forEachConfig(t *testing.T, f func(*testing.T, renewal.Config)) {
	for _, c := range configs {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, c.cfg) })
		})
	}
}

func TestLeasesAreRenewedEachThirdOfTheTTL(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 100, 30*time.Second)
		time.Sleep(10 * time.Minute)
		st := w.Stats()
		require.Equal(t, 100, st.Leases)
		require.Empty(t, st.Lost)
		// 60 intervals; the first due time is random within one.
		require.InDelta(t, 60*100, float64(st.Renewed), 100)
		require.Zero(t, st.Retried)
		for _, h := range hs {
			require.True(t, h.lease.Valid())
			require.Greater(t, s.timeLeft(h.key), 19*time.Second)
			require.True(t, h.lease.Release())
		}
		before := s.countRenewed()
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, s.countRenewed(), "a released lease is not renewed")
		require.Zero(t, w.Stats().Leases)
		for _, h := range hs {
			require.Empty(t, h.reasons())
		}
	})
}

func TestTrustEndsAMarginBeforeStampPlusTTL(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		require.Equal(t, 600*time.Millisecond, w.Margin(30*time.Second), "TTL/50")
		require.Equal(t, 25*time.Millisecond, w.Margin(time.Second), "2 ticks and 5 ms")
		start := time.Now()
		h := s.hold(t, ln, renewedFor(30*time.Second))
		require.Equal(t, start.Add(29400*time.Millisecond), h.lease.Deadline())
		// A slow answer: trust counts from before the request, not from the answer.
		s.setFault(func() fault { return fault{before: 200 * time.Millisecond, after: 300 * time.Millisecond} })
		for w.Stats().Renewed == 0 {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, 200*time.Millisecond+w.Margin(30*time.Second), s.timeLeft(h.key)-time.Until(h.lease.Deadline()))
	})
}

func TestAMarginIsFromAHundredthToAQuarterOfTheLease(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.TTL, cfg.Margin = 30*time.Second, 5*time.Second
		s := &store{}
		w, ln := newLane(t, s, cfg)
		for lease, margin := range map[time.Duration]time.Duration{
			renewal.MinTTL:          25 * time.Millisecond,
			5 * time.Second:         1250 * time.Millisecond,
			20 * time.Second:        5 * time.Second,
			30 * time.Second:        5 * time.Second,
			30 * 24 * 60 * 60 * 1e9: 30 * 24 * 60 * 60 * 1e9 / 100, // clocks may run at different speeds
		} {
			require.Equal(t, margin, w.Margin(lease), lease)
			start := time.Now()
			h := s.hold(t, ln, fixedFor(lease))
			require.True(t, h.lease.Valid())
			require.Equal(t, start.Add(lease-margin), h.lease.Deadline())
			require.True(t, h.lease.Extend(time.Now(), lease))
		}
		// A tick that is large makes the margin of a short lease no larger.
		cfg.TTL, cfg.Tick, cfg.Margin = 60*time.Second, 600*time.Millisecond, 0
		coarse, lane := newLane(t, s, cfg)
		require.Equal(t, 25*time.Millisecond, coarse.Margin(renewal.MinTTL))
		require.True(t, s.hold(t, lane, fixedFor(renewal.MinTTL)).lease.Valid())
	})
}

func TestLossIsToldOnceWhenTheStoreSaysNo(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 50, 30*time.Second)
		time.Sleep(time.Minute)
		for i, h := range hs {
			if i%2 == 0 {
				s.delete(h.key)
			}
		}
		time.Sleep(10 * time.Second) // a renewal interval; the round trip takes no time
		for i, h := range hs {
			if i%2 == 0 {
				require.Equal(t, []renewal.Reason{renewal.NotOwner}, h.reasons())
				require.False(t, h.lease.Valid())
				require.False(t, h.lease.Release())
				r, lost := h.lease.Lost()
				require.True(t, lost)
				require.Equal(t, renewal.NotOwner, r)
			} else {
				require.Empty(t, h.reasons())
				require.True(t, h.lease.Valid())
			}
		}
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 25}, w.Stats().Lost)
	})
}

func TestFixedLeaseIsNotRenewedAndItsEndIsTold(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, fixedFor(5*time.Second))
		end := h.lease.Deadline()
		require.Equal(t, 5*time.Second-w.Margin(5*time.Second), time.Until(end))
		time.Sleep(5 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		late := h.toldAt().Sub(end)
		require.GreaterOrEqual(t, late, time.Duration(0), "not before its end")
		require.LessOrEqual(t, late, w.Config().Tick)
		require.Greater(t, h.spared, time.Duration(0))
		require.Zero(t, s.countRenewed())
	})
}

func TestExtendAndSetFixedMoveTheEnd(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, fixedFor(30*time.Second))
		time.Sleep(20 * time.Second)
		require.True(t, h.lease.Extend(time.Now(), 30*time.Second))
		s.extend([]int{h.key}, 30*time.Second)
		time.Sleep(20 * time.Second)
		require.True(t, h.lease.Valid())
		require.True(t, h.lease.Extend(time.Now(), time.Second))
		require.Greater(t, time.Until(h.lease.Deadline()), 5*time.Second, "trust is never shortened")
		h.lease.SetFixed(false)
		time.Sleep(5 * time.Second) // it has to be renewed within 9.4 s, and is within half of that
		require.Greater(t, time.Until(h.lease.Deadline()), 20*time.Second)
		w.Close()
		require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
		require.False(t, h.lease.Extend(time.Now(), time.Second))
		h.lease.SetFixed(true) // and nothing happens
	})
}

func TestARenewedLeaseSetFixedEnds(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		h.lease.SetFixed(true)
		time.Sleep(30 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		require.Greater(t, h.spared, time.Duration(0))
	})
}

func TestALeaseSetFixedInFlightIsNotExtendedByTheAnswer(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: 500 * time.Millisecond} })
		for w.Stats().InFlight == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // it is on its way to the store, or there
		end := h.lease.Deadline()
		h.lease.SetFixed(true)
		time.Sleep(time.Second)
		require.Equal(t, end, h.lease.Deadline())
		time.Sleep(30 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
	})
}

func TestMaxHoldEndsTheLeaseOnTime(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = 95 * time.Second
		s := &store{}
		w, ln := newLane(t, s, cfg)
		start := time.Now()
		renewed := s.hold(t, ln, renewedFor(30*time.Second))
		late := s.hold(t, ln, fixedFor(30*time.Second))
		long := s.hold(t, ln, fixedFor(2*time.Minute))
		time.Sleep(10 * time.Second)
		late.lease.SetFixed(false)
		time.Sleep(3 * time.Minute)
		for _, h := range []*holder{renewed, late} {
			require.Equal(t, []renewal.Reason{renewal.MaxHold}, h.reasons())
			after := h.toldAt().Sub(start) - cfg.MaxHold
			require.GreaterOrEqual(t, after, time.Duration(0))
			require.LessOrEqual(t, after, w.Config().Tick)
			require.Greater(t, h.spared, time.Duration(0))
		}
		require.Equal(t, []renewal.Reason{renewal.Expired}, long.reasons(), "a fixed lease has its own end")
		require.Equal(t, long.lease.Deadline().Sub(start), 2*time.Minute-w.Margin(2*time.Minute))
	})
}

func TestMaxHoldStopsRenewalEarlyEnough(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = 95 * time.Second
		s := &store{}
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(85 * time.Second)
		// Whatever was renewed from 95 s - 29.4 s on brings trust to MaxHold.
		before := s.countRenewed()
		time.Sleep(time.Minute)
		require.Equal(t, before, s.countRenewed())
		require.Equal(t, []renewal.Reason{renewal.MaxHold}, h.reasons())
	})
}

// TestMaxHoldCountsOnInTheLeaseThatTakesTheOthersPlace: also if the other lease was lost, and
// if it was not to be renewed.
func TestMaxHoldCountsOnInTheLeaseThatTakesTheOthersPlace(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, endless := newLane(t, s, cfg)
		require.Zero(t, s.hold(t, endless, renewedFor(30*time.Second)).lease.MaxHoldEnd())
		cfg.MaxHold = 95 * time.Second
		w, ln := newLane(t, s, cfg)
		var none renewal.Lease
		require.Zero(t, none.MaxHoldEnd())
		start := time.Now()
		first := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(40 * time.Second)
		s.delete(first.key)
		time.Sleep(10 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.NotOwner}, first.reasons())
		require.Equal(t, cfg.MaxHold, first.lease.MaxHoldEnd().Sub(start))
		next := s.hold(t, ln, renewal.Terms{TTL: 30 * time.Second, MaxHoldEnd: first.lease.MaxHoldEnd()})
		require.Equal(t, first.lease.MaxHoldEnd(), next.lease.MaxHoldEnd())
		time.Sleep(2 * time.Minute)
		require.Equal(t, []renewal.Reason{renewal.MaxHold}, next.reasons())
		after := next.toldAt().Sub(start) - cfg.MaxHold
		require.GreaterOrEqual(t, after, time.Duration(0))
		require.LessOrEqual(t, after, w.Config().Tick)
		var late holder
		require.ErrorIs(t, ln.Hold(&late.lease, &late, renewal.Terms{
			Stamp: time.Now(), TTL: 30 * time.Second, MaxHoldEnd: first.lease.MaxHoldEnd(),
		}), renewal.ErrTrustEnded, "it is over")
	})
}

func TestAYesAfterTrustEndedIsNoHold(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		var h holder
		stamp := time.Now()
		time.Sleep(29400 * time.Millisecond)
		terms := renewal.Terms{Stamp: stamp, TTL: 30 * time.Second}
		require.ErrorIs(t, ln.Hold(&h.lease, &h, terms), renewal.ErrTrustEnded)
		require.False(t, h.lease.Valid())
		require.False(t, h.lease.Release())
		require.Zero(t, h.lease.Deadline())
		terms.Stamp = stamp.Add(time.Nanosecond)
		require.NoError(t, ln.Hold(&h.lease, &h, terms), "and it may be held by another yes")
		require.True(t, h.lease.Release())

		// A renewal whose yes is read after the lease's own trust ended.
		late := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: 29*time.Second + 399*time.Millisecond} })
		time.Sleep(time.Minute)
		require.Equal(t, []renewal.Reason{renewal.TrustEnded}, late.reasons())
		require.Positive(t, s.countRenewed(), "though the store had extended it")

		w.Close()
		require.ErrorIs(t, ln.Hold(new(renewal.Lease), &h, renewal.Terms{Stamp: time.Now(), TTL: time.Second}), renewal.ErrClosed)
		_, err := w.Lane("late", s)
		require.ErrorIs(t, err, renewal.ErrClosed)
	})
}

func TestAShortLeaseOfARenewedKindIsRenewedInTime(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		for range 100 {
			s.hold(t, ln, renewedFor(time.Second)) // the watchdog's own TTL is 30 s
		}
		time.Sleep(time.Minute)
		require.Equal(t, 100, ln.Stats().Leases)
	})
}

func TestConfigNamesAllItsFaults(t *testing.T) {
	_, err := renewal.New(renewal.Config{TTL: time.Millisecond, Tick: time.Hour, Margin: time.Hour, MaxBatch: -1, Dispatchers: -1, MaxHold: 1})
	for _, field := range []string{"TTL", "Tick", "Margin", "MaxBatch", "Dispatchers", "MaxHold"} {
		require.ErrorContains(t, err, "Config."+field+" is ")
	}
	_, err = renewal.New(renewal.Config{Tick: math.MaxInt64, Margin: time.Millisecond})
	require.ErrorContains(t, err, "Config.Margin is 1ms: it must be from 2 ticks = 20ms to TTL/4")
	_, err = renewal.New(renewal.Config{TTL: renewal.MaxTTL, Tick: time.Hour + 1})
	require.EqualError(t, err, "renewal: Config.Tick is 1h0m0.000000001s: it must be from 1ms to 1h0m0s")
	_, err = renewal.New(renewal.Config{TTL: time.Second, Tick: 10*time.Millisecond + 1})
	require.EqualError(t, err, "renewal: Config.Tick is 10.000001ms: it must be from 1ms to TTL/100 = 10ms")
	w, err := renewal.New(renewal.Config{TTL: renewal.MaxTTL, Tick: time.Hour})
	require.NoError(t, err)
	w.Close()
	w, err = renewal.New(renewal.Config{TTL: renewal.MinTTL})
	require.NoError(t, err)
	require.Equal(t, time.Millisecond, w.Config().Tick, "at most TTL/100")
	w.Close()
}

func TestConcurrentUseKeepsTheAccount(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.TTL = 100 * time.Millisecond
		s := &store{}
		w, ln := newLane(t, s, cfg)
		var mu sync.Mutex
		released, lost := 0, 0
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for range 200 {
					h := s.hold(t, ln, renewal.Terms{TTL: 100 * time.Millisecond, Fixed: rng.IntN(4) == 0})
					time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
					ok := h.lease.Release()
					time.Sleep(time.Millisecond) // Lost is called after the lease has ended
					told := len(h.reasons())
					mu.Lock()
					if ok {
						released++
					} else {
						lost++
					}
					mu.Unlock()
					if ok == (told > 0) || told > 1 {
						t.Errorf("Release says %v, told %d times", ok, told)
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, 8*200, released+lost)
		require.Positive(t, released)
		require.Positive(t, lost)
		require.Zero(t, w.Stats().Leases)
	})
}
