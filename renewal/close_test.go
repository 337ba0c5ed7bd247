package renewal_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

func TestCloseTellsEveryLeaseAndStopsTwice(t *testing.T) {
	// How long after the leases were taken, and what the store does by then.
	states := map[string]struct {
		after time.Duration
		fault *fault
	}{
		"at once":   {},
		"waiting":   {after: time.Minute},
		"inBatch":   {after: time.Minute, fault: &fault{drop: true}},
		"dialling":  {after: time.Minute, fault: &fault{dial: 7 * time.Second}},
		"answered":  {after: time.Minute, fault: &fault{after: time.Millisecond}},
		"many lost": {after: 25 * time.Second, fault: &fault{drop: true}},
	}
	for name, st := range states {
		t.Run(name, func(t *testing.T) {
			forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
				s := &store{}
				w, ln := newLane(t, s, cfg)
				hs := s.holdMany(t, ln, 100, 30*time.Second)
				hs = append(hs, s.hold(t, ln, fixedFor(time.Hour)))
				time.Sleep(st.after)
				if st.fault != nil {
					s.setFault(func() fault { return *st.fault })
					time.Sleep(8 * time.Second) // some wait, some are queued, some fly
				}
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(w.Close)
				}
				wg.Wait()
				for _, h := range hs {
					require.Len(t, h.reasons(), 1)
					require.Equal(t, renewal.Closed, h.reasons()[0])
					require.False(t, h.lease.Valid())
					require.False(t, h.lease.Release())
				}
				require.Zero(t, w.Stats().Leases)
				sent := s.countRenewed()
				time.Sleep(time.Hour) // the store's stragglers
				require.InDelta(t, sent, s.countRenewed(), 100, "what was on the wire, and no more")
			})
		})
	}
}

func TestCloseWithoutLeasesAndBeforeAnyLane(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		w, err := renewal.New(cfg)
		require.NoError(t, err)
		w.Close()
		w.Close()
		w, ln := newLane(t, &store{}, cfg)
		w.Close()
		require.Equal(t, "test", ln.Name())
	})
}

// TestNothingIsSentAfterCloseTold: a connection that takes no bytes for a while
// delays the telling, not for ever.
func TestNothingIsSentAfterCloseTold(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		var written time.Time
		w, ln := newLane(t, renewFunc(func(_ context.Context, b *renewal.Batch) {
			_, _ = b.Send(func([]int, time.Time) error {
				time.Sleep(500 * time.Millisecond)
				written = time.Now()
				return errNetwork
			})
		}), cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		for w.Stats().InFlight == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // it is on its way to the store, or there
		w.Close()
		require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
		require.False(t, h.toldAt().Before(written))
	})
}

// hungWriter is a Renewer whose writes hang until free is closed, or, if it heeds its context, until
// that ends.
type hungWriter struct {
	heeds   bool
	free    chan struct{}
	writing atomic.Int32
}

func (r *hungWriter) Renew(ctx context.Context, b *renewal.Batch) {
	ended := ctx.Done()
	if !r.heeds {
		ended = nil
	}
	_, _ = b.Send(func([]int, time.Time) error {
		r.writing.Add(1)
		defer r.writing.Add(-1)
		select {
		case <-r.free:
		case <-ended:
		}
		return errNetwork
	})
}

// await waits until n requests are being written.
func (r *hungWriter) await(n int32) {
	for r.writing.Load() < n {
		time.Sleep(time.Millisecond)
	}
	synctest.Wait()
}

// TestCloseTellsAtOnceWhoIsNotBeingWritten: a connection that takes no bytes delays only those whose
// requests it should take.
func TestCloseTellsAtOnceWhoIsNotBeingWritten(t *testing.T) {
	closes := map[string]func(*renewal.Watchdog, ...*renewal.Lane){
		"watchdog": func(w *renewal.Watchdog, _ ...*renewal.Lane) { w.Close() },
		"lanes": func(_ *renewal.Watchdog, lanes ...*renewal.Lane) {
			var wg sync.WaitGroup
			for _, ln := range lanes {
				wg.Go(ln.Close)
			}
			wg.Wait()
		},
	}
	for name, closeAll := range closes {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r := &store{}, &hungWriter{free: make(chan struct{})}
				w, ln := newLane(t, r, renewal.Config{})
				written := s.hold(t, ln, renewedFor(30*time.Second))
				r.await(1)
				other := s.hold(t, ln, fixedFor(time.Second))
				began := time.Now()
				var wg sync.WaitGroup
				wg.Go(func() { closeAll(w, ln) })
				synctest.Wait()
				require.Equal(t, []renewal.Reason{renewal.Closed}, other.reasons())
				require.Equal(t, began, other.toldAt())
				require.Empty(t, written.reasons())
				require.False(t, written.lease.Valid())
				time.Sleep(2 * time.Second)
				require.Empty(t, written.reasons())
				close(r.free)
				wg.Wait()
				require.Equal(t, []renewal.Reason{renewal.Closed}, written.reasons())
				require.Equal(t, 2*time.Second, written.toldAt().Sub(began))
			})
		})
		t.Run(name+", never written", func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, r, quick := &store{}, &hungWriter{free: make(chan struct{})}, &hungWriter{free: make(chan struct{})}
				w, late := newLane(t, r, renewal.Config{MaxBatch: 1})
				early, err := w.Lane("early", r)
				require.NoError(t, err)
				soon, err := w.Lane("soon", quick)
				require.NoError(t, err)
				hs := s.holdMany(t, late, 2, 30*time.Second)
				hs = append(hs, s.hold(t, early, renewedFor(20*time.Second)), s.hold(t, soon, renewedFor(30*time.Second)))
				r.await(3)
				quick.await(1)
				var wg sync.WaitGroup
				began := time.Now()
				wg.Go(func() { closeAll(w, late, early, soon) })
				time.Sleep(time.Second)
				close(quick.free)
				synctest.Wait()
				for _, h := range hs[:3] {
					require.Empty(t, h.reasons())
				}
				require.Equal(t, time.Second, hs[3].toldAt().Sub(began), "it waits for no other")
				for _, h := range hs[:3] {
					end := h.lease.Deadline()
					time.Sleep(time.Until(end) + time.Millisecond)
					require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
					require.Equal(t, end, h.toldAt(), "its trust ends, though it is being written")
				}
				close(r.free)
				wg.Wait()
			})
		})
	}
}

