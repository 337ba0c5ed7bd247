package report

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestJSONHasTheNamedFields(t *testing.T) {
	text, err := json.Marshal(Report{Rows: []Row{{Driver: "wheel", Locks: 5, Missed: NumberOf(0), Renewals: NumberOf(1_000_000)}}})
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

	var back Report
	require.NoError(t, json.Unmarshal(text, &back))
	require.Equal(t, "n/a", back.Rows[0].Lost.digits(0))
	require.Equal(t, "0", back.Rows[0].Missed.digits(0))
}
