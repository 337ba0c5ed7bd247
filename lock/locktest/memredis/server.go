package memredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// Config has the settings of Start and Listen. The zero Config works.
type Config struct {
	// Password is the password that every client must send. DialContext sends it.
	// Default: none.
	Password string

	// Resolution is the smallest step in which TTLs are moved. A key may expire
	// that much early. By default TTLs are exact in virtual time, and in real time
	// the step depends on the number of keys. A Resolution of 10 ms makes a server
	// with very many keys faster in virtual time.
	Resolution time.Duration
}

func (cfg Config) validate() error {
	if cfg.Resolution < 0 {
		return fmt.Errorf("memredis: Config.Resolution is %v: it must be 0 or more", cfg.Resolution)
	}
	return nil
}

var (
	// ErrNotRunning is returned when the server was killed and not restarted.
	// Restart starts it again.
	ErrNotRunning = errors.New("memredis: the server is not running")
	// ErrStopped is returned when Stop was called before. A stopped server cannot
	// be started again.
	ErrStopped = errors.New("memredis: the server was stopped")
)

// Server is a Redis in the memory of this process. All methods are safe for
// concurrent use. Pause, Resume, Kill, Restart and Stop wait for each other.
type Server struct {
	// immutable once started
	cfg      Config
	adaptive bool
	addr     string // the listener's address; "" without a listener

	ops sync.Mutex // held during Pause, Resume, Kill, Restart and Stop, so that they wait for each other

	// guarded by ops
	stopped   bool
	listener  net.Listener   // nil for a server of Start, or while the server is down
	accepting sync.WaitGroup // the accept loop

	delay atomic.Int64 // delay of requests in nanoseconds, see SetDelay

	mu   sync.Mutex // guards life; taken after ops, never held during a wait
	life *life      // nil when down
}

// Start starts an empty server behind connections in memory. Only the server's
// DialNet and DialContext make such connections. TTLs move with time.Now. If
// Start is called in a testing/synctest bubble, the server belongs to the bubble
// and its virtual time. No goroutine is left in the bubble when Stop has returned
// and all connections are closed.
func Start(cfg Config) (*Server, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, adaptive: cfg.Resolution == 0}
	if err := s.serve(); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

// Listen starts an empty server behind a TCP listener on a free loopback port.
func Listen(cfg Config) (*Server, error) {
	s, err := Start(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.listen("127.0.0.1:0"); err != nil {
		return nil, errors.Join(fmt.Errorf("memredis: listen: %w", err), s.Stop())
	}
	s.addr = s.listener.Addr().String()
	return s, nil
}

// Addr returns the host:port of a server of Listen. Restart does not change it.
// For a server of Start it returns "".
func (s *Server) Addr() string { return s.addr }

// life is one miniredis, from serve to kill.
type life struct {
	redis *miniredis.Miniredis
	clock *clock
	gate  *gate
}

// serve makes a new, empty miniredis.
func (s *Server) serve() error {
	r := miniredis.NewMiniRedis()
	r.RequireAuth(s.cfg.Password)
	// Dial is the only way to start miniredis without a listener.
	c, err := r.Dial()
	if err != nil {
		return fmt.Errorf("memredis: start miniredis: %w", err)
	}
	s.setLife(&life{redis: r, clock: newClock(r, s.cfg.Resolution, s.adaptive), gate: newGate()})
	return c.Close()
}

// setLife replaces the life by l, and returns the old one.
func (s *Server) setLife(l *life) (old *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.life = s.life, l
	return old
}

// listen opens the listener and accepts connections. The caller holds ops, or no
// other goroutine knows s yet.
func (s *Server) listen(addr string) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	s.listener = l
	s.accepting.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if s.take(c) != nil {
				_ = c.Close()
			}
		}
	})
	return nil
}

// take hands a connection to the miniredis that runs.
func (s *Server) take(c net.Conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life == nil {
		return ErrNotRunning
	}
	s.life.redis.Server().ServeConn(&gatedConn{Conn: c, gate: s.life.gate, clock: s.life.clock, delay: &s.delay})
	return nil
}

// DialNet makes a connection in memory and ignores the network and the address.
// It is for redis.DialContextFunc. If the server is down, the error is a
// *net.OpError, like that of a real dial, and wraps ErrNotRunning.
func (s *Server) DialNet(context.Context, string, string) (net.Conn, error) {
	client, server := pipe()
	if err := s.take(server); err != nil {
		return nil, &net.OpError{Op: "dial", Net: memoryAddr{}.Network(), Addr: memoryAddr{}, Err: err}
	}
	return client, nil
}

// ioTimeout is the timeout of reads and writes. redigo has no timeout by default, so a
// test of a paused server would hang.
const ioTimeout = 5 * time.Second

// DialContext connects in memory and sends the password. Reads and writes time
// out after 5 s, unless opts say otherwise.
func (s *Server) DialContext(ctx context.Context, opts ...redis.DialOption) (redis.Conn, error) {
	all := []redis.DialOption{
		redis.DialContextFunc(s.DialNet), redis.DialReadTimeout(ioTimeout), redis.DialWriteTimeout(ioTimeout),
	}
	if s.cfg.Password != "" {
		all = append(all, redis.DialPassword(s.cfg.Password))
	}
	addr := memoryAddr{}
	return redis.DialContext(ctx, addr.Network(), addr.String(), append(all, opts...)...)
}

// Pause makes the server silent. Connections stay open, new ones are accepted,
// no command is answered, and TTLs run on. A command that the server has already
// read may still be carried out. The error is ErrNotRunning or ErrStopped.
func (s *Server) Pause() error { return s.withGate((*gate).shut) }

// Resume ends Pause. Commands that were sent meanwhile are then carried out. The
// error is ErrNotRunning or ErrStopped.
func (s *Server) Resume() error { return s.withGate((*gate).open) }

func (s *Server) withGate(do func(*gate)) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.stopped:
		return ErrStopped
	case s.life == nil:
		return ErrNotRunning
	}
	do(s.life.gate)
	return nil
}

// Kill cuts all connections and deletes the data. The error is ErrStopped.
func (s *Server) Kill() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.down()
	return nil
}

// down ends miniredis, its connections and the listener. The caller holds ops.
func (s *Server) down() {
	if s.listener != nil {
		_ = s.listener.Close()
		s.accepting.Wait()
		s.listener = nil
	}
	if old := s.setLife(nil); old != nil {
		old.gate.close()
		old.redis.Close()
	}
}

// Restart cuts all connections and continues with an empty server at the same
// address. It fails if ctx ends before the port is free. The server is then down,
// and Restart may be called again. The error is ErrStopped if Stop was called.
func (s *Server) Restart(ctx context.Context) error {
	s.ops.Lock()
	defer s.ops.Unlock()
	if s.stopped {
		return ErrStopped
	}
	s.down()
	if err := s.serve(); err != nil {
		return err
	}
	for s.addr != "" {
		err := s.listen(s.addr)
		if err == nil {
			break
		}
		// The kernel may hold the old port back for a moment.
		if pauseFor(ctx, 10*time.Millisecond) != nil {
			s.down()
			return fmt.Errorf("memredis: restart: %w; last: %w", ctx.Err(), err)
		}
	}
	return nil
}

// Stop ends the server for good. It may be called in every state and more than
// once. It never fails.
func (s *Server) Stop() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	s.stopped = true
	s.down()
	return nil
}

// pauseFor waits for d. If ctx ends before, pauseFor returns its error.
func pauseFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
