package faults

import (
	"syscall"
	"unsafe"
)

// monotonic reads CLOCK_MONOTONIC, which counts from the machine's start.
func monotonic() int64 {
	const clockMonotonic = 1
	var ts syscall.Timespec
	if _, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clockMonotonic, uintptr(unsafe.Pointer(&ts)), 0); errno != 0 {
		panic("faults: bug: clock_gettime: " + errno.Error())
	}
	return ts.Nano()
}
