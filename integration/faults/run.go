package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/faultproxy"
)

// scene is a run while it goes on.
type scene struct {
	Options
	row      Row
	dir      string // of the run's own files
	history  *history
	rng      *rand.Rand
	proxy    *faultproxy.Proxy
	server   Target
	control  redis.Conn // to server, not through the proxy; see do
	cleanup  []func()   // the last first
	faults   int
	round    int   // of quiet points
	lastRest stamp // at the last of them

	beating context.Context // ends before the rest of the history is checked
	pulsing sync.WaitGroup  // who adds to it beside the processes

	procs []*proc // all that ever were
	spec  spec
}

// proc is one process.
type proc struct {
	n     int
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when it is gone and its history read
	err   error         // what it ended with; readable after done
	dead  bool          // killed by a fault
}

// Run makes a run of a row. An error says that there was none; what the run
// found is in the result.
func Run(ctx context.Context, row Row, o Options) (res Result, err error) {
	began := time.Now()
	if o.Lease == 0 {
		o.Lease = 2 * time.Second
	}
	if row.Load == (Load{}) {
		row.Load = usual
	}
	if row.NoPermits {
		row.Load.Permits = 0
	}
	if row.Loses || row.Kills { // what has no lease comes back to nobody
		row.Load.Counts = 0
	}
	if o.Flaw != None { // twins know mutexes
		row.Load.RW, row.Load.Permits, row.Load.Counts, row.Load.Shared = 0, 0, 0, 0
		row.Load.Each = 1 // a field that is there after Unlock is nobody else's
	}
	dir, err := os.MkdirTemp("", "wheellock-faults-")
	if err != nil {
		return res, err
	}
	s := &scene{Options: o, row: row, dir: dir, history: newHistory(), rng: rand.New(rand.NewPCG(o.Seed, 1))}
	defer func() { err = errors.Join(err, s.close()) }()
	log, err := newTail(filepath.Join(dir, "history.jsonl"), mostHistory)
	if err != nil {
		return res, err
	}
	s.cleanup = append(s.cleanup, func() { _ = log.close() })
	s.history.log = log
	var stop context.CancelFunc
	s.beating, stop = context.WithCancel(ctx)
	s.cleanup = append(s.cleanup, func() { stop(); s.pulsing.Wait() })
	s.history.hear(parent, 0)
	s.pulsing.Go(func() {
		pulse(s.beating, parent, itself, s.history.add, func(at stamp) { s.history.hear(parent, at) })
	})
	if err := s.start(ctx); err != nil {
		return res, fmt.Errorf("faults: %s: %w", row.Name, err)
	}
	c := &checks{history: s.history, lease: o.Lease, row: row, dir: dir}
	s.pulsing.Go(func() { c.meanwhile(s.beating) })
	if err := s.play(ctx, c); err != nil {
		return res, fmt.Errorf("faults: %s: %w (server: %s)", row.Name, err, s.server)
	}
	ended := time.Now()
	stop()
	s.pulsing.Wait()
	c.finish()
	s.sums(c)
	res = Result{
		Row: row, Server: s.server.String(), Seed: o.Seed, Injected: s.faults, Operations: s.history.attempts,
		Holds: s.history.holds, LongestWait: time.Duration(s.history.longest), Quiet: s.round,
		Lost: c.lostHolds, Late: c.late, Excused: c.excuses, Violations: c.violations, Undecided: c.undecided, Pieces: c.checked,
		Memory: c.peak, After: time.Since(ended),
	}
	for _, r := range s.history.reports {
		res.Processes = append(res.Processes, *r)
	}
	res.Took = time.Since(began)
	if len(res.Violations) > 0 {
		res.Kept, err = s.keep(res)
	}
	if err == nil && len(res.Violations) > 0 && row.Load.Counts > 0 && res.LongestWait > countsLast {
		err = fmt.Errorf("faults: %s: %w: a wait took %v (%v)", row.Name, ErrAway, res.LongestWait, res.Violations)
	}
	return res, err
}

