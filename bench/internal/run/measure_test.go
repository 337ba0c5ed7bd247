package run

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// idle is a broken driver. It has taken locks and does not renew them any more. It
// claims that it still holds live locks.
type idle struct {
	holders.Holder
	live int
}

func (h idle) CountHeld() int { return h.live }

func TestDriverThatDoesNotRenewIsFoundOut(t *testing.T) {
	const n, lease = 20, time.Second
	for name, live := range map[string]int{"and believes it holds": n, "and knows": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rowRun{
				cfg:    rowConfig{Driver: "idle", Locks: n, Lease: lease, Duration: lease, Prefix: "twin:"},
				target: holders.OneServer(fixture.RedisOrMini(t)), stop: make(chan struct{}), send: func(event) {},
			}
			d, _ := holders.DriverNamed(report.Sweep)
			h, err := holders.Hold(d, r.target, r.cfg.Prefix, n, lease)
			require.NoError(t, err)
			for i := range n {
				require.NoError(t, h.Acquire(context.Background(), i))
			}
			h.Close() // which ends the renewals
			r.holder = &holders.Holding{Holder: idle{h.Holder, live}, Meter: h.Meter}
			require.NoError(t, r.measure())
			require.False(t, r.row.IsSound())
			require.Equal(t, float64(n), r.row.Missed.Value, "the meter sees it, whatever the driver believes")
			if live > 0 {
				require.Equal(t, float64(n), r.row.Lost.Value)
			} else {
				require.Contains(t, strings.Join(r.row.Faults, "\n"), "no lock was held any more")
			}
		})
	}
}

func TestLoadThatLosesLocksWhileTheyAreTakenIsGivenUp(t *testing.T) {
	t.Parallel()
	taken := 0
	r := &rowRun{cfg: rowConfig{Locks: 3}, stop: make(chan struct{}), send: func(event) {}}
	err := r.forEachLock("acquire", 3, func(ctx context.Context, i int) error {
		if i == 0 {
			return nil
		}
		<-ctx.Done() // as a call that never gets its lock
		return ctx.Err()
	}, func(done int) error {
		taken = done
		return errInterrupted
	})
	require.ErrorIs(t, err, errInterrupted)
	require.Equal(t, 1, taken)
}

func TestLocksLostBeforeAllAreAcquiredAreCounted(t *testing.T) {
	r := &rowRun{cfg: rowConfig{Locks: 10_000}, stop: make(chan struct{})}
	h, err := holders.Hold(holders.Drivers()[0], holders.OneServer(fixture.Mini(t)), "lost:", 10_000, holders.ConnectTimeout)
	require.NoError(t, err)
	defer h.Close()
	r.holder = &holders.Holding{Holder: idle{h.Holder, 2396}, Meter: h.Meter}
	require.EqualError(t, r.checkKept(5000), "5,000 of the 10,000 locks were acquired when some of them were lost already, so the rest was not acquired: the load is more than driver and server can do")
	require.Equal(t, report.NumberOf(2604), r.row.Lost)
	require.Equal(t, ", 10,000 locks: lost 2,604 locks", report.Row{Locks: 10_000, Lost: r.row.Lost}.Losses())

	kept := &rowRun{cfg: r.cfg, stop: r.stop, holder: r.holder}
	require.NoError(t, kept.checkKept(2396))
	require.Equal(t, report.Number{}, kept.row.Lost)
}

// loser is a driver whose locks were lost when it releases them.
type loser struct{ holders.Holder }

func (loser) Release(context.Context, int) error { return fmt.Errorf("release: %w", lock.ErrLost) }

func TestLocksLostBeforeTheirReleaseAreCounted(t *testing.T) {
	t.Parallel()
	target := holders.OneServer(fixture.Mini(t))
	r := &rowRun{cfg: rowConfig{Locks: 1200, Lease: time.Second, Prefix: "loser:"}, stop: make(chan struct{}), send: func(event) {}, target: target}
	h, err := holders.Hold(holders.Drivers()[0], target, "loser:", 1200, time.Second)
	require.NoError(t, err)
	defer h.Close()
	r.holder = &holders.Holding{Holder: loser{h.Holder}, Meter: h.Meter}
	r.row.Missed, r.row.Lost = report.NumberOf(0), report.NumberOf(0)
	require.ErrorContains(t, r.releaseAll(), "lost after the check")
	require.Contains(t, r.row.Losses(), "lost 1,200 locks")
}

func TestFirstErrorEndsEach(t *testing.T) {
	t.Parallel()
	r := &rowRun{cfg: rowConfig{}, stop: make(chan struct{}), send: func(event) {}}
	err := r.forEachLock("acquire", 10_000, func(_ context.Context, i int) error {
		_, err := strconv.Atoi(strings.Repeat("x", i/100))
		return err
	}, func(int) error { return nil })
	require.ErrorIs(t, err, strconv.ErrSyntax)
}

func TestProcessUsageIsMeasuredWhereItCanBe(t *testing.T) {
	t.Parallel()
	if cpu := cpuTime(); cpu.Known {
		require.Positive(t, cpu.Value)
	}
	if rss := peakRSS(); rss.Known {
		require.Greater(t, rss.Value, float64(1<<20))
	}
	require.Positive(t, liveHeap().Value)
}

// behind is a meter of renewals whose lateness falls with time.
type behind struct {
	by    time.Duration // at the beginning
	began time.Time
	begun int
}

func (b *behind) Begin() { b.begun++ }

func (b *behind) Counters() holders.Counters {
	return holders.Counters{Max: b.by - time.Since(b.began)}
}

func TestAHoldBeginsWhenRenewalsAreInTime(t *testing.T) {
	const lease = 30 * time.Second
	for _, c := range []struct {
		by, wait time.Duration
		begun    int
	}{
		{500 * time.Millisecond, 0, 0},
		{5 * time.Second, 4 * time.Second, 4},
		{time.Hour, lease, 30}, // they never are
	} {
		synctest.Test(t, func(t *testing.T) {
			b := &behind{by: c.by, began: time.Now()}
			settle(b, lease, nil, func() {})
			require.Equal(t, c.wait, time.Since(b.began))
			require.Equal(t, c.begun, b.begun, "each second counts anew")
		})
	}
	synctest.Test(t, func(t *testing.T) {
		b := &behind{by: time.Hour, began: time.Now()}
		stop := make(chan struct{})
		time.AfterFunc(1500*time.Millisecond, func() { close(stop) })
		settle(b, lease, stop, func() {})
		require.Equal(t, 1500*time.Millisecond, time.Since(b.began))
	})
}
