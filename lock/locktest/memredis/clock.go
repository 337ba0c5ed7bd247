package memredis

import (
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// clock moves the TTLs of a miniredis by the time that has passed.
type clock struct {
	// immutable
	redis    *miniredis.Miniredis
	adaptive bool

	mu         sync.Mutex    // guards the fields below; held while TTLs move
	last       time.Time     // the time up to which TTLs have moved
	resolution time.Duration // the shortest step
}

const (
	maxResolution = 50 * time.Millisecond
	// Moving TTLs may take 1/costShare of the time.
	costShare = 20
)

func newClock(r *miniredis.Miniredis, resolution time.Duration, adaptive bool) *clock {
	return &clock{redis: r, adaptive: adaptive, last: time.Now(), resolution: resolution}
}

// catchUp moves TTLs up to now, or to a time less than the resolution before now.
func (c *clock) catchUp() {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	elapsed := now.Sub(c.last)
	if elapsed <= 0 || elapsed < c.resolution {
		return
	}
	c.redis.FastForward(elapsed)
	c.last = now
	if c.adaptive {
		cost := time.Since(now)
		// With more than about ten thousand keys, even one step every 50 ms would
		// take most of the time.
		c.resolution = max(min(costShare*cost, maxResolution), 2*cost)
	}
}
