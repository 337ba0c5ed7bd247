package pipe

import (
	"context"
	"sync"
	"sync/atomic"
)

// Group has the connections for commands to one server. All methods are safe for concurrent use.
//
// While some calls are under way, each caller writes its request itself, because to wake the writer
// takes longer. With more calls, one write for many of them is less work.
type Group struct {
	shared []*Pipe // immutable

	// atomic
	calls  atomic.Int32 // of Send, until Await returns
	recent recent       // how many calls there were at once
}

// someCalls is how many calls may be under way for a caller to write its request itself.
const someCalls = 12

// NewGroup returns a Group of so many connections. Each is dialled when it is needed. Close the Group
// after ctx has ended. cfg must not be changed any more.
func NewGroup(ctx context.Context, cfg *Config, shared int) *Group {
	g := &Group{shared: make([]*Pipe, shared)}
	for i := range g.shared {
		g.shared[i] = New(ctx, cfg)
	}
	return g
}

// Put queues r. number chooses the connection, and is the same for all requests of a name. r is
// completed in any case.
func (g *Group) Put(r *Request, number uint64) { g.pipe(number).Put(r) }

// Send is Put for a goroutine that calls Await next. It may wait for the answer for some
// milliseconds, see Pipe.Send.
func (g *Group) Send(r *Request, number uint64) {
	n := g.calls.Add(1)
	r.ticket = ticket{group: g}
	p := g.pipe(number)
	if most := g.recent.most(n); n == 1 || most > someCalls {
		p.Send(r)
	} else if !p.tryLead(r) && !p.writeNow(r) {
		p.Put(r)
	}
}

// ticket is the part of a call in a Group, from Send to the end of Await. The zero ticket has none.
type ticket struct{ group *Group }

func (t ticket) end() {
	if t.group != nil {
		t.group.calls.Add(-1)
	}
}

// recent knows the most calls that were under way at once, of the last recentCalls calls or more.
// Many goroutines that an answer has woken together begin their next calls one after the other, so
// the calls of this moment alone do not tell how many there are.
type recent struct {
	now, before atomic.Int32
	counted     atomic.Uint32
}

// recentCalls is after how many calls the most calls until then begin to be forgotten.
const recentCalls = 512

// most records that n calls are under way, and returns how many there were at most.
func (c *recent) most(n int32) int32 {
	for m := c.now.Load(); n > m && !c.now.CompareAndSwap(m, n); m = c.now.Load() {
	}
	if c.counted.Add(1)%recentCalls == 0 {
		c.before.Store(c.now.Swap(n))
	}
	return max(n, c.now.Load(), c.before.Load())
}

func (g *Group) pipe(number uint64) *Pipe { return g.shared[number%uint64(len(g.shared))] }

// Drop closes the connections in use, because the server's epoch has ended.
func (g *Group) Drop() {
	var wg sync.WaitGroup
	for _, p := range g.shared {
		wg.Go(p.Drop)
	}
	wg.Wait()
}

// Close fails all requests with why, including later ones. It returns when no goroutine of the
// Group runs.
func (g *Group) Close(why error) {
	for _, p := range g.shared {
		p.Close(why)
	}
}
