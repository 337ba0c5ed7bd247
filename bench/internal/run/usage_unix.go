//go:build unix

package run

import (
	"syscall"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
)

// cpuTime is the CPU that this process has used so far, in seconds.
func cpuTime() report.Number { return timeOf(syscall.RUSAGE_SELF) }

// childTime is the CPU of the child processes that have ended, in seconds.
func childTime() report.Number { return timeOf(syscall.RUSAGE_CHILDREN) }

func timeOf(who int) report.Number {
	var u syscall.Rusage
	if syscall.Getrusage(who, &u) != nil {
		return report.Number{}
	}
	return report.NumberOf(time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds())
}
