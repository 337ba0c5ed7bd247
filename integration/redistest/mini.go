package redistest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
)

// StartMini starts miniredis behind a TCP listener on a free loopback port.
// Its TTLs move with the real clock.
func StartMini(o MiniOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &mini{options: o, adaptive: o.Resolution == 0}
	if err := m.serve(); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	if err := m.listen("127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("redistest: start miniredis: %w", err), m.stop())
	}
	m.addr = m.listener.Addr().String()
	return &Server{
		kind: Mini, network: "tcp", addr: m.addr, password: o.Password,
		name: "miniredis", control: m,
	}, nil
}

// StartVirtual starts miniredis behind in-memory connections, which only Dial
// and Pool of the Server make. Its TTLs move with time.Now. Called within a
// testing/synctest bubble, all of it belongs to the bubble and its virtual
// time; Stop, and closing the connections and pools made from it, leave no
// goroutine there.
func StartVirtual(o MiniOptions) (*Server, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	m := &mini{options: o, addr: "virtual"}
	if err := m.serve(); err != nil {
		return nil, errors.Join(err, m.stop())
	}
	return &Server{
		kind: Virtual, network: "virtual", addr: m.addr, password: o.Password,
		name: "miniredis in virtual time", control: m, dialNet: m.dial,
	}, nil
}

// mini is the controller of a miniredis, over TCP or in memory. miniredis
// itself has no listener: connections are handed to it with a gate before
// them.
type mini struct {
	// immutable once started
	options  MiniOptions
	adaptive bool
	addr     string

	ops sync.Mutex // held by pause to stop for as long as they take: they queue

	// guarded by ops
	stopped   bool
	listener  net.Listener   // nil if virtual, or down
	accepting sync.WaitGroup // the accept loop

	mu   sync.Mutex // guards life; taken after ops, never held while anything is waited for
	life *life      // nil when down
}

// life is one miniredis, from serve to kill.
type life struct {
	redis *miniredis.Miniredis
	clock *clock
	gate  *gate
}

// serve makes a new, empty miniredis.
func (m *mini) serve() error {
	r := miniredis.NewMiniRedis()
	r.RequireAuth(m.options.Password)
	// The one way to start it without a listener.
	c, err := r.Dial()
	if err != nil {
		return fmt.Errorf("redistest: start miniredis: %w", err)
	}
	m.setLife(&life{redis: r, clock: newClock(r, m.options.Resolution, m.adaptive), gate: newGate()})
	return c.Close()
}

// setLife puts l in the place of the life that there was, and returns that.
func (m *mini) setLife(l *life) (old *life) {
	m.mu.Lock()
	defer m.mu.Unlock()
	old, m.life = m.life, l
	return old
}

// listen opens the listener and accepts from it. The caller holds ops, or is
// alone.
func (m *mini) listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	m.listener = l
	m.accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if m.take(c) != nil {
				_ = c.Close()
			}
		}
	})
	return nil
}

// take hands a connection to the miniredis that runs.
func (m *mini) take(c net.Conn) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.life == nil {
		return ErrNotRunning
	}
	m.life.redis.Server().ServeConn(&gatedConn{Conn: c, gate: m.life.gate, clock: m.life.clock})
	return nil
}

func (m *mini) dial(context.Context, string, string) (net.Conn, error) {
	client, server := pipe()
	if err := m.take(server); err != nil {
		// As a dial of a dead server's port fails.
		return nil, &net.OpError{Op: "dial", Net: "virtual", Addr: virtualAddr{}, Err: err}
	}
	return client, nil
}

func (m *mini) pause() error { return m.withGate((*gate).shut) }

func (m *mini) resume() error { return m.withGate((*gate).open) }

func (m *mini) withGate(do func(*gate)) error {
	m.ops.Lock()
	defer m.ops.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case m.stopped:
		return ErrStopped
	case m.life == nil:
		return ErrNotRunning
	}
	do(m.life.gate)
	return nil
}

func (m *mini) kill() error {
	m.ops.Lock()
	defer m.ops.Unlock()
	if m.stopped {
		return ErrStopped
	}
	m.down()
	return nil
}

// down ends miniredis, its connections and the listener. The caller holds ops.
func (m *mini) down() {
	if m.listener != nil {
		_ = m.listener.Close()
		m.accepting.Wait()
		m.listener = nil
	}
	if old := m.setLife(nil); old != nil {
		old.gate.close()
		old.redis.Close()
	}
}

func (m *mini) restart(ctx context.Context) error {
	m.ops.Lock()
	defer m.ops.Unlock()
	if m.stopped {
		return ErrStopped
	}
	m.down()
	if err := m.serve(); err != nil {
		return err
	}
	for m.addr != "virtual" {
		err := m.listen(m.addr)
		if err == nil {
			break
		}
		// The kernel may hold the old port back for a moment.
		if pauseFor(ctx, 10*time.Millisecond) != nil {
			m.down()
			return fmt.Errorf("redistest: restart: %w; last: %w", ctx.Err(), err)
		}
	}
	return nil
}

func (m *mini) stop() error {
	m.ops.Lock()
	defer m.ops.Unlock()
	m.stopped = true
	m.down()
	return nil
}

func (m *mini) pid() int    { return 0 }
func (m *mini) log() string { return "" }
