package run

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
)

// idle is a broken twin of a driver: it takes locks, never renews them, and
// believes that it has them.
type idle struct {
	*keeper
	live int
}

func (h idle) Acquire(ctx context.Context, i int) error { return h.acquire(ctx, i) }
func (h idle) Live() int                                { return h.live }
func (h idle) Close()                                   { h.closePools() }

func TestDriverThatDoesNotRenewIsFoundOut(t *testing.T) {
	const n, lease = 20, time.Second
	for name, live := range map[string]int{"and believes it holds": n, "and knows": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rowRun{
				cfg:    rowConfig{Driver: "idle", Locks: n, Lease: lease, Duration: lease, Prefix: "twin:"},
				target: OneServer(fixture.Either(t)), stop: make(chan struct{}), event: func(event) {},
			}
			m, err := newMeter(r.cfg.Prefix, n, 1, lease)
			require.NoError(t, err)
			r.holder = &Holding{idle{newKeeper(r.target, m, r.cfg.Prefix, n, lease), live}, m}
			defer r.holder.Close()
			for i := range n {
				require.NoError(t, r.holder.Acquire(context.Background(), i))
			}
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
