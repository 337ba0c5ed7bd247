package renewal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// another returns a holder of the same key.
func (h *holder) another() *holder { return &holder{store: h.store, key: h.key} }

// TestALeaseThatIsPassedOnInFlightGetsTheAnswer: the answer to a request of the old owner, yes or
// no, counts for the new owner.
func TestALeaseThatIsPassedOnInFlightGetsTheAnswer(t *testing.T) {
	for _, there := range []bool{true, false} {
		forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
			s := &store{}
			w, ln := newLane(t, s, cfg)
			h := s.hold(t, ln, renewedFor(30*time.Second))
			if !there {
				s.delete(h.key)
			}
			s.setFault(func() fault { return fault{before: time.Second, after: 2 * time.Second} })
			for w.Stats().InFlight == 0 {
				time.Sleep(time.Millisecond)
			}
			synctest.Wait()
			s.setFault(func() fault { return fault{} })
			next := h.another()
			require.True(t, h.lease.Pass(&next.lease, next))
			require.False(t, h.lease.Valid())
			before := next.lease.Deadline()
			time.Sleep(4 * time.Second)
			require.Empty(t, h.reasons(), "it has been released")
			if there {
				require.Empty(t, next.reasons())
				require.True(t, next.lease.Deadline().After(before))
				time.Sleep(time.Minute)
				require.True(t, next.lease.Release(), "it is renewed")
			} else {
				require.Equal(t, []renewal.Reason{renewal.NotOwner}, next.reasons())
			}
			require.Zero(t, w.Stats().Leases)
		})
	}
}

func TestMaxHoldCountsAnewForWhomALeaseIsPassedTo(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = time.Minute
		s := &store{}
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(20 * time.Second)
		next := h.another()
		require.True(t, h.lease.Pass(&next.lease, next))
		time.Sleep(59 * time.Second)
		require.True(t, next.lease.Valid())
		time.Sleep(2 * time.Second)
		require.Equal(t, []renewal.Reason{renewal.MaxHold}, next.reasons())
		require.Empty(t, h.reasons())
	})
}

func TestALeaseThatIsNotToBeRenewedIsNotPassedOn(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.MaxHold = time.Minute
		s := &store{}
		_, ln := newLane(t, s, cfg)
		fixed, old := s.hold(t, ln, fixedFor(30*time.Second)), s.hold(t, ln, renewedFor(30*time.Second))
		next := fixed.another()
		require.False(t, fixed.lease.Pass(&next.lease, next))
		require.True(t, fixed.lease.Release())
		time.Sleep(45 * time.Second) // its trust reaches its MaxHold
		require.False(t, old.lease.Pass(&next.lease, next))
		require.True(t, old.lease.Valid())
		require.True(t, old.lease.Release())
		require.False(t, old.lease.Pass(&next.lease, next), "it has ended")
		require.False(t, new(renewal.Lease).Pass(&next.lease, next), "it was never held")
		require.Nil(t, next.lease.Owner())
	})
}

// TestALeaseThatIsPassedOnIsVerifiedAllTheSame: a Verify that was called for the old owner is not
// forgotten. Nothing else makes the Renewer ask about a lease that is not renewed any more.
func TestALeaseThatIsPassedOnIsVerifiedAllTheSame(t *testing.T) {
	for _, there := range []bool{true, false} {
		forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
			s := &store{}
			_, ln := newLane(t, s, cfg)
			h := s.hold(t, ln, renewedFor(30*time.Second))
			if !there {
				s.delete(h.key)
			}
			h.lease.Verify()
			next := h.another()
			require.True(t, h.lease.Pass(&next.lease, next))
			next.lease.SetFixed(true)
			time.Sleep(20 * time.Second) // it is asked about before its end
			if there {
				require.True(t, next.lease.Valid())
			} else {
				require.Equal(t, []renewal.Reason{renewal.NotOwner}, next.reasons())
			}
			require.Empty(t, h.reasons())
		})
	}
}

// TestALeaseThatIsPassedOnEndsByTheSameClocks: the new owner relies on it for exactly as
// long as the old one could, by the wall clock too.
func TestALeaseThatIsPassedOnEndsByTheSameClocks(t *testing.T) {
	for slept, valid := range map[time.Duration]bool{25 * time.Second: true, 35 * time.Second: false} {
		onSleeper(t, func(t *testing.T, s *sleeper, _ *renewal.Watchdog, ln *renewal.Lane) {
			h := s.hold(t, ln, renewedFor(30*time.Second))
			deadline := h.lease.Deadline()
			next := h.another()
			next.store = s.store
			require.True(t, h.lease.Pass(&next.lease, next))
			require.Equal(t, deadline, next.lease.Deadline())
			s.suspend(slept)
			require.Equal(t, valid, next.lease.Valid(), slept)
		})
	}
}

// TestALeaseThatIsOverIsNotPassedOn: its trust has ended by the clock, although Lost was not called yet.
func TestALeaseThatIsOverIsNotPassedOn(t *testing.T) {
	onSleeper(t, func(t *testing.T, s *sleeper, _ *renewal.Watchdog, ln *renewal.Lane) {
		h := s.hold(t, ln, renewedFor(30*time.Second))
		next := h.another()
		s.suspend(time.Minute)
		require.Empty(t, h.reasons())
		require.False(t, h.lease.Pass(&next.lease, next))
		require.Nil(t, next.lease.Owner())
	})
}

// TestALeaseThatIsPassedOnKeepsItsSlot: it is renewed at the same moments, and leaves its
// place when it ends.
func TestALeaseThatIsPassedOnKeepsItsSlot(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		require.Equal(t, 1, ln.InSlots())
		next := h.another()
		require.True(t, h.lease.Pass(&next.lease, next))
		time.Sleep(time.Minute)
		require.Equal(t, 1, ln.InSlots())
		require.True(t, next.lease.Release())
		require.Zero(t, ln.InSlots())
	})
}
