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
