package memredis

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// gate holds back what clients send while the server is paused.
type gate struct {
	mu     sync.Mutex    // guards the fields below
	opened chan struct{} // closed while the gate is open
	closed bool          // the gate has ended; nothing passes any more

	ended chan struct{} // immutable; close closes it
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{}), ended: make(chan struct{})}
	close(g.opened)
	return g
}

func (g *gate) isOpen() bool {
	select {
	case <-g.opened:
		return true
	default:
		return false
	}
}

func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.isOpen() && !g.closed {
		g.opened = make(chan struct{})
	}
}

func (g *gate) open() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.isOpen() {
		close(g.opened)
	}
}

// close ends the gate and all waits at it.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		close(g.ended)
	}
	g.closed = true
	if !g.isOpen() {
		close(g.opened)
	}
}

// pass waits while the gate is shut.
func (g *gate) pass() error {
	for {
		g.mu.Lock()
		opened, closed := g.opened, g.closed
		isOpen := g.isOpen()
		g.mu.Unlock()
		switch {
		case closed:
			return io.EOF
		case isOpen:
			return nil
		}
		<-opened
	}
}

// gatedConn is the server's end of a connection. Bytes that are read from it have
// passed the gate, and TTLs are moved before a command acts.
type gatedConn struct {
	net.Conn
	gate  *gate
	clock *clock
	delay *atomic.Int64
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if d := time.Duration(c.delay.Load()); d > 0 {
		c.gate.slow(d)
	}
	if gateErr := c.gate.pass(); gateErr != nil {
		return 0, gateErr
	}
	c.clock.catchUp()
	return n, err
}
