package memredis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
)

// Config is the settings of Start and Listen. The zero Config works.
type Config struct {
	// Password is required of every client. DialContext sends it. Default: none.
	Password string

	// Resolution is the smallest step in which TTLs are moved. A key may expire
	// that much early. By default they are exact in virtual time, and in real
	// time as fine as is cheap. 10 ms makes a server with very many keys faster
	// in virtual time.
	Resolution time.Duration
}

func (cfg Config) validate() error {
	if cfg.Resolution < 0 {
		return fmt.Errorf("memredis: Config.Resolution is %v: it must be 0 or more", cfg.Resolution)
	}
	return nil
}

var (
	// ErrNotRunning is returned when the server was killed. Restart brings it
	// back.
	ErrNotRunning = errors.New("memredis: the server is not running")
	// ErrStopped is returned when Stop was called.
	ErrStopped = errors.New("memredis: the server was stopped")
)

// Server is a Redis in the memory of this process. All methods are safe for
// concurrent use; Pause, Resume, Kill, Restart and Stop queue behind each other.
type Server struct {
	// immutable once started
	cfg      Config
	adaptive bool
	addr     string // of the listener; "" without one

	ops sync.Mutex // held by Pause to Stop for as long as they take: they queue

	// guarded by ops
	stopped   bool
	listener  net.Listener   // nil without one, or while the server is down
	accepting sync.WaitGroup // the accept loop

	mu   sync.Mutex // guards life; taken after ops, never held while anything is waited for
	life *life      // nil when down
}

// Start starts an empty server behind connections in memory, which only its
// DialNet and DialContext make. Its TTLs move with time.Now. Called within a
// testing/synctest bubble, all of it belongs to the bubble and its virtual time;
// Stop, and closing the connections made from it, leave no goroutine there.
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

// Addr is the host:port that the server listens at, also after Restart; "" for
// one of Start.
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
	// The one way to start it without a listener.
	c, err := r.Dial()
	if err != nil {
		return fmt.Errorf("memredis: start miniredis: %w", err)
	}
	s.setLife(&life{redis: r, clock: newClock(r, s.cfg.Resolution, s.adaptive), gate: newGate()})
	return c.Close()
}

// setLife puts l in the place of the life that there was, and returns that.
func (s *Server) setLife(l *life) (old *life) {
	s.mu.Lock()
	defer s.mu.Unlock()
	old, s.life = s.life, l
	return old
}

// listen opens the listener and accepts from it. The caller holds ops, or is
// alone.
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
	s.life.redis.Server().ServeConn(&gatedConn{Conn: c, gate: s.life.gate, clock: s.life.clock})
	return nil
}

// DialNet makes a connection in memory and ignores the network and the address.
// It is for redis.DialContextFunc. If the server is down, the error is a
// *net.OpError, as of a real dial, and wraps ErrNotRunning.
func (s *Server) DialNet(context.Context, string, string) (net.Conn, error) {
	client, server := pipe()
	if err := s.take(server); err != nil {
		return nil, &net.OpError{Op: "dial", Net: memoryAddr{}.Network(), Addr: memoryAddr{}, Err: err}
	}
	return client, nil
}

// ioTimeout is the timeout of reads and writes. redigo's own default is to wait for
// ever, which turns a paused server into a hung test.
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

// Pause makes the server fall silent: connections stay open, new ones are
// accepted, nothing is answered, and TTLs run on. A command that was read before
// may still be carried out. The error is ErrNotRunning or ErrStopped.
func (s *Server) Pause() error { return s.withGate((*gate).shut) }

// Resume ends Pause. What was sent meanwhile is carried out then. The error is
// ErrNotRunning or ErrStopped.
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

// Kill cuts all connections, and the data is gone. The error is ErrStopped.
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

// Restart cuts all connections and goes on with an empty server at the same
// address. When it fails, because ctx ended before the port was free, the server is down,
// and Restart may be tried again. ErrStopped: Stop was called.
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

// Stop ends the server for good. It may be called in every state, and again; it
// never fails.
func (s *Server) Stop() error {
	s.ops.Lock()
	defer s.ops.Unlock()
	s.stopped = true
	s.down()
	return nil
}

// pauseFor waits for d, or until ctx ends and gives its error.
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
