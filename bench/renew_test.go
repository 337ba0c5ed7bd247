package main

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/fixture"
)

// BenchmarkRenew is the command's table in the form that benchstat reads: the
// same rows, each in a process of its own, on a redis-server of its own.
//
//	go test ./bench -run '^$' -bench 'Renew$' -benchtime 1x -count 6 | tee renew.txt
//	benchstat -col /driver renew.txt
//
// The time of an operation would be the time of the whole row, so it is left out.
func BenchmarkRenew(b *testing.B) {
	for _, d := range holders.Drivers() {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("driver=%s/locks=%d", d.Name, n), func(b *testing.B) {
				for b.Loop() {
					reportRow(b, measured(b, d, n))
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// measured is one row.
func measured(b *testing.B, d holders.Driver, locks int) report.Row {
	srv := fixture.Server(b)
	what := run.Plan{Drivers: []holders.Driver{d}, Locks: []int{locks}, Lease: defaultLease, Duration: defaultLease}
	p, err := run.NewParent(holders.OneServer(srv), what, io.Discard, newProgress(io.Discard, what))
	require.NoError(b, err)
	rows := p.Rows(context.Background())
	require.NoError(b, report.CheckSound(rows), "%+v", rows)
	return rows[0]
}

// reportRow reports the figures that the row has.
func reportRow(b *testing.B, r report.Row) {
	for _, m := range []struct {
		unit  string
		value report.Number
	}{
		{"cpu-ns/renewal", r.ClientCPU.Times(1000)},
		{"redis-cpu-ns/renewal", r.RedisCPU.Times(1000)},
		{"late-p50-ms", r.LateP50},
		{"late-p99-ms", r.LateP99},
		{"B/lock", r.Heap.Per(float64(r.Locks))},
		{"goroutines", r.Goroutines},
		{"script-mean-us", r.ScriptMean},
		{"script-p99-us", r.ScriptP99},
	} {
		if m.value.Known {
			b.ReportMetric(m.value.Value, m.unit)
		}
	}
}
