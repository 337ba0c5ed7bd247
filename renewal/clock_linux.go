package renewal

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2). Neither of them can be set. They differ by the time
// in which the machine was suspended, which only CLOCK_BOOTTIME counts.
const (
	clockMonotonic = 1
	clockBoottime  = 7
)

// findSuspensionClock returns a function that returns how long the machine was suspended since
// it was started. It returns nil if this system cannot tell.
func findSuspensionClock() func() time.Duration {
	if _, ok := gettime(clockBoottime); !ok {
		return nil
	}
	return func() (slept time.Duration) {
		// If the process is stopped between the two readings, the difference is too large.
		// The third reading shows that, and all are repeated.
		for range 3 {
			mono, _ := gettime(clockMonotonic)
			boot, _ := gettime(clockBoottime)
			slept = boot - mono
			if after, _ := gettime(clockMonotonic); after-mono < time.Millisecond {
				break
			}
		}
		return slept
	}
}

func gettime(clock uintptr) (time.Duration, bool) {
	var t syscall.Timespec
	_, _, errno := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, clock, uintptr(unsafe.Pointer(&t)), 0)
	return time.Duration(t.Nano()), errno == 0
}

// whySuspended is the text of the Reason Suspended.
const whySuspended = "this process, or its machine, was stopped for too long"