// mostHistory bounds the file of events; there are two, of which one is older.
const mostHistory = 256 << 20

func (s *scene) start(ctx context.Context) error {
	var err error
	if s.row.Start != nil {
		s.server, err = s.row.Start(ctx, s.Options, s)
	} else {
		s.server, err = s.Start(ctx, s.row.Args...)
	}
	if err != nil {
		return err
	}
	server := s.server
	s.cleanup = append(s.cleanup, func() { _ = server.Stop() })
	if s.proxy, err = faultproxy.Start(faultproxy.Config{Server: faultproxy.Before(s.server)}); err != nil {
		return err
	}
	s.cleanup = append(s.cleanup, s.proxy.Close)
	s.spec = spec{
		Seed: s.Seed, Addr: s.proxy.Addr(), Register: s.Register.Addr(), Prefix: s.Prefix,
		Lease: s.Lease, Load: s.row.Load, Flaw: s.Flaw,
	}
	if !s.row.Blind {
		s.spec.Direct, s.spec.Steady = s.server.Addr(), !s.row.Loses
		s.monitor()
		s.probe()
	}
	for range processes {
		if err := s.launch(); err != nil {
			return err
		}
	}
	return nil
}

// launch starts a process that works.
func (s *scene) launch() error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	p := &proc{n: len(s.procs) + 1, cmd: exec.Command(exe), done: make(chan struct{})}
	what := s.spec
	what.Proc, what.MaxPoll = p.n, pollOf(p.n, s.Lease)
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	p.cmd.Env = append(os.Environ(), envWorker+"="+string(text))
	log, err := os.Create(filepath.Join(s.dir, fmt.Sprintf("process-%d.log", p.n)))
	if err != nil {
		return err
	}
	defer log.Close()
	p.cmd.Stderr = log
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := p.cmd.Start(); err != nil {
		return err
	}
	s.procs = append(s.procs, p)
	s.history.hear(p.n, 0)
	go func() {
		defer close(p.done)
		err := s.history.read(p.n, stdout)
		p.err = errors.Join(err, p.cmd.Wait())
	}()
	return nil
}

// eventually waits until ok, and reports whether that came.
func eventually(ctx context.Context, within time.Duration, ok func() bool) bool {
	end := time.Now().Add(within)
	for !ok() {
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
		sleep(ctx, 10*time.Millisecond)
	}
	return true
}

// patience is for what comes in a fraction of a second on an idle machine.
const patience = 2 * time.Minute

// ErrAway says that something went wrong in a run in which somebody waited for so long that a
// semaphore, whose permits have no leases, may have lost some: Redis must be back within 20 s.
// No fault takes that long. A machine that stands still does, and then the run says nothing.
var ErrAway = errors.New("the machine stood still for too long for a semaphore")

// countsLast is how long the server may be away: 20 s, but for what a request takes.
const countsLast = 15 * time.Second

// restEach is how many leases a long run goes on between two quiet points.
const restEach = 3

// play goes through the faults and ends the processes.
func (s *scene) play(ctx context.Context, c *checks) error {
	if !eventually(ctx, 2*patience, func() bool { return s.ready(len(s.procs)) }) {
		return fmt.Errorf("the processes do not get ready: %s", s.logs())
	}
	if !s.progress(ctx) {
		return errors.New("nobody gets a lock before any fault")
	}
	end := time.Now().Add(s.row.For)
	for round := 0; round < max(s.row.Rounds, 1) || time.Now().Before(end); round++ {
		sleep(ctx, time.Duration(s.rng.Int64N(int64(s.Lease/4))))
		s.history.faultBegins()
		n, err := s.row.Inject(ctx, s)
		s.proxy.Heal()
		if err != nil {
			return err
		}
		s.history.faultEnds(s.row.Name)
		s.faults += n
		if !s.progress(ctx) {
			c.wrong("not every key was locked again within %v of the end of the fault", patience)
			break
		}
		if s.row.For == 0 || now().sub(s.lastRest) > restEach*s.Lease {
			if !s.quiet(ctx, c) {
				break
			}
			s.lastRest = now()
		}
	}
	// Time to see what was lost told and got again.
	sleep(ctx, s.Lease/3)
	if s.Flaw == None {
		s.bounded(ctx, c)
	}
	s.end(ctx, c)
	if s.Flaw == None {
		s.nothingLeft(ctx, c)
	}
	return ctx.Err()
}

