package lock

import "time"

// Kept is how many things x keeps for the contexts that it gave out.
func (x *Held) Kept() int {
	w := x.watched()
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.shared) + len(w.cancels)
}

// PassLimit is passLimit.
func PassLimit(n int, lease time.Duration, members int) time.Duration {
	return passLimit(n, lease, members)
}

// Waiting is how many stand in the RedLock's line.
func (r *RedLock) Waiting() int {
	r.line.mu.Lock()
	defer r.line.mu.Unlock()
	return r.line.queue.Len()
}

// GateLen is how many calls of its client wait for the mutex.
func GateLen(m *Mutex) int {
	m.c.mu.Lock()
	defer m.c.mu.Unlock()
	if g := m.c.gates[m.name]; g != nil {
		return g.waiters.Len()
	}
	return 0
}

// HoldTables makes whoever wants the client's tables wait until free is called.
func HoldTables(c *Client) (free func()) {
	c.mu.Lock()
	return c.mu.Unlock
}

// PauseForgetting keeps lost holds in the client's tables until resume is called.
func PauseForgetting(c *Client) (resume func()) {
	c.lost.mu.Lock()
	defer c.lost.mu.Unlock()
	c.lost.running = true
	return func() { go c.lost.run() }
}

// JoinMany makes n calls wait for a lock and returns what makes the i-th leave.
func JoinMany(c *Client, name string, n int) (leave func(i int)) {
	waiters := make([]*waiter, n)
	for i := range waiters {
		waiters[i] = c.join(&attempt{c: c, name: name})
	}
	return func(i int) { c.quit(name, waiters[i]) }
}

// LineUpMany is JoinMany for semaphores and the like.
func LineUpMany(c *Client, name string, n int) (leave func(i int)) {
	places, e := make([]*place, n), &errand{}
	var l *waitLine
	for i := range places {
		l, places[i] = c.lineUp(name, e)
	}
	return func(i int) { c.lineLeave(name, l, places[i], e) }
}

// JoinMany is JoinMany for a RedLock.
func (r *RedLock) JoinMany(n int) (leave func(i int)) {
	waits := make([]*redWait, n)
	for i := range waits {
		waits[i] = &redWait{r: r, wake: make(chan struct{}, 1)}
		r.line.join(waits[i])
	}
	return func(i int) { r.line.leave(waits[i]) }
}

// GrantWhileClosing plays the steps of a hand-over between which Close begins: a
// waiter looks at its turn when it was handed the lock. It reports whether the
// waiter takes the lock, and whether a Held of the hold is told of Close.
func GrantWhileClosing(held *Held, closeBetween func()) (taken, told bool) {
	h, c := held.h, held.h.c
	w := c.join(&attempt{c: c, name: h.name, kind: h.kind})
	defer c.quit(h.name, w)
	next := &hold{c: c, name: h.name, kind: h.kind, count: 1}
	closeBetween()
	if c.deliver(next, w) {
		turn, _ := c.turnOf(h.name, w)
		taken = turn == grantedTurn
	}
	next.mu.Lock()
	defer next.mu.Unlock()
	return taken, next.closing
}

// Callers is how many owners' calls the client has in mind.
func Callers(c *Client) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.callers)
}
