package renewal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// TestVerifyFindsWhatTheStoreHasLost: the store behind the lane failed over to
// a replica that did not have every key.
func TestVerifyFindsWhatTheStoreHasLost(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		if cfg.MaxBatch == 0 {
			cfg.MaxBatch = 10
		}
		s := &store{}
		w, ln := newLane(t, s, cfg)
		kept := s.holdMany(t, ln, 300, 30*time.Second)
		gone := s.holdMany(t, ln, 10, 30*time.Second)
		fixed, goneFixed := s.hold(t, ln, fixedFor(time.Minute)), s.hold(t, ln, fixedFor(time.Minute))
		left := fixed.lease.Deadline()
		for _, h := range append(gone, goneFixed) {
			s.delete(h.key)
		}
		ln.Verify()
		time.Sleep(100 * time.Millisecond)
		for _, h := range append(gone, goneFixed) {
			require.Equal(t, []renewal.Reason{renewal.NotOwner}, h.reasons())
		}
		require.InDelta(t, 315, float64(s.countRenewed()), 15, "each once, and some because they are due")
		require.Equal(t, left, fixed.lease.Deadline(), "a fixed lease is not extended")
		require.LessOrEqual(t, s.timeLeft(fixed.key), time.Minute)
		// They kept their due times, so they stay spread and are not late.
		sum := s.countRenewed()
		for range 10 {
			time.Sleep(time.Second)
			require.Less(t, s.countRenewed()-sum, 100, "bunched")
			sum = s.countRenewed()
		}
		require.InDelta(t, 615, float64(sum), 20)
		time.Sleep(51 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, fixed.reasons())
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 11, renewal.Expired: 1}, w.Stats().Lost)
		require.Zero(t, w.Stats().Lag.P99)
		for _, h := range kept {
			require.True(t, h.lease.Valid())
		}
	})
}

// TestAnAnswerFromBeforeVerifyIsAskedForAgain: the answer may be the old server's.
func TestAnAnswerFromBeforeVerifyIsAskedForAgain(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: time.Second} })
		for w.Stats().InFlight == 0 || s.countRenewed() == 0 {
			time.Sleep(time.Millisecond)
		}
		s.delete(h.key) // the old server had it and said yes
		s.setFault(nil)
		ln.Verify()
		time.Sleep(2 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.NotOwner}, h.reasons())
	})
}

// TestAVerifyAtTheInstantOfAnotherOneCounts: the server was replaced twice, and the answer is that of the first
// successor.
func TestAVerifyAtTheInstantOfAnotherOneCounts(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		written := make(chan time.Time, 100)
		s.write = func(int) { written <- time.Now() }
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Second)
		synctest.Wait()
		for len(written) > 0 {
			<-written
		}
		s.setFault(func() fault { return fault{after: time.Millisecond} })
		ln.Verify()
		<-written
		synctest.Wait()
		s.delete(h.key)
		s.setFault(nil)
		ln.Verify()
		time.Sleep(time.Second)
		synctest.Wait()
		require.False(t, h.lease.Valid())
	})
}

// TestAnAnswerFromTheInstantOfVerifyIsAskedForAgain once: it may be the old server's, too.
func TestAnAnswerFromTheInstantOfVerifyIsAskedForAgain(t *testing.T) {
	for gone, found := range map[bool]int{false: 2, true: 1} {
		forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
			s := &store{}
			written := make(chan time.Time, 100)
			s.write = func(int) { written <- time.Now() }
			_, ln := newLane(t, s, cfg)
			h := s.hold(t, ln, renewedFor(30*time.Second))
			s.setFault(func() fault { return fault{after: time.Millisecond} })
			at := <-written
			synctest.Wait() // the old server has said yes
			if gone {
				s.delete(h.key)
			}
			s.setFault(nil)
			ln.Verify()
			require.Equal(t, at, time.Now())
			time.Sleep(time.Second)
			synctest.Wait()
			require.Equal(t, !gone, h.lease.Valid())
			require.Equal(t, found, s.countRenewed())
		})
	}
}

