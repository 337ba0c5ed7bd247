package servers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/topology"
)

// Router knows which server has a key now, and owns the servers. All methods are safe
// for concurrent use. A Router must be closed.
type Router struct {
	// immutable after New
	cfg         Config
	traits      topology.Traits // of cfg.Topology; the zero Traits without one
	period      time.Duration   // between two looks at the Topology
	ctx         context.Context // ends when Close begins, with its reason as the cause; bounds dials
	cancel      context.CancelCauseFunc
	single      *Server       // the one server; nil if keys have slots
	unknown     *Server       // has the slots without a known server; it has no connections; nil without slots
	firstLayout chan struct{} // closed at the first Layout, even if that is an error; nextLayout at first
	hint        chan struct{} // of capacity 1, for Topology.Follow
	start       sync.Once     // of Follow, when a server is first needed
	wg          sync.WaitGroup

	// atomic
	slots   *[keys.Slots]atomic.Pointer[Server] // by slot: unknown at first, then the last known server; nil without slots
	failure atomic.Pointer[error]               // the error of the last Layout without servers; nil before
	isNamed atomic.Bool                         // some Layout was no error
	moved   atomic.Bool                         // slots has changed, and Config.Moved was not called yet

	nextLayout atomic.Pointer[chan struct{}] // closed after the next Layout, even if that is an error

	mu      sync.Mutex // guards the fields below, Server.isWanted and Server.fromRedirect; never held during I/O, nor while a function of Config or an Attachment runs
	servers map[string]*Server
	unnamed int // how many servers no Layout has ever named
	closed  bool

	announced string // the commands for publishing, as last logged; guarded by mu
}

// MostServers is the most servers of a Layout. A faulty node may name a server for each slot.
const MostServers = 1000

// MostUnnamed is the most servers that no Layout has named. A faulty server may answer every
// request with a redirection to another address. This bounds what such a server can cost (P30).
const MostUnnamed = 64

// ErrNoServer is returned when no server is known that has the key of a request. No
// byte of the request was written.
var ErrNoServer = errors.New("no server is known that has the key")

// New returns a Router. It does no I/O. Without slots it opens the one server, and
// returns the error of Config.Opened.
func New(cfg Config) (*Router, error) {
	r := &Router{
		cfg: cfg, period: min(cfg.Lease/6, maxPeriod),
		firstLayout: make(chan struct{}), hint: make(chan struct{}, 1), servers: make(map[string]*Server),
	}
	if cfg.Topology != nil {
		r.traits = cfg.Topology.Traits()
	}
	r.nextLayout.Store(&r.firstLayout)
	r.ctx, r.cancel = context.WithCancelCause(context.Background())
	if !r.traits.Slots {
		r.single = newServer(r, "")
		if !r.single.ensureOpen() {
			r.cancel(r.single.err)
			return nil, r.single.err
		}
		return r, nil
	}
	r.unknown = newServer(r, "")
	r.slots = new([keys.Slots]atomic.Pointer[Server])
	for i := range r.slots {
		r.slots[i].Store(r.unknown)
	}
	return r, nil
}

// Server returns the server that has key, as far as is known. It never returns nil. If
// no server is known, requests at the returned Server fail with ErrNoServer.
func (r *Router) Server(key string) *Server {
	if r.single != nil {
		return r.single
	}
	return r.slots[keys.Slot(key)].Load()
}

// Send sends req to the server that has key. The caller must then wait for the answer. If no
// server is known, Send waits for the first Layout, as long as ctx allows.
func (r *Router) Send(ctx context.Context, key string, req *pipe.Request) {
	s := r.Server(key)
	if s == r.unknown {
		r.awaitLayout(ctx)
		s = r.Server(key)
	}
	s.Send(req)
}

// AwaitServer waits for the first Layout, as long as ctx allows. It returns nil if a server is
// known then, and otherwise the reason.
func (r *Router) AwaitServer(ctx context.Context) error {
	r.awaitLayout(ctx)
	if r.single == nil && len(r.Servers()) == 0 {
		return r.noServerError()
	}
	return nil
}

