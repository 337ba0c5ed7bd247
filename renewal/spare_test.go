package renewal

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// silent is an owner that is told of nothing, and a Renewer that does not answer.
type silent struct{}

func (silent) Lost(Reason)                         {}
func (silent) Renew(ctx context.Context, _ *Batch) { <-ctx.Done() }

// pair takes a lease and releases it.
func pair(t *testing.T, ln *Lane, terms Terms) {
	var l Lease
	terms.Stamp = time.Now()
	require.NoError(t, ln.Hold(&l, silent{}, terms))
	require.True(t, l.Release())
}

// silentLane returns a Watchdog and a lane of it whose renewals are not answered. The caller closes the Watchdog.
func silentLane(t *testing.T) (*Watchdog, *Lane) {
	w, err := New(Config{})
	require.NoError(t, err)
	ln, err := w.Lane("", silent{})
	require.NoError(t, err)
	return w, ln
}

// TestTheTimerOfALeaseThatIsReleasedServesTheNext: it stays armed, and is moved only if the next lease needs it
// earlier.
func TestTheTimerOfALeaseThatIsReleasedServesTheNext(t *testing.T) {
	for name, asleep := range map[string]time.Duration{"": 0, "after a sleep of the machine": time.Minute} {
		for _, fixed := range []bool{false, true} {
			t.Run(map[bool]string{false: "renewed ", true: "fixed "}[fixed]+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w, err := New(Config{Rand: rand.NewPCG(1, 2)}) // the slots begin at no time of the test
					require.NoError(t, err)
					defer w.Close()
					var slept atomic.Int64
					read := func() time.Duration { return time.Duration(slept.Load()) }
					w.SetClocks(func(time.Time) time.Duration { return read() }, read)
					n := &note{make(chan time.Time, 100)}
					ln, err := w.Lane("", n)
					require.NoError(t, err)
					terms := Terms{TTL: 30 * time.Second, Fixed: fixed}
					pair(t, ln, terms)
					slept.Store(int64(asleep))
					pair(t, ln, terms)
					before, at := w.wheel.Stats(), ln.spare[0].timer.Deadline()
					require.Equal(t, 1, before.Pending)
					for range 100 {
						time.Sleep(time.Millisecond)
						pair(t, ln, terms)
					}
					after := w.wheel.Stats().Since(before)
					require.Zero(t, after.Armed+after.Stopped+after.Fired)
					require.Equal(t, at, ln.spare[0].timer.Deadline(), "it was not moved")

					// The next lease ends earlier, or later than the timer's time.
					for _, ttl := range []time.Duration{100 * time.Millisecond, 30 * time.Second, time.Minute, time.Second} {
						var l Lease
						require.NoError(t, ln.Hold(&l, n, Terms{Stamp: time.Now(), TTL: ttl, Fixed: true}))
						end := l.Deadline()
						told := <-n.at
						require.GreaterOrEqual(t, told.Sub(end), time.Duration(0))
						require.LessOrEqual(t, told.Sub(end), w.cfg.Tick)
						pair(t, ln, terms)
					}
					var l Lease
					require.NoError(t, ln.Hold(&l, n, Terms{Stamp: time.Now(), TTL: 30 * time.Second}))
					ln.mu.Lock()
					due := time.Duration(l.due - w.now())
					ln.mu.Unlock()
					began := time.Now()
					require.LessOrEqual(t, (<-n.at).Sub(began.Add(due)), w.cfg.Tick, "it is renewed in time")
				})
			})
		}
	}
}

// TestAnIdleTimerFiresOnce, and the wheel has nothing to do any more.
func TestAnIdleTimerFiresOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ln := silentLane(t)
		defer w.Close()
		for range 2 * maxSpare { // more at once than are kept
			var ls [2 * maxSpare]Lease
			for i := range ls {
				require.NoError(t, ln.Hold(&ls[i], silent{}, Terms{Stamp: time.Now(), TTL: time.Duration(i+1) * time.Second, Fixed: true}))
			}
			for i := range ls {
				require.True(t, ls[i].Release())
			}
		}
		st := w.wheel.Stats()
		require.Equal(t, maxSpare, st.Pending)
		time.Sleep(time.Hour)
		st = w.wheel.Stats().Since(st)
		require.Zero(t, st.Pending)
		require.EqualValues(t, maxSpare, st.Fired)
		require.Zero(t, st.Armed)
		pair(t, ln, Terms{TTL: time.Minute})
		require.Equal(t, 1, w.wheel.Len(), "and it is armed again for the next lease")
	})
}

// TestAQueuedGroupLeavesNoTimer: its timer would wake the wheel after each renewal.
func TestAQueuedGroupLeavesNoTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, ln := silentLane(t)
		defer w.Close()
		var l Lease
		require.NoError(t, ln.Hold(&l, silent{}, Terms{Stamp: time.Now(), TTL: 30 * time.Second}))
		l.Verify()
		synctest.Wait() // it is in a batch, whose group watches its trust
		require.Equal(t, 1, w.wheel.Len())
	})
}

// TestAClosedLaneLeavesNoTimer: a wheel that others use would keep it in memory.
func TestAClosedLaneLeavesNoTimer(t *testing.T) {
	for name, does := range map[string]func(t *testing.T, ln *Lane, l *Lease){
		"held":     func(*testing.T, *Lane, *Lease) {},
		"released": func(t *testing.T, _ *Lane, l *Lease) { require.True(t, l.Release()) },
		"in a batch": func(_ *testing.T, _ *Lane, l *Lease) {
			l.Verify()
			synctest.Wait()
		},
		"released in a batch": func(t *testing.T, _ *Lane, l *Lease) {
			l.Verify()
			synctest.Wait()
			require.True(t, l.Release())
		},
		// The timer has fired, and a lease arms it again before its visit comes.
		"armed before a visit": func(t *testing.T, ln *Lane, l *Lease) {
			require.True(t, l.Release())
			g := ln.spare[0]
			g.timer.Stop()
			pair(t, ln, Terms{TTL: 20 * time.Hour, Fixed: true})
			_, err := g.timer.Reset(time.Hour)
			require.NoError(t, err)
			ln.visitGroup(g)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, ln := silentLane(t)
				defer w.Close()
				var l Lease
				require.NoError(t, ln.Hold(&l, silent{}, Terms{Stamp: time.Now(), TTL: 10 * time.Hour, Fixed: true}))
				does(t, ln, &l)
				require.Positive(t, w.wheel.Len())
				ln.Close()
				require.Zero(t, w.wheel.Len())
			})
		})
	}
}
