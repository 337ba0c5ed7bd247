package run

import (
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// RowEnv is the environment variable that is set in a row's process.
const RowEnv = "WHEELLOCK_BENCH_ROW"

// rowConfig are the settings of a row, from its standard input.
type rowConfig struct {
	URL      string        `json:"url"`
	Cluster  bool          `json:"cluster"` // URL is of a node of one
	Own      bool          `json:"own"`     // the server is the run's own
	Prefix   string        `json:"prefix"`  // of the locks' names
	Driver   string        `json:"driver"`
	Locks    int           `json:"locks"`
	Lease    time.Duration `json:"lease"`
	Duration time.Duration `json:"duration"`
	Watch    time.Duration `json:"watch"` // after it
}

// event is a line on a row's standard output: progress, or at the end its
// result.
type event struct {
	Phase  string      `json:"phase,omitempty"`
	Done   int         `json:"done,omitempty"`
	Result *report.Row `json:"result,omitempty"`
}