// TestNobodyOfABatchIsToldAfterTheFirstTrustOfItEnds, and nobody who is in a batch that is not being written waits.
func TestNobodyOfABatchIsToldAfterTheFirstTrustOfItEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &store{}, &hungWriter{free: make(chan struct{})}
		w, ln := newLane(t, r, renewal.Config{})
		mute := &store{fault: func() fault { return fault{drop: true} }}
		other, err := w.Lane("other", mute)
		require.NoError(t, err)
		long, short := s.hold(t, ln, fixedFor(30*time.Second)), s.hold(t, ln, fixedFor(20*time.Second))
		sent := mute.hold(t, other, fixedFor(time.Minute))
		other.Verify()
		ln.Verify() // both in one batch
		r.await(1)
		require.Equal(t, 3, w.Stats().InFlight)
		end, began := short.lease.Deadline(), time.Now()
		var wg sync.WaitGroup
		wg.Go(w.Close)
		synctest.Wait()
		require.Equal(t, began, sent.toldAt())
		time.Sleep(time.Until(end) - time.Nanosecond)
		require.Empty(t, long.reasons())
		time.Sleep(2 * time.Nanosecond)
		require.Equal(t, end, long.toldAt())
		require.Equal(t, end, short.toldAt())
		close(r.free)
		wg.Wait()
	})
}

// TestCloseOfALaneEndsItsWrites, and those of no other lane.
func TestCloseOfALaneEndsItsWrites(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, r := &store{}, &hungWriter{heeds: true, free: make(chan struct{})}
		w, ln := newLane(t, r, renewal.Config{})
		other, err := w.Lane("other", r)
		require.NoError(t, err)
		h, kept := s.hold(t, ln, renewedFor(30*time.Second)), s.hold(t, other, renewedFor(30*time.Second))
		r.await(2)
		began := time.Now()
		ln.Close()
		require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
		require.Equal(t, began, h.toldAt())
		synctest.Wait()
		require.EqualValues(t, 1, r.writing.Load())
		require.True(t, kept.lease.Valid())
	})
}

// TestAnOwnerThatPanicsAtCloseLeavesTheOthersTold, those that are told later too.
func TestAnOwnerThatPanicsAtCloseLeavesTheOthersTold(t *testing.T) {
	for _, fixed := range []bool{true, false} { // fixed: it is told at once; else: it is the first that is told later
		synctest.Test(t, func(t *testing.T) {
			s, r := &store{}, &hungWriter{free: make(chan struct{})}
			_, ln := newLane(t, r, renewal.Config{MaxBatch: 1, Dispatchers: 3})
			hs := s.holdMany(t, ln, 2, 30*time.Second)
			var lease renewal.Lease
			panics := ownerFunc(func(renewal.Reason) { panic("always") })
			require.NoError(t, ln.Hold(&lease, panics, renewal.Terms{Stamp: time.Now(), TTL: 20 * time.Second, Fixed: fixed}))
			if fixed {
				r.await(2)
			} else {
				r.await(3)
			}
			var wg sync.WaitGroup
			wg.Go(func() { require.Panics(t, ln.Close) })
			time.Sleep(25 * time.Second)
			close(r.free)
			wg.Wait()
			for _, h := range hs {
				require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())
			}
		})
	}
}

// TestCloseWhileLeasesComeAndGo finds each lease ended once.
func TestCloseWhileLeasesComeAndGo(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.TTL = 100 * time.Millisecond
		s := &store{}
		w, ln := newLane(t, s, cfg)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for {
					h := &holder{key: s.put(100 * time.Millisecond), store: s}
					err := ln.Hold(&h.lease, h, renewal.Terms{Stamp: time.Now(), TTL: 100 * time.Millisecond})
					if err != nil {
						if !h.lease.Deadline().IsZero() || len(h.reasons()) > 0 {
							t.Error("refused, and held all the same")
						}
						return
					}
					time.Sleep(time.Millisecond)
					released := h.lease.Release()
					time.Sleep(time.Millisecond)
					if released == (len(h.reasons()) == 1) {
						t.Errorf("Release says %v, told %v", released, h.reasons())
					}
				}
			})
		}
		time.Sleep(time.Second)
		w.Close()
		wg.Wait()
		require.Zero(t, w.Stats().Leases)
	})
}
