//go:build !linux

package faults

import "time"

// monotonic is the time of day where no clock is known that processes share
// and nobody sets.
func monotonic() int64 { return time.Now().UnixNano() }