func TestAnAnswerToARequestThatIsWrittenAfterVerifyCounts(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{dial: time.Second} })
		for w.Stats().InFlight == 0 {
			time.Sleep(time.Millisecond)
		}
		ln.Verify()
		s.setFault(nil)
		time.Sleep(3 * time.Second)
		synctest.Wait()
		require.True(t, h.lease.Valid())
		require.Equal(t, 1, s.countRenewed(), "and the store is not asked again")
	})
}

// TestALeaseThatWasAskedForBeforeVerifyIsVerifiedToo: the old server granted it, and its holder is told
// of that only after the lane was verified.
func TestALeaseThatWasAskedForBeforeVerifyIsVerifiedToo(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		for name, terms := range map[string]renewal.Terms{"renewed": renewedFor(30 * time.Second), "fixed": fixedFor(time.Minute)} {
			terms.Stamp = time.Now()
			gone, kept := &holder{key: s.put(terms.TTL), store: s}, &holder{key: s.put(terms.TTL), store: s}
			s.delete(gone.key)
			ln.Verify()
			require.NoError(t, ln.Hold(&gone.lease, gone, terms))
			require.NoError(t, ln.Hold(&kept.lease, kept, terms))
			later := s.hold(t, ln, terms)
			asked := s.countRenewed()
			time.Sleep(time.Second)
			require.Equal(t, []renewal.Reason{renewal.NotOwner}, gone.reasons(), name)
			require.Empty(t, kept.reasons(), name)
			require.Empty(t, later.reasons(), name)
			require.Less(t, s.countRenewed()-asked, 10, "and not again and again")
		}
	})
}

func TestAVerificationThatFailsIsTriedAgain(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, &boundedRenewer{s, time.Second}, cfg)
		fixed, kept := s.hold(t, ln, fixedFor(time.Minute)), s.hold(t, ln, fixedFor(time.Minute))
		s.delete(fixed.key)
		s.blackHole(5 * time.Second)
		ln.Verify()
		time.Sleep(10 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.NotOwner}, fixed.reasons())
		require.True(t, kept.lease.Valid())
		time.Sleep(50 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.Expired}, kept.reasons())
	})
}

func TestVerifyOfOneLease(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, b, w, from, to := twoLanes(t, cfg)
		hs := a.holdMany(t, from, 10, 30*time.Second)
		hs = append(hs, a.hold(t, from, fixedFor(time.Minute)))
		for _, h := range hs {
			h.migrate(b)
		}
		b.delete(hs[0].key)
		b.delete(hs[10].key)
		for _, h := range hs {
			require.True(t, h.lease.Move(to))
			h.lease.Verify()
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 2}, w.Stats().Lost)
		count := b.countRenewed()
		there := len(hs) - 2
		require.GreaterOrEqual(t, count, there)
		require.LessOrEqual(t, count, 2*there, "a lease is asked about again if it was in flight at Verify")
		require.True(t, hs[1].lease.Release())
		hs[1].lease.Verify()
		require.NotPanics(t, new(renewal.Lease).Verify)
		require.True(t, hs[2].lease.Valid())
	})
}

func TestVerifyOfAHungLaneKeepsTrustExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		_, ln := newLane(t, &boundedRenewer{s, 20 * time.Second}, renewal.Config{})
		hs := append(s.holdMany(t, ln, 1000, 30*time.Second), s.hold(t, ln, fixedFor(25*time.Second)))
		s.blackHole(time.Hour)
		for range 3 {
			ln.Verify()
			time.Sleep(time.Second)
		}
		time.Sleep(30 * time.Second)
		for _, h := range hs {
			require.Len(t, h.reasons(), 1)
			require.Positive(t, h.spared, "told before the store's expiry")
		}
	})
}

