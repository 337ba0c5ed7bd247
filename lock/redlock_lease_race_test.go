//go:build race

package lock_test

import "time"

// redLease is longer where the race detector makes everything slower.
const redLease = 5 * time.Second
