// Package work has what the goroutines of a client have in common: a Labeler names them, and a Backlog
// does work that its callers must not wait for.
//
// Profiles and traces show a name as labels. A goroutine gets the labels of the goroutine that starts
// it. Without labels of its own, a goroutine that reads from a connection would have the labels of the
// first caller for hours, and profiles would count its work for that caller.
//
// It imports no package of this project. All its functions and types are safe for concurrent use.
package work

import (
	"context"
	"runtime/pprof"
	"strconv"
	"sync"
)

// The keys of the labels. One says what a goroutine is for. The other is its number among the
// goroutines of its client with the same role.
const (
	LabelKey  = "wheellock"
	NumberKey = "wheellock_number"
)

// Labeler names the goroutines of one client, and numbers them by role from 1. The zero Labeler works,
// and must not be copied. A nil Labeler gives no numbers.
type Labeler struct {
	mu      sync.Mutex // guards the fields below
	started map[string]int
}

// Label returns a function that runs f with the labels of the next goroutine of that role. It must be
// the function that the goroutine starts with.
func (c *Labeler) Label(role string, f func()) func() {
	labels := pprof.Labels(LabelKey, role)
	if c != nil {
		labels = pprof.Labels(LabelKey, role, NumberKey, strconv.Itoa(c.next(role)))
	}
	return func() {
		pprof.SetGoroutineLabels(pprof.WithLabels(context.Background(), labels))
		f()
	}
}

func (c *Labeler) next(role string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started == nil {
		c.started = make(map[string]int)
	}
	c.started[role]++
	return c.started[role]
}
