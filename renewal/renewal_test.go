package renewal_test

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// drivers are the ways to wake a watchdog; what follows holds for each.
var drivers = map[string]renewal.Config{
	"wheel-batch":     {},
	"wheel":           {MaxBatch: 1, Dispatchers: 8},
	"afterfunc-batch": {Driver: renewal.AfterFunc},
	"afterfunc":       {Driver: renewal.AfterFunc, MaxBatch: 1},
}

func forEachDriver(t *testing.T, f func(*testing.T, renewal.Config)) {
	for name, cfg := range drivers {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { f(t, cfg) })
		})
	}
}

func TestLeasesAreRenewedEachThirdOfTheTTL(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
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
			require.Greater(t, s.left(h.key), 19*time.Second)
			require.True(t, h.lease.Release())
		}
		before := s.count()
		time.Sleep(10 * time.Minute)
		require.Equal(t, before, s.count(), "a released lease is not renewed")
		require.Zero(t, w.Stats().Leases)
		for _, h := range hs {
			require.Empty(t, h.reasons())
		}
	})
}

func TestLossIsToldOnceWhenTheStoreSaysNo(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 50, 30*time.Second)
		time.Sleep(time.Minute)
		for i, h := range hs {
			if i%2 == 0 {
				s.delete(h.key)
			}
		}
		time.Sleep(11 * time.Second) // a renewal interval and a round trip
		for i, h := range hs {
			if i%2 == 0 {
				require.Equal(t, []renewal.Reason{renewal.NotOwner}, h.reasons())
				require.False(t, h.lease.Valid())
				require.False(t, h.lease.Release())
			} else {
				require.Empty(t, h.reasons())
				require.True(t, h.lease.Valid())
			}
		}
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 25}, w.Stats().Lost)
	})
}

func TestOutageShorterThanHalfTheTTLLosesNothing(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLaneOf(t, &cut{Renewer: s, after: time.Second}, cfg)
		hs := s.holdMany(t, ln, 500, 30*time.Second)
		time.Sleep(time.Minute)
		out := time.Now().Add(15 * time.Second)
		s.setFault(func() fault {
			if left := time.Until(out); left > 0 {
				return fault{drop: true}
			}
			return fault{}
		})
		time.Sleep(2 * time.Minute)
		require.Empty(t, w.Stats().Lost)
		for _, h := range hs {
			require.True(t, h.lease.Valid())
		}
	})
}

func TestLongOutageIsToldOnceBeforeTheStoreExpiresTheKeys(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 500, 30*time.Second)
		time.Sleep(time.Minute)
		s.setFault(func() fault { return fault{drop: true} })
		time.Sleep(time.Minute)
		for _, h := range hs {
			require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
			require.Greater(t, h.spared, time.Duration(0), "told before the store's expiry")
		}
		s.setFault(nil)
		fresh := s.hold(t, ln, "fresh", 30*time.Second, false)
		time.Sleep(5 * time.Minute)
		require.True(t, fresh.lease.Valid(), "new leases renew normally")
		require.Equal(t, 1, w.Stats().Leases)
	})
}