// Close ends the Router's goroutines and connections, and returns when no goroutine of
// the Router runs. From then on, requests at a server that was open fail with why, and
// requests at others with ErrNoServer and why. Close may be called again.
func (r *Router) Close(why error) {
	r.cancel(why)
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.wg.Wait()
	for _, s := range r.Servers() { // no server is added any more
		s.close(why)
	}
	if r.unknown != nil {
		r.unknown.close(why)
	}
	if r.single != nil {
		r.single.close(why)
	}
}

// findOrAdd returns the server of that name, and makes it if there is none. named says that a Layout
// names it. findOrAdd returns Router.unknown for a new name after Close. It also does so for a new
// name from a redirection if there are MostUnnamed servers that no Layout has named.
func (r *Router) findOrAdd(name string, named bool) *Server {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.servers[name]
	if s == nil {
		if r.closed || !named && r.unnamed >= MostUnnamed {
			return r.unknown
		}
		s = newServer(r, name)
		r.servers[name] = s
		s.fromRedirect = true
		r.unnamed++
	}
	if named && s.fromRedirect {
		s.fromRedirect = false
		r.unnamed--
	}
	s.isWanted = true
	return s
}

// Servers returns the servers that are known, sorted by name.
func (r *Router) Servers() []*Server {
	if r.single != nil {
		return []*Server{r.single}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sortedServersLocked()
}

// sortedServersLocked returns all servers, always in the same order.
func (r *Router) sortedServersLocked() []*Server {
	return slices.SortedFunc(maps.Values(r.servers), byName)
}

func byName(a, b *Server) int { return cmp.Compare(a.name, b.name) }

// moveSlot records that a server redirected slot to the server of that name, which it returns.
func (r *Router) moveSlot(slot int, name string) *Server {
	s := r.findOrAdd(name, false)
	if s == r.unknown { // the slot stays with its last server
		r.hintTopology()
		return s
	}
	if r.slots[slot].Swap(s) != s {
		r.moved.Store(true)
		r.hintTopology()
	}
	return s
}

// checkLayout returns an error if l gives a slot to a server that it does not name, or has too many
// servers. Those that are not yet retired count too.
func (r *Router) checkLayout(l topology.Layout) error {
	for slot, i := range l.Slots {
		if i >= len(l.Servers) {
			return fmt.Errorf("the Layout gives slot %d to its server %d, and has %d servers", slot, i, len(l.Servers))
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	all := len(r.servers)
	for _, s := range l.Servers {
		if r.servers[s.Name] == nil {
			all++
		}
	}
	if len(l.Servers) <= MostServers && all <= 2*MostServers+MostUnnamed {
		return nil
	}
	return fmt.Errorf("the Layout names %d servers, %d with those of the last minutes: more than %d are not used", len(l.Servers), all, MostServers)
}

// findNameless returns the server that a redirection by from means, but does not name. For MOVED that
// is the server that has the slot now, if it is another one. Otherwise it is the only other server of a
// Layout with that port, such as ":6379". If there is not exactly one, findNameless returns nil.
func (r *Router) findNameless(from *Server, to pipe.Redirection, port string) *Server {
	if s := r.slots[to.Slot].Load(); s != from && s != r.unknown && !to.Ask {
		return s
	}
	r.mu.Lock()
	var found []string
	for name, s := range r.servers {
		if !s.fromRedirect && s != from && strings.HasSuffix(name, port) {
			found = append(found, name)
		}
	}
	r.mu.Unlock()
	if len(found) != 1 {
		r.hintTopology()
		return nil
	}
	to.Server = found[0]
	return from.FollowRedirection(to)
}

// hasSlot reports whether some slot is at s.
func (r *Router) hasSlot(s *Server) bool {
	for i := range r.slots {
		if r.slots[i].Load() == s {
			return true
		}
	}
	return false
}

// noServerError returns ErrNoServer with the reason of Close, or else with the last error of the
// Topology.
func (r *Router) noServerError() error {
	if why := context.Cause(r.ctx); why != nil {
		return fmt.Errorf("%w: %w", ErrNoServer, why)
	}
	if failure := r.failure.Load(); failure != nil {
		return fmt.Errorf("%w: %w", ErrNoServer, *failure)
	}
	return ErrNoServer
}
