package faults

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// proxy stands between the processes and the server and does to their
// connections what a network can do. What it holds back it delivers late, as a
// network does, even if the sender has left meanwhile.
type proxy struct {
	ln net.Listener   // immutable
	wg sync.WaitGroup // every goroutine

	requests, replies *gate // immutable; shut in a black hole

	delay, jitter atomic.Int64 // ns for each chunk in each direction
	cuts          atomic.Int64 // replies that are still to be cut
	cutsDone      atomic.Int64

	mu     sync.Mutex // guards what follows
	server func() (net.Conn, error)
	links  map[*link]bool
	closed bool
}

// link is one connection through a proxy.
type link struct {
	client, server net.Conn
	subscribed     atomic.Bool
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

func (g *gate) pass() {
	g.mu.Lock()
	open := g.open
	g.mu.Unlock()
	<-open
}

func newProxy(t Target) (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{ln: ln, requests: newGate(), replies: newGate(), links: map[*link]bool{}}
	p.lead(t)
	p.wg.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			p.wg.Go(func() { p.serve(c) })
		}
	})
	return p, nil
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

// lead makes new connections go to t.
func (p *proxy) lead(t Target) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.server = func() (net.Conn, error) { return net.DialTimeout(t.Network(), t.Addr(), time.Second) }
}

func (p *proxy) close() {
	p.heal()
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.ln.Close()
	p.reset(false)
	p.wg.Wait()
}

// heal ends what is being done to all connections.
func (p *proxy) heal() {
	p.delay.Store(0)
	p.jitter.Store(0)
	p.cuts.Store(0)
	p.requests.set(true)
	p.replies.set(true)
}

// open is the number of connections.
func (p *proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// reset breaks all connections, or those that subscribe, and returns how many
// they were.
func (p *proxy) reset(subscribers bool) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for l := range p.links {
		if !subscribers || l.subscribed.Load() {
			l.reset()
			n++
		}
	}
	return n
}

// reset ends both ends with RST, so that what is under way is gone.
func (l *link) reset() {
	for _, c := range []net.Conn{l.client, l.server} {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
	}
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	dial := p.server
	p.mu.Unlock()
	server, err := dial()
	if err != nil {
		(&link{client: client, server: client}).reset()
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	p.links[l] = true
	if p.closed {
		l.reset()
	}
	p.mu.Unlock()
	done := make(chan struct{})
	p.wg.Go(func() {
		defer close(done)
		p.pump(l, client, server, p.requests, true)
	})
	p.pump(l, server, client, p.replies, false)
	<-done
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pump passes on what comes from one end, until that or the other ends.
func (p *proxy) pump(l *link, from, to net.Conn, g *gate, request bool) {
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if request && bytes.Contains(bytes.ToUpper(buf[:min(n, 64)]), []byte("SUBSCRIBE")) {
			l.subscribed.Store(true)
		}
		if d := p.delay.Load(); d > 0 && n > 0 {
			time.Sleep(time.Duration(d + rand.Int64N(p.jitter.Load()+1)))
		}
		g.pass()
		if !request && n > 1 && p.cut() {
			_, _ = to.Write(buf[:n/2])
			// What was written must arrive before the end does.
			time.Sleep(time.Millisecond)
			err = net.ErrClosed
		} else if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if err != nil {
			_ = from.Close()
			_ = to.Close()
			return
		}
	}
}

// cut says whether this reply is to be cut.
func (p *proxy) cut() bool {
	for {
		left := p.cuts.Load()
		if left <= 0 {
			return false
		}
		if p.cuts.CompareAndSwap(left, left-1) {
			p.cutsDone.Add(1)
			return true
		}
	}
}