// TestHolderIsToldBeforeTheStoresExpiry is the one rule, under random faults of
// every kind and size, with leases that come and go.
func TestHolderIsToldBeforeTheStoresExpiry(t *testing.T) {
	schedules := 150
	if testing.Short() {
		schedules = 25
	}
	faults, told := 0, 0
	for name, cfg := range drivers {
		for seed := range schedules {
			synctest.Test(t, func(t *testing.T) {
				rng := rand.New(rand.NewPCG(uint64(seed), 7))
				ttl := []time.Duration{100 * time.Millisecond, time.Second, 30 * time.Second}[rng.IntN(3)]
				cfg := cfg
				cfg.TTL = ttl
				s := newStore()
				network := rand.New(rand.NewPCG(uint64(seed), 8))
				s.fault = func() fault { // called under the store's lock
					if network.IntN(3) > 0 {
						return fault{}
					}
					faults++
					return fault{
						before: time.Duration(network.Int64N(int64(ttl) * 3 / 2)),
						after:  time.Duration(network.Int64N(int64(ttl) * 3 / 2)),
						drop:   network.IntN(4) == 0,
						mute:   network.IntN(4) == 0,
					}
				}
				w, ln := newLaneOf(t, &cut{Renewer: s, after: ttl / time.Duration(1+rng.IntN(10))}, cfg)
				hs := s.holdMany(t, ln, 30, ttl)
				for end := time.Now().Add(10 * ttl); time.Now().Before(end); time.Sleep(ttl / 50) {
					for i, h := range hs {
						if h.lease.Valid() {
							if left := s.left(h.key); left <= 0 {
								t.Errorf("%s, seed %d: %s is valid %v after the store's expiry", name, seed, h.key, -left)
							}
						}
						if rng.IntN(200) == 0 {
							h.lease.Release()
							hs[i] = s.hold(t, ln, h.key+"+", ttl, false)
						}
						if r := h.reasons(); len(r) > 0 {
							told++
							if len(r) > 1 {
								t.Errorf("%s, seed %d: told %v", name, seed, r)
							}
							if r[0] == renewal.TrustEnded && h.spared <= 0 {
								t.Errorf("%s, seed %d: told %v after the store's expiry", name, seed, -h.spared)
							}
							hs[i] = s.hold(t, ln, h.key+"-", ttl, false)
						}
					}
				}
				w.Close()
				time.Sleep(3 * ttl) // the store's stragglers
			})
		}
	}
	t.Logf("%d faults injected, %d losses told", faults, told)
	require.Greater(t, faults, 100)
	require.Greater(t, told, 10)
}

func TestLeasesTakenTogetherAreSpreadOverTheInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		_, ln := newLane(t, s, renewal.Config{})
		s.holdMany(t, ln, 20_000, 30*time.Second)
		time.Sleep(20 * time.Second) // two intervals
		worst, last := 0, s.count()
		for range 10 {
			time.Sleep(time.Second)
			n := s.count()
			worst, last = max(worst, n-last), n
		}
		require.Less(t, worst, 20_000/10*14/10, "at most 1.4 times the mean in any second")
	})
}

func TestAHungLaneDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := newStore(), newStore()
		w, hung := newLane(t, bad, renewal.Config{})
		ok, err := w.Lane("good", good)
		require.NoError(t, err)
		bad.setFault(func() fault { return fault{drop: true} })
		lost := bad.holdMany(t, hung, 1000, 30*time.Second)
		kept := good.holdMany(t, ok, 1000, 30*time.Second)
		time.Sleep(5 * time.Minute)
		for i := range lost {
			require.Len(t, lost[i].reasons(), 1)
			require.Greater(t, lost[i].spared, time.Duration(0))
			require.Empty(t, kept[i].reasons())
		}
		require.Zero(t, ok.Stats().Lag.P99)
	})
}

func TestFixedLeaseIsNotRenewedAndItsEndIsTold(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, "fixed", 5*time.Second, true)
		start := time.Now()
		require.Equal(t, start.Add(5*time.Second-w.Margin(5*time.Second)), h.lease.Deadline().Round(0))
		<-h.done
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		late := time.Since(h.lease.Deadline())
		require.GreaterOrEqual(t, late, time.Duration(0), "not before its end")
		require.LessOrEqual(t, late, w.Config().Tick)
		require.Greater(t, h.spared, time.Duration(0))
		require.Zero(t, s.count())
	})
}

func TestExtendAndSetFixedMoveTheEnd(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, "k", 30*time.Second, true)
		time.Sleep(20 * time.Second)
		require.True(t, h.lease.Extend(time.Now(), 30*time.Second))
		s.extend([]string{"k"}, 30*time.Second)
		time.Sleep(20 * time.Second)
		require.True(t, h.lease.Valid())
		require.True(t, h.lease.Extend(time.Now(), time.Second))
		require.Greater(t, time.Until(h.lease.Deadline()), 5*time.Second, "trust is never shortened")
		h.lease.SetFixed(false)
		time.Sleep(5 * time.Second) // it has to be renewed within 10 s
		require.True(t, h.lease.Valid())
		w.Close()
		require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
	})
}

