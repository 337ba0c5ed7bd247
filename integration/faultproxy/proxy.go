package faultproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Config says what a Proxy does from the beginning.
type Config struct {
	// Server dials the server. Without one, commands that are passed on are lost.
	Server func() (net.Conn, error)

	// Decide returns the fate of each command; nil passes all on. It may be
	// called by several goroutines at once, and may wait: then later commands of
	// the same connection wait too.
	Decide func(Command) Fate

	// TLS makes the proxy speak TLS with clients. If it is nil, the proxy does not.
	TLS *tls.Config
}

// A Proxy stands between clients and a server. All methods are safe for concurrent
// use.
type Proxy struct {
	// immutable
	ln                net.Listener
	addr              string
	decide            func(Command) Fate
	stop              chan struct{} // closed by Close
	dialling          *gate         // shut while no Dial succeeds
	requests, replies direction

	wg sync.WaitGroup // every goroutine

	accepted   atomic.Int64
	unanswered atomic.Int64 // calls of scripts that have come and may still be answered

	mu         sync.Mutex // guards what follows
	server     func() (net.Conn, error)
	conns      map[*conn]bool
	generation int // how often breakAll was called
	closed     bool
	late       int // commands with the fate Late that were not sent yet
	waiting    []*waiting
	heldBack   map[string]chan struct{} // by script; closed by LetThrough
	arrived    map[string]int           // by script, since HoldBack
	faults     map[string]int           // see Faults

	holdNext string  // see HoldFlowOf
	held     []*conn // the connections that HoldFlowOf holds back
}

// waiting is a command with the fate AfterThree that was not sent yet.
type waiting struct {
	calls int // how many more calls must come before it is sent
	args  []string
}

// Server is a server before which a Proxy can stand, for instance a *redistest.Server.
type Server interface {
	Network() string
	Addr() string
}

// Before returns a function that dials s.
func Before(s Server) func() (net.Conn, error) {
	return func() (net.Conn, error) { return net.DialTimeout(s.Network(), s.Addr(), time.Second) }
}

// Start starts a Proxy on a free port of the loopback.
func Start(cfg Config) (*Proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		ln: ln, addr: ln.Addr().String(), decide: cfg.Decide, stop: make(chan struct{}), dialling: newGate(),
		requests: direction{gate: newGate()}, replies: direction{gate: newGate()},
		server: cfg.Server, conns: map[*conn]bool{}, heldBack: map[string]chan struct{}{}, arrived: map[string]int{}, faults: map[string]int{},
	}
	if cfg.TLS != nil {
		p.ln = tls.NewListener(ln, cfg.TLS)
	}
	p.wg.Go(func() {
		for {
			client, err := p.ln.Accept()
			if err != nil {
				return
			}
			p.accepted.Add(1)
			p.wg.Go(func() { p.serve(client) })
		}
	})
	return p, nil
}

// Close breaks all connections, sends the late commands, and returns when no goroutine of
// p runs any more.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		close(p.stop)
	}
	p.closed = true
	p.mu.Unlock()
	p.Heal()
	p.LetThrough()
	_ = p.ln.Close()
	p.Reset()
	p.wg.Wait()
}

// Addr returns the address at which p listens.
func (p *Proxy) Addr() string { return p.addr }

// Dial connects to p. It waits while p refuses dials.
func (p *Proxy) Dial(ctx context.Context) (redis.Conn, error) {
	if err := p.dialling.pass(ctx.Done()); err != nil {
		return nil, errors.Join(err, ctx.Err())
	}
	return redis.DialContext(ctx, "tcp", p.addr)
}

// Pool returns a pool whose connections Dial makes.
func (p *Proxy) Pool() *redis.Pool { return &redis.Pool{DialContext: p.Dial} }

// SetServer makes new connections go to another server.
func (p *Proxy) SetServer(server func() (net.Conn, error)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = server
}

// Accepted is how many connections p has accepted.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

// Open is the number of connections.
func (p *Proxy) Open() int { return p.count(func(*conn) bool { return true }) }

// Subscribers is the number of connections that have subscribed.
func (p *Proxy) Subscribers() int { return p.count((*conn).hasSubscribed) }

