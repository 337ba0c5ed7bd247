package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
)

// Not parallel to others: the only test here that wants the machine to keep
// the locks.
func TestRunHoldsEveryLock(t *testing.T) {
	srv, err := redistest.Auto(t.Context())
	require.NoError(t, err)
	defer func() { require.NoError(t, srv.Stop()) }()
	drivers := driverNames()
	if testing.Short() {
		drivers = []string{"wheel-batch", "sweep"}
	}
	r := runBench(context.Background(), t, "-redis", srv.URL(), "-locks", "300",
		"-drivers", strings.Join(drivers, ","), "-lease", "2400ms", "-duration", "2400ms")
	require.Equal(t, exitOK, r.code)
	require.Len(t, r.report.Rows, len(drivers))
	for i, row := range r.report.Rows {
		require.Equal(t, drivers[i], row.Driver)
		require.Equal(t, 300, row.Locks)
		require.True(t, row.sound(), "%v", row)
		require.GreaterOrEqual(t, row.Renewals.value, 2.0*300)
		require.Positive(t, row.Heap.value)
		require.Positive(t, row.Goroutines.value)
		require.True(t, row.LateP50.known)
		require.LessOrEqual(t, row.LateP50.value, row.LateP99.value)
		require.LessOrEqual(t, row.LateP99.value, row.LateMax.value)
		require.Contains(t, r.stdout, row.Driver)
	}
	require.Contains(t, r.stdout, "control lock: gone")
	require.Contains(t, r.stdout, "wheel-batch against sweep")
	if srv.Kind() != redistest.External {
		require.Empty(t, keys(t, srv))
	}
}

func TestJSONHasTheNamedFields(t *testing.T) {
	text, err := json.Marshal(report{Rows: []row{{Driver: "wheel", Locks: 5, Missed: some(0), Renewals: some(1_000_000)}}})
	require.NoError(t, err)
	var got struct {
		Environment map[string]any   `json:"environment"`
		Rows        []map[string]any `json:"rows"`
	}
	require.NoError(t, json.Unmarshal(text, &got))
	for _, name := range []string{"go", "os", "arch", "cpus", "redis", "redis_kind", "redis_version", "lease_ms", "duration_ms", "command"} {
		require.Contains(t, got.Environment, name)
	}
	for _, name := range []string{
		"driver", "locks", "renewals", "client_cpu_us_per_renewal", "redis_cpu_us_per_renewal", "rss_bytes", "heap_bytes",
		"script_us_mean", "script_us_p99", "script_us_max", "goroutines", "gc_cycles", "late_p50_ms", "late_p99_ms", "late_max_ms", "missed", "lost",
	} {
		require.Contains(t, got.Rows[0], name)
	}
	require.Zero(t, got.Rows[0]["missed"])
	require.Nil(t, got.Rows[0]["lost"], "what was not measured is null")
	require.Contains(t, string(text), `"renewals":1000000`, "a count is written as one")

	var back report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, "n/a", back.Rows[0].Lost.digits(0))
	require.Equal(t, "0", back.Rows[0].Missed.digits(0))
}

// Killed half-way: rows that say lost, a clear line, an end.
func TestRedisKilledHalfWayGivesRowsThatSayLost(t *testing.T) {
	for _, driver := range []string{"wheel-batch", "afterfunc", "sweep"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := ownServer(t)
			killed := make(chan error, 1)
			go func() {
				awaitKeys(t, srv, 100)
				killed <- srv.Kill()
			}()
			// Of ten minutes nothing is left to wait for once all are lost.
			r := runBench(context.Background(), t, "-redis", srv.URL(), "-locks", "100,101",
				"-drivers", driver, "-lease", "2s", "-duration", "10m")
			require.NoError(t, <-killed)
			require.Equal(t, exitFault, r.code)
			require.Len(t, r.report.Rows, 2)
			ran, notRun := r.report.Rows[0], r.report.Rows[1]
			if !ran.Lost.known { // the order is random
				ran, notRun = notRun, ran
			}
			require.Equal(t, float64(ran.Locks), ran.Lost.value)
			require.Equal(t, float64(ran.Locks), ran.Missed.value)
			require.False(t, ran.sound())
			require.False(t, notRun.Lost.known)
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
	srv := ownServer(t)
	restarted := make(chan error, 1)
	go func() {
		awaitKeys(t, srv, 100)
		restarted <- srv.Restart(t.Context())
	}()
	r := runBench(context.Background(), t, "-redis", srv.URL(), "-locks", "100", "-drivers", "wheel-batch", "-lease", "2s", "-duration", "10m")
	require.NoError(t, <-restarted)
	require.Equal(t, exitFault, r.code)
	require.Equal(t, 100.0, r.report.Rows[0].Lost.value)
	require.Empty(t, keys(t, srv))
}

func TestInterruptedRunLeavesNoKey(t *testing.T) {
	for _, driver := range []string{"wheel-batch", "sweep"} {
		t.Run(driver, func(t *testing.T) {
			t.Parallel()
			srv := ownServer(t)
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			go func() {
				awaitKeys(t, srv, 100)
				cancel()
			}()
			r := runBench(ctx, t, "-redis", srv.URL(), "-locks", "100", "-drivers", driver, "-lease", "1h", "-duration", "10h")
			require.Equal(t, exitInterrupted, r.code)
			require.Contains(t, r.stderr, "bench: interrupted; 100 locks released, none is left")
			require.Empty(t, keys(t, srv), "with a lease of an hour nothing has gone by itself")
			require.Empty(t, r.report.Rows)
			require.True(t, r.report.Environment.Interrupted)
		})
	}
}

func TestRowThatDiesOrHangsIsSaidToHave(t *testing.T) {
	srv := miniServer(t)
	d, ok := driverNamed("wheel-batch")
	require.True(t, ok)
	for mode, says := range map[string]string{
		"die":    "the row's process died",
		"hang":   `no progress for`,
		"babble": "ended without a result",
	} {
		t.Run(mode, func(t *testing.T) {
			var out output
			p, err := newParent(srv, plan{drivers: []driver{d}, locks: []int{1, 2}, lease: time.Second, duration: time.Second}, &out)
			require.NoError(t, err)
			p.env = []string{rowEnv + "=" + mode}
			if mode == "hang" {
				p.hang = 500 * time.Millisecond
			}
			rows := p.rows(context.Background())
			require.Len(t, rows, 2, "the run goes on")
			for _, r := range rows {
				require.False(t, r.sound())
				require.False(t, r.Missed.known)
				require.Contains(t, strings.Join(r.Faults, "\n"), says)
			}
			require.Error(t, verdict(rows))
			require.Contains(t, out.String(), says)
		})
	}
}

func TestKilledParentStartsNoMoreRows(t *testing.T) {
	srv := miniServer(t)
	p, err := newParent(srv, plan{drivers: allDrivers()[:1], locks: []int{1}, lease: time.Second, duration: time.Second}, &output{})
	require.NoError(t, err)
	p.kill()
	rows := p.rows(context.Background())
	require.Contains(t, strings.Join(rows[0].Faults, "\n"), "no row is wanted any more")
}