func (s *scene) ready(n int) bool {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return len(s.history.ready) >= n
}

// progress waits until every contended key was locked again from now on.
func (s *scene) progress(ctx context.Context) bool {
	from := now()
	keys := 0
	for _, n := range []int{s.row.Load.Mutexes, s.row.Load.RW, s.row.Load.Permits, s.row.Load.Counts, s.row.Load.Shared} {
		keys += n
	}
	return eventually(ctx, patience, func() bool {
		s.history.mu.Lock()
		defer s.history.mu.Unlock()
		n := 0
		for _, e := range s.history.last {
			if e.At > from {
				n++
			}
		}
		return n >= keys
	})
}

// end tells the processes to give all back and waits for them.
func (s *scene) end(ctx context.Context, c *checks) {
	for _, p := range s.procs {
		_ = p.stdin.Close()
	}
	timeout := time.After(2 * patience)
	for _, p := range s.procs {
		select {
		case <-p.done:
		case <-timeout:
			_ = p.cmd.Process.Kill()
			<-p.done
			c.wrong("process %d did not end", p.n)
		case <-ctx.Done():
			return
		}
		if p.err != nil && !p.dead {
			c.wrong("process %d: %v: %s", p.n, p.err, s.logs())
		}
	}
}

// do runs a command on the server, not through the proxy.
func (s *scene) do(cmd string, args ...any) (any, error) {
	for try := 0; ; try++ {
		if s.control == nil {
			conn, err := s.server.Dial(redis.DialReadTimeout(patience))
			if err != nil {
				return nil, err
			}
			s.control = conn
		}
		reply, err := s.control.Do(cmd, args...)
		if s.control.Err() == nil || try == 2 {
			return reply, err
		}
		_ = s.control.Close() // it was broken by a fault
		s.control = nil
	}
}

func (s *scene) logs() string {
	var all []string
	for _, p := range s.procs {
		text, _ := os.ReadFile(filepath.Join(s.dir, fmt.Sprintf("process-%d.log", p.n)))
		if len(text) > 0 {
			all = append(all, fmt.Sprintf("process %d: %s", p.n, text[max(0, len(text)-2000):]))
		}
	}
	return strings.Join(all, "\n")
}

// close ends all that still runs.
func (s *scene) close() error {
	var wg sync.WaitGroup
	for _, p := range s.procs {
		_ = p.cmd.Process.Kill()
		wg.Go(func() { <-p.done })
	}
	wg.Wait()
	if s.control != nil {
		_ = s.control.Close()
	}
	for _, f := range slices.Backward(s.cleanup) {
		f()
	}
	return os.RemoveAll(s.dir)
}

// keep copies what a failed run has left to where it stays.
func (s *scene) keep(res Result) (string, error) {
	dir := s.Keep
	if dir == "" {
		dir = os.TempDir()
	}
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(s.row.Name))
	dir, err := os.MkdirTemp(dir, "wheellock-"+name+"-")
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("fault: %s\nserver: %s\nseed: %d\nlease: %v\n\n%s\n", s.row.Name, res.Server, res.Seed, s.Lease, strings.Join(res.Violations, "\n"))
	errs := []error{
		os.WriteFile(filepath.Join(dir, "violations.txt"), []byte(text), 0o644),
		os.CopyFS(dir, os.DirFS(s.dir)),
	}
	return dir, errors.Join(errs...)
}
