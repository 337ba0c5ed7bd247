package wait

import (
	"context"
	"sync/atomic"
	"time"
)

// Deadlines limits the time of calls that the contexts of their callers do not end. Calls that
// begin at about the same time share one timer, because a timer per call took an eighth of the
// client's CPU per Lock and Unlock.
type Deadlines struct {
	Limit time.Duration // immutable after the first Bound

	latest atomic.Pointer[deadline] // of the calls that begin now; nil before the first
}

// parts is the most timers that run while calls begin. A call ends before the limit by at most
// 1/parts of the limit.
const parts = 64

// deadline is the end of calls that began at about the same time.
type deadline struct {
	at   time.Time
	last time.Time     // calls that begin after last have another deadline
	done chan struct{} // closed at at
}

// Bound returns a context that carries the values of ctx. It ends when the limit is over, and
// does not end with ctx.
func (p *Deadlines) Bound(ctx context.Context) context.Context {
	now := time.Now()
	d := p.latest.Load()
	if d == nil || now.After(d.last) {
		d = &deadline{at: now.Add(p.Limit), last: now.Add(p.Limit / parts), done: make(chan struct{})}
		time.AfterFunc(p.Limit, func() { close(d.done) })
		p.latest.Store(d) // another call may do so at the same time; then each has its own
	}
	return &bounded{ctx, d}
}

// bounded is a context with the values of another one, and the end of a deadline.
type bounded struct {
	values context.Context
	end    *deadline
}

func (c *bounded) Deadline() (time.Time, bool) { return c.end.at, true }
func (c *bounded) Done() <-chan struct{}       { return c.end.done }
func (c *bounded) Value(key any) any           { return c.values.Value(key) }

func (c *bounded) Err() error {
	select {
	case <-c.end.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Later returns the later one of two times.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