func TestAClosedLaneIsForgotten(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, b, w, from, to := twoLanes(t, cfg)
		h, left := a.hold(t, from, renewedFor(30*time.Second)), a.hold(t, from, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		h.migrate(b)
		require.True(t, h.lease.Move(to))
		before := w.Stats()
		from.Close()
		from.Close()
		require.Equal(t, []renewal.Reason{renewal.Closed}, left.reasons())
		after := w.Stats()
		require.Equal(t, before.Renewed, after.Renewed, "what was counted stays")
		require.Equal(t, 1, after.Leases)
		require.Equal(t, 1, after.Lost[renewal.Closed])
		var lease renewal.Lease
		require.ErrorIs(t, from.Hold(&lease, h, renewal.Terms{Stamp: time.Now(), TTL: time.Minute}), renewal.ErrClosed)
		time.Sleep(time.Minute)
		require.True(t, h.lease.Valid())
		third, err := w.Lane("third", a)
		require.NoError(t, err)
		require.True(t, h.lease.Move(third), "its locks are ordered after all others")
	})
}

// TestAChangeOfTheLeaseDoesNotPutOffItsVerify: an Unlock or a re-entry may come between.
func TestAChangeOfTheLeaseDoesNotPutOffItsVerify(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		for _, fixed := range []bool{true, false} {
			h := s.hold(t, ln, renewedFor(30*time.Second))
			h.lease.SetFixed(!fixed)
			time.Sleep(time.Second)
			s.delete(h.key)
			h.lease.Verify()
			h.lease.SetFixed(fixed)
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			require.Equal(t, []renewal.Reason{renewal.NotOwner}, h.reasons(), "fixed %v", fixed)
		}
	})
}

// TestALeaseThatIsNotRenewedAnyMoreIsAskedAboutAllTheSame: the store was to be asked about it, and has not
// answered when it becomes fixed, or trusted to the end of its longest hold.
func TestALeaseThatIsNotRenewedAnyMoreIsAskedAboutAllTheSame(t *testing.T) {
	type world struct {
		a, b     *store
		w        *renewal.Watchdog
		from, to *renewal.Lane
		h        *holder
	}
	fly := func(x *world, f fault) { // until the lease is in a batch, whose answer is a yes if there is one
		x.a.setFault(func() fault { return f })
		for x.w.Stats().InFlight == 0 || !f.drop && x.a.countRenewed() == 0 {
			time.Sleep(10 * time.Millisecond)
		}
		synctest.Wait()
		x.a.delete(x.h.key)
	}
	verifyInVain := func(x *world, fails uint64) {
		x.a.setFault(func() fault { return fault{drop: true} })
		x.a.delete(x.h.key)
		x.from.Verify()
		for st := x.w.Stats(); st.Retried < fails || st.InFlight+st.Queued > 0; st = x.w.Stats() {
			time.Sleep(time.Millisecond)
		}
	}
	extend := func(t *testing.T, x *world) { require.True(t, x.h.lease.Extend(time.Now(), time.Hour)) }
	for name, before := range map[string]func(*testing.T, *world){
		"verified": func(_ *testing.T, x *world) {
			x.a.delete(x.h.key)
			x.from.Verify()
			x.h.lease.SetFixed(true)
		},
		"verified, fixed and renewed": func(_ *testing.T, x *world) {
			x.a.delete(x.h.key)
			x.from.Verify()
			x.h.lease.SetFixed(true)
			x.h.lease.SetFixed(false)
		},
		"in flight when verified": func(_ *testing.T, x *world) {
			fly(x, fault{after: 500 * time.Millisecond})
			x.from.Verify()
			x.h.lease.SetFixed(true)
		},
		"in flight and written when it is fixed": func(_ *testing.T, x *world) {
			x.a.setFault(func() fault { return fault{dial: 500 * time.Millisecond, drop: true} })
			for x.w.Stats().InFlight == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			x.a.delete(x.h.key)
			x.h.lease.Confirm()
			time.Sleep(700 * time.Millisecond)
			x.h.lease.SetFixed(true)
		},
		"in flight when doubted": func(_ *testing.T, x *world) {
			fly(x, fault{after: 500 * time.Millisecond})
			x.h.lease.Confirm()
			x.h.lease.SetFixed(true)
		},
		"verified without an answer": func(_ *testing.T, x *world) {
			verifyInVain(x, 4)
			x.h.lease.SetFixed(true)
		},
		"verified without an answer, and not renewed by then": func(t *testing.T, x *world) {
			fly(x, fault{drop: true})
			x.from.Verify() // it is in flight
			extend(t, x)
			for x.w.Stats().Retried == 0 {
				time.Sleep(time.Millisecond)
			}
		},
		"moved out of the queue": func(t *testing.T, x *world) {
			x.from.Verify()
			require.True(t, x.h.lease.Move(x.to))
			x.h.lease.SetFixed(true)
		},
		"moved out of a batch": func(t *testing.T, x *world) {
			fly(x, fault{after: 500 * time.Millisecond})
			x.from.Verify()
			require.True(t, x.h.lease.Move(x.to))
			x.h.lease.SetFixed(true)
		},
		"moved out of a batch, and not renewed by then": func(t *testing.T, x *world) {
			fly(x, fault{after: 500 * time.Millisecond})
			x.from.Verify()
			extend(t, x)
			require.True(t, x.h.lease.Move(x.to))
		},
	} {
		t.Run(name, func(t *testing.T) {
			forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
				cfg.MaxHold = 50 * time.Second
				x := &world{a: &store{}, b: &store{expiry: make([]time.Time, 10)}} // the other store has no key
				w, from := newLane(t, &boundedRenewer{x.a, time.Second}, cfg)
				to, err := w.Lane("to", x.b)
				require.NoError(t, err)
				x.w, x.from, x.to = w, from, to
				x.h = x.a.hold(t, from, renewedFor(30*time.Second))
				before(t, x)
				x.a.setFault(nil)
				time.Sleep(3 * time.Second)
				require.Equal(t, []renewal.Reason{renewal.NotOwner}, x.h.reasons())
			})
		})
	}
}

