package run

import (
	"slices"
	"time"

	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

// Plan is what will be measured: every driver at every number of locks.
type Plan struct {
	Drivers  []holders.Driver
	Locks    []int
	Lease    time.Duration
	Duration time.Duration // of a row's hold; at least the lease, because otherwise locks that nobody renews would look held
	Max      bool          // the run looks for the number of locks
	Watch    time.Duration // how long the server's CPU is sampled after the hold; 0: not at all
}

// WatchOf returns how long the server's CPU is sampled in a row with this number of locks. It is
// 0 except for the largest number, because the charts show only the samples of that one.
func (p Plan) WatchOf(locks int) time.Duration {
	if slices.ContainsFunc(p.Locks, func(n int) bool { return n > locks }) {
		return 0
	}
	return p.Watch
}
