package main

import (
	"context"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
)

// Not parallel to others: the only test here that wants the machine to keep
// the locks.
func TestRunHoldsEveryLock(t *testing.T) {
	srv := fixture.Auto(t)
	drivers := report.Drivers()
	switch {
	case testing.Short():
		drivers = []string{"library", "sweep"}
	case fixture.IsBrief():
		drivers = []string{"afterfunc", "wheel", "library", "sweep"}
	}
	const renewals = 2.0 * 600 // each lock has two thirds of its lease for them
	renewedTooFew := func(row report.Row) bool { return row.Renewals.Value < renewals }
	var r result
	lease := 2400 * time.Millisecond
	for ; lease < time.Minute; lease *= 4 { // a machine that is too busy for a short lease gets a longer one
		r = runBench(context.Background(), t, "-redis", srv.URL(), "-locks", "600",
			"-drivers", strings.Join(drivers, ","), "-lease", lease.String(), "-duration", lease.String())
		if r.code == exitOK && !slices.ContainsFunc(r.report.Rows, renewedTooFew) {
			break
		}
	}
	require.Equal(t, exitOK, r.code)
	require.Len(t, r.report.Rows, len(drivers))
	for i, row := range r.report.Rows {
		require.Equal(t, drivers[i], row.Driver)
		require.Equal(t, 600, row.Locks)
		require.True(t, row.IsSound(), "%v", row)
		require.GreaterOrEqual(t, row.Renewals.Value, renewals)
		require.Positive(t, row.Heap.Value)
		require.Positive(t, row.Goroutines.Value)
		require.True(t, row.LateP50.Known)
		require.LessOrEqual(t, row.LateP50.Value, row.LateP99.Value)
		require.LessOrEqual(t, row.LateP99.Value, row.LateMax.Value)
		if row.ScriptMax.Known && row.Scripts.Value >= 100 {
			require.True(t, row.ScriptP99.Known)
			require.LessOrEqual(t, row.ScriptP99.Value, row.ScriptMax.Value)
		}
		require.Contains(t, r.stdout, row.Driver)
	}
	require.Contains(t, r.stdout, "control lock: gone")
	require.Contains(t, r.stdout, "library against sweep")
	if !testing.Short() {
		require.Regexp(t, `^With 600 locks, each renewed every `+(lease/3).String()+`:\n\n.*\nby hand .*\nthe wheel .*\nthe library .*\n\nWith 600 locks, one timing wheel instead of one time.AfterFunc per lock takes `, r.stdout, "the answer is first")
	}
	load := r.report.Environment.Load
	require.Equal(t, runtime.GOOS == "linux", load.Average.Known)
	require.Equal(t, load.Average.Known, strings.Contains(r.stdout, "Load average before the rows"))
	if load.WarningAtStart() != "" {
		require.Contains(t, r.stderr, load.WarningAtStart(), "it is said before the rows, too")
	}
	if load.Average.Known && srv.Kind() != redistest.External {
		require.Equal(t, srv.Kind() != redistest.Mini, load.Others.Known, "miniredis does not tell what CPU it uses")
	}
	if srv.Kind() != redistest.External {
		require.Empty(t, fixture.LockKeys(t, srv))
	}
}

// Killed half-way: rows that say lost, a clear line, an end.
func TestRedisKilledHalfWayGivesRowsThatSayLost(t *testing.T) {
	for _, driver := range []string{"wheel-batch", "afterfunc", "library", "sweep"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := fixture.RedisOrMini(t)
			// The row does not wait for the rest of its ten minutes once all locks are lost.
			r := runBenchUntilHold(t, srv.Kill, "-redis", srv.URL(), "-locks", "100,101",
				"-drivers", driver, "-lease", "6s", "-duration", "10m")
			require.Equal(t, exitFault, r.code)
			require.Len(t, r.report.Rows, 2)
			ran, notRun := r.report.Rows[0], r.report.Rows[1]
			if !ran.Lost.Known { // the order is random
				ran, notRun = notRun, ran
			}
			require.Equal(t, float64(ran.Locks), ran.Lost.Value)
			require.Equal(t, float64(ran.Locks), ran.Missed.Value)
			require.False(t, ran.IsSound())
			require.False(t, notRun.Lost.Known)
			require.Contains(t, strings.Join(notRun.Faults, "\n"), "not run: Redis does not answer")
			require.Contains(t, r.stderr, "no lock can be checked on the server, so all count as lost")
			require.Contains(t, r.stderr, "bench: FAILED: 2 of 2 rows")
			require.Contains(t, r.stdout, "late ms", "the table is printed all the same")
			require.Contains(t, r.stdout, "n/a")
		})
	}
}

// A server that comes back empty is the other half-way death.
func TestRedisRestartedEmptyGivesRowsThatSayLost(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	restart := func() error { return srv.Restart(t.Context()) }
	r := runBenchUntilHold(t, restart, "-redis", srv.URL(), "-locks", "100", "-drivers", "wheel-batch", "-lease", "2s", "-duration", "10m")
	require.Equal(t, exitFault, r.code)
	require.Equal(t, 100.0, r.report.Rows[0].Lost.Value)
	require.Empty(t, fixture.LockKeys(t, srv))
}

func TestInterruptedRunLeavesNoKey(t *testing.T) {
	for _, driver := range []string{"wheel-batch", "library", "sweep"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := fixture.RedisOrMini(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				awaitKeys(t, srv, 100)
				cancel()
			}()
			r := runBench(ctx, t, "-redis", srv.URL(), "-locks", "100", "-drivers", driver, "-lease", "1h", "-duration", "10h")
			require.Equal(t, exitInterrupted, r.code)
			require.Contains(t, r.stderr, "bench: interrupted; 100 locks released, none is left")
			require.Empty(t, fixture.LockKeys(t, srv), "with a lease of an hour nothing has gone by itself")
			require.Empty(t, r.report.Rows)
			require.True(t, r.report.Environment.Interrupted)
		})
	}
}

func TestMaxThatIsInterruptedLeavesNoKeyAndSaysSo(t *testing.T) {
	t.Parallel()
	srv := fixture.RedisOrMini(t)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		awaitKeys(t, srv, 100)
		cancel()
	}()
	r := runBench(ctx, t, "-redis", srv.URL(), "-max", "-lease", "1h")
	require.Equal(t, exitInterrupted, r.code)
	require.Regexp(t, "^On this machine how many locks the row library keeps renewed is not known", r.stdout)
	require.Empty(t, fixture.LockKeys(t, srv))
	require.Len(t, r.report.Max, 1)
	require.True(t, r.report.Max[0].Interrupted)
}
