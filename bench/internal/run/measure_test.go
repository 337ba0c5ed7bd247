package run

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

// idle is a broken twin of a driver: it has taken locks, does not renew them any
// more, and believes that it has so many.
type idle struct {
	holders.Holder
	live int
}

func (h idle) Live() int { return h.live }

func TestDriverThatDoesNotRenewIsFoundOut(t *testing.T) {
	const n, lease = 20, time.Second
	for name, live := range map[string]int{"and believes it holds": n, "and knows": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rowRun{
				cfg:    rowConfig{Driver: "idle", Locks: n, Lease: lease, Duration: lease, Prefix: "twin:"},
				target: holders.OneServer(fixture.Either(t)), stop: make(chan struct{}), event: func(event) {},
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
			require.False(t, r.row.Sound())
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
	r := &rowRun{cfg: rowConfig{Locks: 3}, stop: make(chan struct{}), event: func(event) {}}
	err := r.each("acquire", 3, func(ctx context.Context, i int) error {
		if i == 0 {
			return nil
		}
		<-ctx.Done() // as one that never gets its lock
		return ctx.Err()
	}, func(done int) error {
		taken = done
		return errInterrupted
	})
	require.ErrorIs(t, err, errInterrupted)
	require.Equal(t, 1, taken)
}

func TestFirstErrorEndsEach(t *testing.T) {
	t.Parallel()
	r := &rowRun{cfg: rowConfig{}, stop: make(chan struct{}), event: func(event) {}}
	err := r.each("acquire", 10_000, func(_ context.Context, i int) error {
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
