//go:build unix

package run

import (
	"syscall"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() report.Number {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return report.Number{}
	}
	return report.NumberOf(time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds())
}
