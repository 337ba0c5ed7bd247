package simulation_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/points"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/transport/endpoint"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// cables is the network between one client and the server. Data takes time, connections
// fail, and data sent before a failure may still arrive.
type cables struct {
	// immutable
	connect func(ctx context.Context) (net.Conn, error) // to the server
	slowest time.Duration                               // the longest transmission time without a fault

	mu     sync.Mutex // guards what follows
	rng    *rand.Rand
	down   time.Time // until then every dial fails
	silent time.Time // until then nothing arrives, in either direction
	conns  map[*conn]bool
	healed bool // nothing is slow or fails any more
}

var errDown = errors.New("the network is down")

func newCables(connect func(ctx context.Context) (net.Conn, error), slowest time.Duration, seed, id uint64) *cables {
	return &cables{connect: connect, slowest: slowest, rng: rand.New(rand.NewPCG(seed, id)), conns: map[*conn]bool{}}
}

// large is a server for complete clients, which reach it over connections.
type large struct {
	// immutable
	server  *memredis.Server
	asks    redis.Conn // the oracle's own
	seed    uint64
	slowest time.Duration
}

func newLarge(ctx context.Context, seed uint64, slowest time.Duration) (*large, error) {
	server, err := memredis.Start(memredis.Config{})
	if err != nil {
		return nil, err
	}
	asks, err := server.DialContext(ctx)
	return &large{server: server, asks: asks, seed: seed, slowest: slowest}, err
}

func (s *large) client(id, _ int, cfg lock.Config) (*lock.Client, []trouble, error) {
	connect := func(ctx context.Context) (net.Conn, error) { return s.server.DialNet(ctx, "", "") }
	n := newCables(connect, s.slowest, s.seed, uint64(id)+10)
	c, err := lock.New(n.pool(), cfg)
	return c, []trouble{n}, err
}

func (s *large) ask(_ int, command string, args ...any) (any, error) {
	return s.asks.Do(command, args...)
}

func (s *large) stop() error { return errors.Join(s.asks.Close(), s.server.Stop()) }

// pool dials over the network.
func (n *cables) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return endpoint.Dialer{NetDial: n.dial}.Dial(ctx, "tcp", "memory")
	}}
}

func (n *cables) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	down := time.Now().Before(n.down)
	n.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: errDown}
	}
	inner, err := n.connect(ctx)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, cables: n, sent: make(chan parcel, 4096), ended: make(chan struct{})}
	n.mu.Lock()
	n.conns[c] = true
	n.mu.Unlock()
	go c.carry()
	return c, nil
}

// way returns the transmission time of data that is sent now.
func (n *cables) way() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.healed {
		return 0
	}
	d := time.Duration(0)
	if n.slowest > 0 && n.rng.IntN(2) == 0 {
		d = time.Duration(n.rng.Int64N(int64(n.slowest)))
	}
	return max(d, time.Until(n.silent))
}

// cut makes all connections fail, and no dial succeeds for d. Data that was sent before
// arrives late later, or never if late is negative.
func (n *cables) cut(d, late time.Duration) {
	n.mu.Lock()
	n.down = time.Now().Add(d)
	conns := n.conns
	n.conns = map[*conn]bool{}
	n.mu.Unlock()
	for c := range conns {
		c.end(late)
	}
}

// fall makes the network silent for d.
func (n *cables) fall(d time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if until := time.Now().Add(d); until.After(n.silent) { // a shorter silence does not end a longer one
		n.silent = until
	}
}

// isTroubled reports whether a request may have failed not long ago.
func (n *cables) isTroubled() bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := time.Now().Add(-5 * ioTimeout) // after an error there is a pause
	return now.Before(n.down) || now.Before(n.silent)
}

// heal ends all faults of the network, for good.
func (n *cables) heal() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.healed, n.down, n.silent = true, time.Time{}, time.Time{}
}

// conn is the client's end of a connection.
type conn struct {
	net.Conn // to the server

	cables *cables
	sent   chan parcel   // data on its way to the server
	ended  chan struct{} // closed when the connection has failed or was closed

	mu       sync.Mutex // guards what follows
	over     bool
	deadline time.Time     // of reads, as the client has set it
	late     time.Duration // how much later data arrives that is in flight at the end; never if negative
}

type parcel struct {
	bytes []byte
	due   time.Time
}

func (c *conn) Write(b []byte) (int, error) {
	points.Here("write")
	select {
	case <-c.ended:
		return 0, net.ErrClosed
	case c.sent <- parcel{append([]byte(nil), b...), time.Now().Add(c.cables.way())}:
		return len(b), nil
	}
}

func (c *conn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if d := c.cables.way(); n > 0 && d > 0 {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-c.ended:
		}
	}
	points.Here("read")
	select {
	case <-c.ended:
		return 0, io.EOF
	default:
		return n, err
	}
}

// TryRead lets a client look whether something has come.
func (c *conn) TryRead(b []byte) (int, error) {
	points.Here("look")
	select {
	case <-c.ended:
		return 0, io.EOF
	default:
	}
	if in, ok := c.Conn.(interface{ TryRead(b []byte) (int, error) }); ok {
		return in.TryRead(b)
	}
	// This pipe has no buffer, so the read gets only data that the other end is writing now.
	_ = c.Conn.SetReadDeadline(time.Now().Add(1))
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over {
		_ = c.Conn.SetReadDeadline(c.deadline)
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = nil
	}
	return n, err
}

// Close ends the connection. Data that was sent before still arrives.
func (c *conn) Close() error {
	c.end(0)
	return nil
}

func (c *conn) end(late time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return
	}
	c.over, c.late = true, late
	close(c.ended)
	_ = c.Conn.SetReadDeadline(time.Now())
}

func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return net.ErrClosed
	}
	c.deadline = t
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) SetWriteDeadline(time.Time) error { return nil } // nobody waits in Write

func (c *conn) SetDeadline(t time.Time) error { return c.SetReadDeadline(t) }

// carry delivers sent data to the server, in order, until the connection has ended.
func (c *conn) carry() {
	defer c.Conn.Close()
	for {
		select {
		case p := <-c.sent:
			c.deliver(p)
			continue
		case <-c.ended:
		}
		select {
		case p := <-c.sent:
			c.deliver(p)
		default:
			c.cables.mu.Lock()
			delete(c.cables.conns, c)
			c.cables.mu.Unlock()
			return
		}
	}
}

func (c *conn) deliver(p parcel) {
	timer := time.NewTimer(time.Until(p.due))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.ended:
		c.mu.Lock()
		late := c.late
		c.mu.Unlock()
		if late < 0 {
			return
		}
		time.Sleep(time.Until(p.due) + late)
	}
	_, _ = c.Conn.Write(p.bytes)
}
