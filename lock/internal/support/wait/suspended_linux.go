package wait

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2) that nobody can set. They differ by the time in which the machine was
// suspended.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// sleptAtStart is how long the machine had been suspended when this process began.
var sleptAtStart, _ = slept()

// wasSuspended reports whether the machine was suspended since this process began. If the system does not
// tell, it may have been.
func wasSuspended() bool {
	s, ok := slept()
	return !ok || s > sleptAtStart+10*time.Millisecond // two readings take a little
}

// slept returns how long the machine was suspended since it was started.
func slept() (time.Duration, bool) {
	mono, _ := gettime(clockMonotonic)
	boot, ok := gettime(clockBoottime)
	return boot - mono, ok
}

func gettime(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}
