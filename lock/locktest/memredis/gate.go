package memredis

import (
	"io"
	"net"
	"sync"
)

// gate holds back what clients send while the server is paused.
type gate struct {
	mu     sync.Mutex    // guards all below
	opened chan struct{} // closed while the gate is open
	closed bool          // for good; nothing passes any more
}

func newGate() *gate {
	g := &gate{opened: make(chan struct{})}
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

// close ends all waiting; it is the end of the gate.
func (g *gate) close() {
	g.mu.Lock()
	defer g.mu.Unlock()
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

// gatedConn is the server's end of a connection. What is read from it has
// passed the gate, and TTLs have been moved before anything acts on it.
type gatedConn struct {
	net.Conn
	gate  *gate
	clock *clock
}

func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if gateErr := c.gate.pass(); gateErr != nil {
		return 0, gateErr
	}
	c.clock.catchUp()
	return n, err
}
