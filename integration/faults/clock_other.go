//go:build !linux

package faults

import "time"

// monotonic returns the time of day, because no monotonic clock is known here that
// processes share.
func monotonic() int64 { return time.Now().UnixNano() }
