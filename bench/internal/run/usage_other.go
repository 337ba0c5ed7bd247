//go:build !unix

package run

import "github.com/wheellock/wheellock/bench/internal/report"

// cpuTime is not to be had here.
func cpuTime() report.Number { return report.Number{} }

// childTime is not to be had here either.
func childTime() report.Number { return report.Number{} }
