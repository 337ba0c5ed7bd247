package run

import (
	"os"
	"strconv"
	"strings"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// resetPeakRSS sets the high-water mark of resident memory back to the current size. It
// reports whether it could, because some sandboxes forbid it.
func resetPeakRSS() bool {
	return os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) == nil
}

// peakRSS is the high-water mark in bytes.
func peakRSS() report.Number {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return report.Number{}
	}
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 10, 64)
			if err == nil {
				return report.NumberOf(kib << 10)
			}
		}
	}
	return report.Number{}
}
