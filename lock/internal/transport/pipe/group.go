package pipe

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"
)

// Group has the connections for commands to one server. All methods are safe for concurrent use.
//
// While a few calls are under way, each leads a connection (see turn), whatever the name of its
// request. So requests of one name arrive in any order. But a request that was posted, such as the
// release of a hold that no caller has, is not overtaken by a request of its name that is sent later:
// while a posted request is under way, each name keeps to its own connection.
//
// While some calls are under way, each caller writes its request itself, because to wake the writer
// takes longer. With more calls, one write for many of them is less work.
type Group struct {
	// immutable
	pipes []*Pipe
	seed  maphash.Seed // for the choice of the connection of a name

	// atomic
	calls  atomic.Int32 // calls of Send for which Await has not returned
	posted atomic.Int32 // requests that were posted and are under way
	peak   peakCalls    // the most calls at once, lately
}

const (
	// fewCalls is how many calls may be under way for a call to use any connection.
	fewCalls = 2
	// someCalls is how many calls may be under way for a caller to write its request itself.
	someCalls = 12
)

// NewGroup returns a Group of connections Pipes. Each dials when it is needed. Close the Group after
// ctx has ended. cfg must not be changed any more.
func NewGroup(ctx context.Context, cfg *Config, connections int) *Group {
	g := &Group{pipes: make([]*Pipe, connections), seed: maphash.MakeSeed()}
	for i := range g.pipes {
		g.pipes[i] = New(ctx, cfg)
	}
	return g
}

// Put queues r. r is completed in any case.
func (g *Group) Put(r *Request) {
	if r.state.Load() == posted && r.postCount == nil {
		r.postCount = &g.posted
		g.posted.Add(1)
	}
	g.pipeOf(r, 0).Put(r)
}

// Send is Put for a goroutine that calls Await next. Send may wait for the answer for some
// milliseconds, see leadTime.
func (g *Group) Send(r *Request) {
	r.callCount = &g.calls
	n := g.calls.Add(1)
	most := g.peak.record(n)
	p := g.pipeOf(r, 0)
	if n > 1 && most <= fewCalls && g.posted.Load() == 0 {
		p = g.pickIdle(r)
	}
	if len(r.args.Text()) > maxCallerWrite || !p.lead(r) && (most > someCalls || !p.writeNow(r)) {
		p.Put(r)
	}
}

// pickIdle returns a connection over which no request is under way. If there is none, it returns the
// connection of r's name, and makes the others dial if they have not yet.
func (g *Group) pickIdle(r *Request) *Pipe {
	for i := range g.pipes {
		if p := g.pipeOf(r, i); p.isIdle() {
			return p
		}
	}
	for _, p := range g.pipes {
		p.warm()
	}
	return g.pipeOf(r, 0)
}

// peakCalls records the most calls that were under way at once, during the last callsPerPeriod calls
// or up to twice as many. Many goroutines that an answer has woken together
// begin their next calls one after the other, so the calls of one moment do not tell how many
// goroutines there are.
type peakCalls struct {
	thisPeriod, lastPeriod atomic.Int32
	callCount              atomic.Uint32
}

// callsPerPeriod is the number of calls in a period of peakCalls. The peak of a period is forgotten
// at the end of the next period.
const callsPerPeriod = 512

// record records that n calls are under way, and returns the most calls of this period and the last.
func (c *peakCalls) record(n int32) int32 {
	for m := c.thisPeriod.Load(); n > m && !c.thisPeriod.CompareAndSwap(m, n); m = c.thisPeriod.Load() {
	}
	if c.callCount.Add(1)%callsPerPeriod == 0 {
		c.lastPeriod.Store(c.thisPeriod.Swap(n))
	}
	return max(n, c.thisPeriod.Load(), c.lastPeriod.Load())
}

// pipeOf returns the nth connection, from that of r's name on.
func (g *Group) pipeOf(r *Request, nth int) *Pipe {
	return g.pipes[(maphash.String(g.seed, r.key)+uint64(nth))%uint64(len(g.pipes))]
}

// Drop closes the connections in use, because the server's epoch has ended.
func (g *Group) Drop() {
	var wg sync.WaitGroup
	for _, p := range g.pipes {
		wg.Go(p.Drop)
	}
	wg.Wait()
}

// Close fails all requests with why, including later ones. It returns when no goroutine of the
// Group runs.
func (g *Group) Close(why error) {
	for _, p := range g.pipes {
		p.Close(why)
	}
}
