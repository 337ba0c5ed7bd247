package renewal_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// twoLanes returns lanes to two stores.
func twoLanes(t *testing.T, cfg renewal.Config) (a, b *store, w *renewal.Watchdog, from, to *renewal.Lane) {
	a, b = &store{}, &store{}
	w, from = newLane(t, a, cfg)
	to, err := w.Lane("to", b)
	require.NoError(t, err)
	return a, b, w, from, to
}

// migrate makes the key of h live in the store to.
func (h *holder) migrate(to *store) {
	from := h.store
	left := from.timeLeft(h.key)
	from.delete(h.key)
	h.mu.Lock()
	h.store, h.key = to, to.put(left)
	h.mu.Unlock()
}

func TestAMovedLeaseIsRenewedByItsNewLane(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, b, w, from, to := twoLanes(t, cfg)
		hs := a.holdMany(t, from, 100, 30*time.Second)
		hs = append(hs, a.hold(t, from, fixedFor(time.Minute)))
		time.Sleep(25 * time.Second)
		sum := from.Stats().Renewed
		for _, h := range hs {
			h.migrate(b)
			require.True(t, h.lease.Move(to))
			require.True(t, h.lease.Move(to), "again: nothing to do")
		}
		require.Zero(t, from.Stats().Leases)
		require.Equal(t, 101, to.Stats().Leases)
		time.Sleep(65 * time.Second)
		require.Equal(t, sum, from.Stats().Renewed)
		require.InDelta(t, 700, float64(to.Stats().Renewed), 100, "one more than its interval brings: it has another slot there")
		require.Zero(t, to.Stats().Lag.P99, "it kept its due time")
		require.Equal(t, map[renewal.Reason]int{renewal.Expired: 1}, w.Stats().Lost)
		require.True(t, hs[0].lease.Release())
		require.False(t, hs[0].lease.Move(from), "it has ended")
		require.False(t, new(renewal.Lease).Move(to), "it was never held")
	})
}

// TestAMoveInFlightIgnoresTheOldLanesAnswer: the old server says that the key
// is gone, which is true.
func TestAMoveInFlightIgnoresTheOldLanesAnswer(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, b, w, from, to := twoLanes(t, cfg)
		h := a.hold(t, from, renewedFor(30*time.Second))
		a.setFault(func() fault { return fault{before: time.Second, after: 2 * time.Second} })
		for w.Stats().InFlight == 0 {
			time.Sleep(time.Millisecond)
		}
		synctest.Wait() // it is on its way to the store, or there
		h.migrate(b)
		require.True(t, h.lease.Move(to))
		time.Sleep(200 * time.Millisecond)
		require.EqualValues(t, 1, to.Stats().Renewed, "it was due, so it is due at once")
		time.Sleep(time.Minute)
		require.Empty(t, h.reasons())
		require.True(t, h.lease.Valid())
	})
}

// elsewhere is a store that says of every lease that another lane has it.
type elsewhere struct {
	to    *renewal.Lane
	calls atomic.Int32
}

func (e *elsewhere) Renew(_ context.Context, b *renewal.Batch) {
	live, _ := b.Send(func([]int, time.Time) error { return nil })
	e.calls.Add(1)
	for _, i := range live {
		b.Owner(i).(*holder).lease.Move(e.to)
	}
}

// TestALeaseThatIsMovedInCirclesIsSentWithPauses: two stores that do not agree which
// of them has it are not asked as fast as they answer.
func TestALeaseThatIsMovedInCirclesIsSentWithPauses(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, b := &elsewhere{}, &elsewhere{}
		w, from := newLane(t, a, cfg)
		to, err := w.Lane("to", b)
		require.NoError(t, err)
		a.to, b.to = to, from
		h := (&store{}).hold(t, from, renewedFor(30*time.Second))
		time.Sleep(29 * time.Second)
		calls := a.calls.Load() + b.calls.Load()
		require.Greater(t, calls, int32(15), "it is tried until its trust ends")
		require.Less(t, calls, int32(60))
		h.lease.Release()
	})
}

func TestAMoveOutOfAHungLanesQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, w, from, to := twoLanes(t, renewal.Config{})
		hs := a.holdMany(t, from, 10_000, 30*time.Second)
		a.setFault(func() fault { return fault{drop: true} })
		time.Sleep(15 * time.Second)
		require.Greater(t, from.Stats().Queued, 1000)
		for _, h := range hs {
			h.migrate(b)
			require.True(t, h.lease.Move(to))
		}
		require.Zero(t, from.Stats().Queued)
		time.Sleep(time.Minute)
		require.Empty(t, w.Stats().Lost)
		require.Equal(t, 10_000, to.Stats().Leases)
	})
}

func TestAMoveToAClosedLaneIsLost(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		a, _, w, from, to := twoLanes(t, cfg)
		h := a.hold(t, from, renewedFor(30*time.Second))
		w.Close()
		require.False(t, h.lease.Move(to))
		require.Equal(t, []renewal.Reason{renewal.Closed}, h.reasons())

		other, ln := newLane(t, a, cfg)
		h = a.hold(t, ln, renewedFor(30*time.Second))
		require.PanicsWithValue(t, "renewal: bug: Move to a lane of another watchdog", func() { h.lease.Move(to) })
		other.Close()
	})
}

// TestMovesBothWaysAtOnce would deadlock if two lanes were not always locked in
// the same order.
func TestMovesBothWaysAtOnce(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		cfg.TTL = 100 * time.Millisecond
		a := &store{}
		w, one := newLane(t, a, cfg)
		two, err := w.Lane("", a)
		require.NoError(t, err)
		lanes := []*renewal.Lane{one, two}
		hs := a.holdMany(t, one, 50, 100*time.Millisecond)
		var wg sync.WaitGroup
		for g := range 4 {
			wg.Go(func() {
				rng := rand.New(rand.NewPCG(uint64(g), 3))
				for range 2000 {
					h := hs[rng.IntN(len(hs))]
					switch rng.IntN(8) {
					case 0:
						h.lease.Extend(time.Now(), 100*time.Millisecond)
					case 1:
						h.lease.SetFixed(false)
					case 2:
						time.Sleep(time.Millisecond)
					default:
						h.lease.Move(lanes[rng.IntN(2)])
					}
				}
			})
		}
		wg.Wait()
		require.Equal(t, 50, w.Stats().Leases)
		released := 0
		for _, h := range hs {
			if h.lease.Release() {
				released++
			}
		}
		require.Equal(t, 50, released)
		require.Zero(t, one.Stats().Leases)
		require.Zero(t, two.Stats().Leases)
	})
}
