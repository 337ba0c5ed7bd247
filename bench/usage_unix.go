//go:build unix

package main

import (
	"syscall"
	"time"
)

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() number {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return number{}
	}
	return some(time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds())
}
