package redistest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

const (
	startTimeout = 2 * time.Minute // of Start and Restart, beside ctx
	stopTimeout  = 3 * time.Second // from SIGTERM to SIGKILL
	portTries    = 20              // how many ports Start tries before it gives up
)

// errPortTaken says that another process has bound the port.
var errPortTaken = errors.New("redistest: address already in use")

// Start starts a redis-server process and returns once it answers. It gives
// ErrNoServer if there is no such program, an error with the end of the
// server's log if it dies, and one that wraps ctx.Err() if ctx ends first; in
// each case nothing is left behind. ctx bounds the start only.
func Start(ctx context.Context, o Options) (*Server, error) {
	return start(ctx, o, FreePort)
}

// start is Start with the choice of ports as an argument, for its test.
func start(ctx context.Context, o Options, pickPort func() (int, error)) (*Server, error) {
	if err := o.Validate(); err != nil {
		return nil, err
	}
	binary := o.Binary
	if binary == "" {
		binary = "redis-server"
	}
	path, err := exec.LookPath(binary)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNoServer, err)
	}
	// The socket lives here even if Dir is given: a socket's path may have
	// only about 100 bytes, and a test's own directories are long.
	home, err := os.MkdirTemp("", "redistest-")
	if err != nil {
		return nil, fmt.Errorf("redistest: start: %w", err)
	}
	p := &process{path: path, options: o, home: home, dir: o.Dir}
	if o.Sentinel == "" {
		if p.pretend, err = pretendArgs(ctx, path, o.Args); err != nil {
			return nil, errors.Join(err, os.RemoveAll(home))
		}
	}
	if p.dir == "" {
		p.dir = home
	}
	s, err := p.startSomewhere(ctx, pickPort)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(home))
	}
	return s, nil
}

// process is the controller of a redis-server process.
type process struct {
	// immutable once Start has returned
	path    string
	options Options
	home    string   // ours, removed by stop
	dir     string   // the server's
	pretend []string // arguments that make it an older server, see EnvPretend
	server  *Server
	output  logTail

	// atomic
	child atomic.Pointer[child] // the newest one; nil before the first

	// guarded by mu, which is held for as long as a process is being started
	// or ended: calls queue
	mu      sync.Mutex
	stopped bool
}

// startSomewhere starts the server on the socket or on the first port that it
// can have.
func (p *process) startSomewhere(ctx context.Context, pickPort func() (int, error)) (*Server, error) {
	p.output.tee = p.options.Log
	s := &Server{kind: Process, password: p.options.Password, control: p}
	p.server = s
	for try := 1; ; try++ {
		if p.options.UnixSocket {
			s.network, s.addr = "unix", filepath.Join(p.home, "redis.sock")
		} else {
			port, err := pickPort()
			if err != nil {
				return nil, err
			}
			s.network, s.addr = "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		}
		software, err := p.launch(ctx)
		if errors.Is(err, errPortTaken) && try < portTries {
			continue
		}
		s.name = software.Program() + " (a process of ours)"
		if as := pretendedVersion(); as != (Software{}) {
			s.name = fmt.Sprintf("%s (a process of ours, as %v)", software.Program(), as)
		}
		return s, err
	}
}

// FreePort returns a port of 127.0.0.1 that was free a moment ago. The port 10,000 above
// it, the bus port of a Cluster node, was free too. The range lies below the ephemeral
// ports of systems, so no outgoing connection takes a port that Restart wants back.
func FreePort() (int, error) {
	const low, high = 12000, 22000
	var last error
	for range 1000 {
		port := low + rand.IntN(high-low)
		last = nil
		for _, n := range []int{port, port + 10000} {
			l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(n)))
			if err != nil {
				last = err
				break
			}
			last = l.Close()
		}
		if last == nil {
			return port, nil
		}
	}
	return 0, fmt.Errorf("redistest: no free port on 127.0.0.1: %w", last)
}

func (p *process) args() []string {
	args := []string{"--save", "", "--appendonly", "no"}
	if p.options.Sentinel != "" {
		args = []string{p.sentinelConf(), "--sentinel"}
	}
	args = append(args, p.pretend...)
	args = append(args, p.options.Args...)
	args = append(args, "--dir", p.dir, "--daemonize", "no", "--logfile", "")
	if p.server.network == "unix" {
		args = append(args, "--port", "0", "--unixsocket", p.server.addr)
	} else {
		_, port, _ := net.SplitHostPort(p.server.addr)
		args = append(args, "--bind", "127.0.0.1", "--port", port)
	}
	if p.options.Password != "" {
		args = append(args, "--requirepass", p.options.Password)
	}
	return args
}

// launch starts a child at the server's address, waits until it answers, and
// returns its Software. On an error no child is left.
func (p *process) launch(ctx context.Context) (Software, error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := ctx.Err(); err != nil {
		return Software{}, fmt.Errorf("redistest: start: %w", err)
	}
	p.output.reset()
	if err := p.writeSentinelConf(); err != nil {
		return Software{}, fmt.Errorf("redistest: start: %w", err)
	}
	c, err := fork(p.path, p.args(), &p.output)
	if err != nil {
		return Software{}, fmt.Errorf("redistest: start: %w", err)
	}
	p.child.Store(c)
	software, err := p.awaitReady(ctx, c)
	if err != nil {
		c.kill()
	}
	return software, err
}

func (p *process) pause() error {
	return p.signal("pause", suspend)
}

func (p *process) resume() error {
	return p.signal("resume", unsuspend)
}

func (p *process) signal(what string, send func(pid int) error) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	if p.pid() == 0 {
		return ErrNotRunning
	}
	if err := send(p.pid()); err != nil {
		return fmt.Errorf("redistest: %s: %w", what, err)
	}
	return nil
}

func (p *process) kill() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	p.child.Load().kill()
	return nil
}

func (p *process) restart(ctx context.Context) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return ErrStopped
	}
	p.child.Load().terminate()
	for {
		// The kernel may hold the old port back for a moment.
		_, err := p.launch(ctx)
		if !errors.Is(err, errPortTaken) || pauseFor(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

func (p *process) stop() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stopped {
		return nil
	}
	p.stopped = true
	p.child.Load().terminate()
	if err := os.RemoveAll(p.home); err != nil {
		return fmt.Errorf("redistest: stop: %w", err)
	}
	return nil
}

func (p *process) pid() int {
	c := p.child.Load()
	select {
	case <-c.done:
		return 0
	default:
		return c.pid
	}
}

func (p *process) log() string { return p.output.String() }

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
