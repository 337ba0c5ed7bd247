//go:build !race

package lock_test

import "time"

// redLease is the lease of RedLocks: so short that tests can wait for its end, and so long that
// none is lost while a busy machine pauses for two seconds.
const redLease = 3 * time.Second
