package run

import (
	"context"
	"fmt"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

// untold is a teller for tests to which nothing need be told.
type noProgress struct{}

func (noProgress) Start([]int)                 {}
func (noProgress) Begin(report.Row, time.Time) {}
func (noProgress) End(time.Time)               {}
func (noProgress) Step(string, int, time.Time) {}

func TestRowThatDiesOrHangsIsSaidToHave(t *testing.T) {
	srv := fixture.Mini(t)
	d, ok := holders.DriverNamed("wheel-batch")
	require.True(t, ok)
	for mode, says := range map[string]string{
		"die":    "the row's process died",
		"hang":   `no progress for`,
		"babble": "ended without a result",
	} {
		t.Run(mode, func(t *testing.T) {
			var out fixture.Log
			p, err := NewParent(holders.OneServer(srv), Plan{Drivers: []holders.Driver{d}, Locks: []int{1, 2}, Lease: time.Second, Duration: time.Second}, &out, noProgress{})
			require.NoError(t, err)
			p.env = []string{RowEnv + "=" + mode}
			if mode == "hang" {
				p.hangTimeout = 500 * time.Millisecond
			}
			rows := p.Rows(context.Background())
			require.Len(t, rows, 2, "the run goes on")
			for _, r := range rows {
				require.False(t, r.IsSound())
				require.False(t, r.Missed.Known)
				require.Contains(t, strings.Join(r.Faults, "\n"), says)
			}
			require.Error(t, report.CheckSound(rows))
			require.Contains(t, out.String(), says)
			if mode == "die" {
				_, after, found := strings.Cut(out.String(), "the row's process wrote ")
				require.True(t, found)
				require.NotContains(t, after, says, "it stands below all that is said of the rows")
				require.Equal(t, 2, strings.Count(out.String(), "bench:   panic: this row dies\n"))
			}
		})
	}
}

// TestRowThatASignalEndsAtOnceIsInterrupted: a signal from a terminal may come before RowMain ignores it.
func TestRowThatASignalEndsAtOnceIsInterrupted(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("it has no such signals")
	}
	for _, c := range []struct {
		signal      syscall.Signal
		interrupted bool
	}{{syscall.SIGINT, true}, {syscall.SIGTERM, true}, {syscall.SIGKILL, false}} {
		t.Run(c.signal.String(), func(t *testing.T) {
			t.Parallel()
			if signal.Ignored(c.signal) {
				t.Skip("this process ignores the signal, and so does the row's process")
			}
			var out fixture.Log
			p, err := NewParent(holders.OneServer(fixture.Mini(t)), Plan{Drivers: holders.Drivers()[:1], Locks: []int{1, 2}, Lease: time.Second, Duration: time.Second}, &out, noProgress{})
			require.NoError(t, err)
			p.env = []string{RowEnv + "=signal", fmt.Sprintf("%s=%d", signalEnv, c.signal)}
			rows := p.Rows(context.Background())
			require.Equal(t, c.interrupted, p.Interrupted(context.Background()))
			if c.interrupted {
				require.Empty(t, rows, "and none follows")
				require.Equal(t, "bench: interrupted; 0 locks released, none is left\n", out.String())
				return
			}
			require.Len(t, rows, 2)
			require.Contains(t, out.String(), "the row's process died: signal: killed")
		})
	}
}

func TestKilledParentStartsNoMoreRows(t *testing.T) {
	srv := fixture.Mini(t)
	p, err := NewParent(holders.OneServer(srv), Plan{Drivers: holders.Drivers()[:1], Locks: []int{1}, Lease: time.Second, Duration: time.Second}, &fixture.Log{}, noProgress{})
	require.NoError(t, err)
	p.Kill()
	rows := p.Rows(context.Background())
	require.Contains(t, strings.Join(rows[0].Faults, "\n"), "no more rows start")
}
