//go:build !linux

package run

import "github.com/wheellock/wheellock/bench/internal/report"

// resetPeakRSS cannot be done here: elsewhere the mark counts from the
// process's start and would be of the acquisition.
func resetPeakRSS() bool { return false }

// peakRSS is not to be had here.
func peakRSS() report.Number { return report.Number{} }