func TestARenewedLeaseSetFixedEnds(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, "k", 30*time.Second, false)
		time.Sleep(time.Minute)
		h.lease.SetFixed(true)
		time.Sleep(30 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, h.reasons())
		require.Greater(t, h.spared, time.Duration(0))
	})
}

func TestMaxHoldEndsTheLeaseOnTime(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = 95 * time.Second
		s := newStore()
		_, ln := newLane(t, s, cfg)
		start := time.Now()
		h := s.hold(t, ln, "k", 30*time.Second, false)
		<-h.done
		require.Equal(t, []renewal.Reason{renewal.MaxHold}, h.reasons())
		require.InDelta(t, float64(95*time.Second), float64(time.Since(start)), float64(20*time.Millisecond))
		require.Greater(t, h.spared, time.Duration(0))
	})
}

func TestAYesAfterTrustEndedIsNoHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		w, ln := newLane(t, s, renewal.Config{})
		var h holder
		stamp := time.Now()
		time.Sleep(29500 * time.Millisecond)
		err := ln.Hold(&h.lease, &h, renewal.Terms{Stamp: stamp, TTL: 30 * time.Second})
		require.ErrorIs(t, err, renewal.ErrTrustEnded)
		require.False(t, h.lease.Valid())
		require.False(t, h.lease.Release())
		w.Close()
		require.ErrorIs(t, ln.Hold(&h.lease, &h, renewal.Terms{Stamp: time.Now(), TTL: time.Second}), renewal.ErrClosed)
		_, err = w.Lane("late", s)
		require.ErrorIs(t, err, renewal.ErrClosed)
	})
}

func TestARenewerThatPanicsMakesItsBatchUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
		w, ln := newLaneOf(t, &panicky{store: s}, renewal.Config{})
		h := s.hold(t, ln, "k", 30*time.Second, false)
		time.Sleep(5 * time.Minute)
		require.True(t, h.lease.Valid())
		require.Greater(t, w.Stats().Retried, uint64(20))
	})
}

func TestCloseTellsEveryLeaseAndStopsTwice(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		s := newStore()
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 100, 30*time.Second)
		s.setFault(func() fault { return fault{drop: true} })
		time.Sleep(8 * time.Second) // some wait, some fly
		var wg sync.WaitGroup
		for range 4 {
			wg.Go(w.Close)
		}
		wg.Wait()
		for _, h := range hs {
			require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
			require.False(t, h.lease.Valid())
		}
		require.Zero(t, w.Stats().Leases)
		time.Sleep(time.Hour) // the store's stragglers
	})
}

func TestStatsSinceCountsOnlyWhatCameBetween(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStore()
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
		require.Greater(t, before.Late.Max, 600*time.Millisecond)
		require.Zero(t, st.Late.Max)
		require.Equal(t, 100, st.Leases)
	})
}

func TestConfigNamesAllItsFaults(t *testing.T) {
	_, err := renewal.New(renewal.Config{TTL: time.Millisecond, Driver: 9, Tick: time.Hour, Margin: time.Hour, MaxBatch: -1, Dispatchers: -1, MaxHold: 1})
	for _, field := range []string{"TTL", "Driver", "Tick", "Margin", "MaxBatch", "Dispatchers", "MaxHold"} {
		require.ErrorContains(t, err, "Config."+field+" is ")
	}
}

func TestConcurrentUseKeepsTheAccount(t *testing.T) {
	forEachDriver(t, func(t *testing.T, cfg renewal.Config) {
		cfg.TTL = 100 * time.Millisecond
		s := newStore()
		w, ln := newLane(t, s, cfg)
		var mu sync.Mutex
		released, lost := 0, 0
		var wg sync.WaitGroup
		for g := range 8 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 1))
				for i := range 200 {
					h := s.hold(t, ln, string(rune('a'+g))+string(rune(i)), 100*time.Millisecond, rng.IntN(4) == 0)
					time.Sleep(time.Duration(rng.IntN(150)) * time.Millisecond)
					ok := h.lease.Release()
					mu.Lock()
					if ok {
						released++
						require.Empty(t, h.reasons())
					} else {
						lost++
						require.Len(t, h.reasons(), 1)
					}
					mu.Unlock()
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
