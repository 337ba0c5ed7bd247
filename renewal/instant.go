package renewal

import (
	"math"
	"time"
)

// instant is a point in time in nanoseconds from the watchdog's start, by the
// monotonic clock.
type instant int64

const never instant = math.MaxInt64

// plus saturates instead of overflowing.
func (t instant) plus(d time.Duration) instant {
	if sum := t + instant(d); sum >= t || d < 0 {
		return sum
	}
	return never
}

// moment is a point in time by both clocks.
type moment struct {
	at   instant
	wall int64 // Unix ns
}
