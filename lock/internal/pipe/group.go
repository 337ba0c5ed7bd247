package pipe

import (
	"context"
	"sync"
)

// Group has the connections for commands to one server. All methods are safe for concurrent use.
type Group struct {
	shared []*Pipe // immutable
}

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

// Send is Put for a goroutine that calls Await next, see Pipe.Send.
func (g *Group) Send(r *Request, number uint64) { g.pipe(number).Send(r) }

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