func (p *Proxy) count(which func(*conn) bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for c := range p.conns {
		if which(c) {
			n++
		}
	}
	return n
}

// Heal ends the faults of all connections.
func (p *Proxy) Heal() {
	p.SetRequests(Flow)
	p.SetReplies(Flow)
	p.dialling.set(true)
	p.resumeFlows()
}

// SetRequests sets what happens to the bytes that clients send from now on.
func (p *Proxy) SetRequests(t Traffic) { p.requests.set(t) }

// SetReplies sets what happens to the bytes that the server sends from now on.
func (p *Proxy) SetReplies(t Traffic) { p.replies.set(t) }

// BlackHole loses everything in both directions, and lets no Dial succeed.
func (p *Proxy) BlackHole() {
	p.dialling.set(false)
	p.SetRequests(Lose)
	p.SetReplies(Lose)
}

// HoldFlowOf holds back the connection on which a script of package lock is called
// next, that call and all that comes after it in both directions, until Heal. Other
// connections live.
func (p *Proxy) HoldFlowOf(script string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holdNext = script
}

// CountHeldFlows is how many connections HoldFlowOf holds back now.
func (p *Proxy) CountHeldFlows() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.held)
}

// holdFlowIfNext holds c back from now on if HoldFlowOf waits for a call of this script.
func (p *Proxy) holdFlowIfNext(c *conn, script string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if script != "" && script == p.holdNext && !p.closed {
		p.holdNext = ""
		p.held = append(p.held, c)
		c.flow.set(false)
	}
}

// resumeFlows ends what HoldFlowOf did.
func (p *Proxy) resumeFlows() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.held {
		c.flow.set(true)
	}
	p.held, p.holdNext = nil, ""
}

// RefuseDials lets no Dial succeed.
func (p *Proxy) RefuseDials() { p.dialling.set(false) }

// Reset breaks all connections, and data in flight is lost. It returns the number of
// connections.
func (p *Proxy) Reset() int { return p.breakAll((*conn).reset) }

// HangUp ends all clients' connections, and no Dial succeeds for d. Data that clients
// have sent still arrives.
func (p *Proxy) HangUp(d time.Duration) {
	if d > 0 {
		p.dialling.set(false)
		time.AfterFunc(d, func() { p.dialling.set(true) })
	}
	p.breakAll((*conn).hangUp)
}

// breakAll ends all connections. It also ends connections that are being made, because they
// might lead to a server that p has left.
func (p *Proxy) breakAll(end func(*conn)) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.generation++
	for c := range p.conns {
		end(c)
	}
	return len(p.conns)
}

// Publish sends a message to all connections that have subscribed, in the server's place.
func (p *Proxy) Publish(message any) {
	p.mu.Lock()
	var to []*conn
	for c := range p.conns {
		if c.hasSubscribed() {
			to = append(to, c)
		}
	}
	p.mu.Unlock()
	for _, c := range to {
		c.push(AppendReply(nil, message))
	}
}

// Traffic says what happens to the bytes of one direction.
type Traffic int

const (
	Flow Traffic = iota
	Hold         // they come late
	Lose         // they never come
)

// direction is from the clients to the server, or back.
type direction struct {
	gate *gate // immutable; shut while the bytes are held back
	lose atomic.Bool
}

func (d *direction) set(t Traffic) {
	d.lose.Store(t == Lose)
	d.gate.set(t != Hold)
}

// gate lets pass while it is open.
type gate struct {
	mu   sync.Mutex // guards open
	open chan struct{}
}

func newGate() *gate {
	g := &gate{open: make(chan struct{})}
	close(g.open)
	return g
}

func (g *gate) set(open bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-g.open:
		if !open {
			g.open = make(chan struct{})
		}
	default:
		if open {
			close(g.open)
		}
	}
}

var errShut = errors.New("faultproxy: nobody can connect")

// pass waits until g is open, or done is closed.
func (g *gate) pass(done <-chan struct{}) error {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	select {
	case <-open:
		return nil
	case <-done:
		return errShut
	}
}

// trafficReader is one end of a connection. Its bytes wait at the gate of their direction.
type trafficReader struct {
	net.Conn
	d *direction
}

func (c trafficReader) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	_ = c.d.gate.pass(nil)
	return n, err
}
