package bounded

import (
	"time"
	"unsafe"
)

// BeforeSuspension returns at as it was read before the machine was suspended for a number of whole
// seconds. By the monotonic clock, which stands still meanwhile, it is the same instant. By the wall clock
// it is that much earlier. at is from time.Now outside of testing/synctest, which has one clock only.
func BeforeSuspension(at time.Time, seconds uint64) time.Time {
	if at == at.Round(0) {
		panic("bounded: " + at.String() + " has no monotonic clock")
	}
	const nanosecondBits = 30 // of package time; the seconds are above them
	*(*uint64)(unsafe.Pointer(&at)) -= seconds << nanosecondBits
	return at
}