// TestALeaseThatIsFixedInTheQueueIsAskedAboutOnce if that was wanted: all dispatchers are busy meanwhile.
func TestALeaseThatIsFixedInTheQueueIsAskedAboutOnce(t *testing.T) {
	confirm := func(_ *renewal.Lane, l *renewal.Lease) { l.Confirm() }
	verify := func(ln *renewal.Lane, _ *renewal.Lease) { ln.Verify() }
	for _, c := range []struct {
		ask  func(*renewal.Lane, *renewal.Lease)
		gone bool
		want int // questions
	}{
		{confirm, true, 1},
		{confirm, false, 1},
		{verify, true, 1},
		{verify, false, 1},
		{func(*renewal.Lane, *renewal.Lease) {}, false, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			asked := map[int]int{}
			s := &store{}
			s.write = func(key int) { asked[key]++ }
			w, ln := newLane(t, s, renewal.Config{MaxBatch: 1, Dispatchers: 1})
			hs := s.holdMany(t, ln, 2, 30*time.Second)
			ln.Verify() // its groups are used again
			time.Sleep(200 * time.Millisecond)
			synctest.Wait()
			clear(asked)
			s.setFault(func() fault { return fault{after: 12 * time.Second} })
			for w.Stats().Queued == 0 {
				time.Sleep(10 * time.Millisecond)
			}
			synctest.Wait()
			h := hs[0]
			if asked[h.key] > 0 { // it is in the batch
				h = hs[1]
			}
			require.Zero(t, asked[h.key])
			if c.gone {
				s.delete(h.key)
			}
			s.setFault(nil)
			c.ask(ln, &h.lease)
			left := h.lease.Deadline()
			h.lease.SetFixed(true)
			time.Sleep(13 * time.Second)
			synctest.Wait()
			require.Equal(t, c.gone, !h.lease.Valid())
			require.Equal(t, left, h.lease.Deadline())
			require.Equal(t, c.want, asked[h.key])
		})
	}
}
