package main

import (
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkRenew is the command's table in the form that benchstat reads: the
// same rows, each in a process of its own, on a redis-server of its own.
//
//	go test ./bench -run '^$' -bench 'Renew$' -benchtime 1x -count 6 | tee renew.txt
//	benchstat -col /driver renew.txt
//
// The time of an operation would be that of the whole row, so it is left out.
func BenchmarkRenew(b *testing.B) {
	for _, d := range allDrivers() {
		for _, n := range []int{1000, 10_000} {
			b.Run(fmt.Sprintf("driver=%s/locks=%d", d.name, n), func(b *testing.B) {
				for b.Loop() {
					reportRow(b, measured(b, d, n))
				}
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

// measured is one row.
func measured(b *testing.B, d driver, locks int) row {
	srv := benchServer(b)
	p, err := newParent(srv, plan{
		drivers: []driver{d}, locks: []int{locks}, lease: defaultLease, duration: defaultLease,
	}, io.Discard)
	require.NoError(b, err)
	rows := p.rows(context.Background())
	require.NoError(b, verdict(rows), "%+v", rows)
	return rows[0]
}

// reportRow reports what is known.
func reportRow(b *testing.B, r row) {
	for _, m := range []struct {
		unit  string
		value number
	}{
		{"cpu-ns/renewal", r.ClientCPU.times(1000)},
		{"redis-cpu-ns/renewal", r.RedisCPU.times(1000)},
		{"late-p50-ms", r.LateP50},
		{"late-p99-ms", r.LateP99},
		{"B/lock", r.Heap.per(float64(r.Locks))},
		{"goroutines", r.Goroutines},
		{"script-mean-us", r.ScriptMean},
		{"script-p99-us", r.ScriptP99},
	} {
		if m.value.known {
			b.ReportMetric(m.value.value, m.unit)
		}
	}
}
