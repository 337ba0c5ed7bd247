package integration_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The report of `go run ./bench -json FILE` that is to be checked, and how
// many rows it must have.
const (
	envReport     = "WHEELLOCK_REPORT"
	envReportRows = "WHEELLOCK_REPORT_ROWS"
)

// TestReportSaysNothingMissedNothingLost checks a report that was made before, because
// the benchmark needs the machine for itself.
func TestReportSaysNothingMissedNothingLost(t *testing.T) {
	path := os.Getenv(envReport)
	if path == "" {
		t.Skip(envReport + " names no report")
	}
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	rows, err := reportRows(f)
	require.NoError(t, err, path)
	want, err := strconv.Atoi(os.Getenv(envReportRows))
	require.NoError(t, err, envReportRows)
	require.Len(t, rows, want)
	for _, row := range rows {
		t.Logf("%v %v locks: %v renewals, %v missed, %v lost", row["driver"], row["locks"], row["renewals"], row["missed"], row["lost"])
		for _, fault := range rowFaults(row) {
			t.Error(fault)
		}
	}
}

// reportRows returns the objects of a report that have a driver, however deep they are nested.
func reportRows(r io.Reader) ([]map[string]any, error) {
	var rows []map[string]any
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			if _, ok := v["driver"]; ok {
				rows = append(rows, v)
				return
			}
			for _, e := range v {
				walk(e)
			}
		}
	}
	for dec := json.NewDecoder(r); ; {
		var v any
		if err := dec.Decode(&v); errors.Is(err, io.EOF) {
			return rows, nil
		} else if err != nil {
			return nil, err
		}
		walk(v)
	}
}

// rowFaults returns the faults of a row.
func rowFaults(row map[string]any) []string {
	name := fmt.Sprintf("%v %v locks", row["driver"], row["locks"])
	var faults []string
	for _, field := range []string{"missed", "lost"} {
		if n, ok := row[field].(float64); !ok || n != 0 {
			faults = append(faults, fmt.Sprintf("%s: %s is %v, want 0", name, field, row[field]))
		}
	}
	// A renewal each third of the lease, and a run of two leases.
	renewals, _ := row["renewals"].(float64)
	if locks, _ := row["locks"].(float64); locks < 1 || renewals < 2*locks {
		faults = append(faults, fmt.Sprintf("%s: renewals is %v, too few to say anything", name, row["renewals"]))
	}
	return faults
}

func TestReportFaultsAreFound(t *testing.T) {
	const report = `{"environment": {"go": "go1.25"}, "rows": [
		{"driver": "a", "locks": 10, "renewals": 50, "missed": 0, "lost": 0},
		{"driver": "b", "locks": 10, "renewals": 50, "missed": 1, "lost": 0},
		{"driver": "c", "locks": 10, "renewals": 50, "missed": 0, "lost": 2},
		{"driver": "d", "locks": 10, "renewals": 50, "missed": 0},
		{"driver": "e", "locks": 10, "renewals": 3, "missed": 0, "lost": 0}]}`
	rows, err := reportRows(strings.NewReader(report))
	require.NoError(t, err)
	require.Len(t, rows, 5)
	for i, row := range rows {
		require.Equal(t, i > 0, len(rowFaults(row)) == 1, "%v", row)
	}
	_, err = reportRows(strings.NewReader(`[{"driver": `))
	require.Error(t, err)
}
