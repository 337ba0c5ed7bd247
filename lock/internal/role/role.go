// Package role names the goroutines of a client. Profiles and traces show the name as labels, so
// that what a client does by itself is not counted to whoever made the call that started it:
// a goroutine has the labels of the one that starts it, and one that reads from a connection
// would keep those of the first caller for hours.
//
// It imports nothing of this project. Everything in it is safe for concurrent use.
package role

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync"
)

// The keys of the labels: what a goroutine is for, and its number among those of its client that
// are for the same.
const (
	Label  = "wheellock"
	Number = "wheellock_number"
)

// Cast names the goroutines of one client, and numbers them by role from 1. The zero Cast is
// ready, and must not be copied. A nil Cast numbers nothing.
type Cast struct {
	mu      sync.Mutex // guards what follows
	started map[string]int
}

// As returns f as what the next goroutine of that role runs from its beginning.
func (c *Cast) As(role string, f func()) func() {
	labels := pprof.Labels(Label, role)
	if c != nil {
		labels = pprof.Labels(Label, role, Number, strconv.Itoa(c.next(role)))
	}
	return func() {
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
		f()
	}
}

func (c *Cast) next(role string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started == nil {
		c.started = make(map[string]int)
	}
	c.started[role]++
	return c.started[role]
}
