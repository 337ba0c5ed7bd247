package run

import (
	"context"
	"strings"
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

func TestKilledParentStartsNoMoreRows(t *testing.T) {
	srv := fixture.Mini(t)
	p, err := NewParent(holders.OneServer(srv), Plan{Drivers: holders.Drivers()[:1], Locks: []int{1}, Lease: time.Second, Duration: time.Second}, &fixture.Log{}, noProgress{})
	require.NoError(t, err)
	p.Kill()
	rows := p.Rows(context.Background())
	require.Contains(t, strings.Join(rows[0].Faults, "\n"), "no more rows start")
}
