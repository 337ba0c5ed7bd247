package renewal_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

func TestConfirmAsksOnceAndSoon(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		hs := append(s.holdMany(t, ln, 10, 30*time.Second), s.hold(t, ln, fixedFor(time.Minute)), s.hold(t, ln, fixedFor(time.Minute)))
		left := hs[10].lease.Deadline()
		s.delete(hs[0].key)
		s.delete(hs[11].key)
		for _, h := range hs {
			h.lease.Confirm()
			h.lease.Confirm() // it is queued already, or soon
		}
		time.Sleep(100 * time.Millisecond)
		require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 2}, w.Stats().Lost)
		require.InDelta(t, 9, s.countRenewed(), 1, "each that is renewed once, and some because they are due")
		require.Equal(t, left, hs[10].lease.Deadline(), "a fixed lease is not extended")
		hs[0].lease.Confirm()
		require.NotPanics(t, new(renewal.Lease).Confirm)
		time.Sleep(10 * time.Second)
		require.InDelta(t, 18, s.countRenewed(), 2, "the others keep their due times")
	})
}

// TestConfirmOfALeaseThatIsAskedAboutTakesNoAnswerAway: Verify would ignore the answer that is under
// way. If the caller called Verify more often than a slow store answers, the lease would be lost.
func TestConfirmOfALeaseThatIsAskedAboutTakesNoAnswerAway(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		_, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: 3 * time.Second} })
		for range 120 {
			time.Sleep(time.Second)
			h.lease.Confirm()
		}
		require.True(t, h.lease.Valid())
		require.LessOrEqual(t, s.countRenewed(), 41, "one at a time")
	})
}

// TestAYesThatMayBeOlderThanTheDoubtIsAskedForAgain once.
func TestAYesThatMayBeOlderThanTheDoubtIsAskedForAgain(t *testing.T) {
	for gone, found := range map[bool]int{false: 2, true: 1} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{}
			w, ln := newLane(t, s, renewal.Config{})
			h := s.hold(t, ln, renewedFor(30*time.Second))
			s.setFault(func() fault { return fault{after: time.Second} })
			for w.Stats().InFlight == 0 || s.countRenewed() == 0 {
				time.Sleep(time.Millisecond)
			}
			if gone {
				s.delete(h.key)
			}
			s.setFault(nil)
			h.lease.Confirm()
			time.Sleep(2 * time.Second)
			require.Equal(t, !gone, h.lease.Valid())
			require.Equal(t, found, s.countRenewed())
		})
	}
}
