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
	Lease   time.Duration // of all locks
	row     Row
	dir     string // of the run's own files
	history *history
	rng     *rand.Rand
	proxy   *faultproxy.Proxy
	server  Target
	control redis.Conn // to server, not through the proxy; see do
	cleanup []func()   // the last first
	faults  int

	watching context.Context // ends before the history is checked
	watchers sync.WaitGroup  // goroutines of the parent that add to the history

	procs []*proc // all that were started
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

// Run makes a run of a row. The result has what the run found. An error says that there was no
// complete run.
func Run(ctx context.Context, row Row, o Options) (res Result, err error) {
	began := time.Now()
	if row.Load == (Load{}) {
		row.Load = usual
	}
	if o.Flaw != None { // flawed clients know mutexes
		row.Load.RW = 0
		row.Load.Each = 1 // so that a field that is there after Unlock belongs to the unlocked hold
	}
	dir, err := os.MkdirTemp("", "wheellock-faults-")
	if err != nil {
		return res, err
	}
	s := &scene{Options: o, Lease: 2 * time.Second, row: row, dir: dir, history: newHistory(), rng: rand.New(rand.NewPCG(o.Seed, 1))}
	defer func() { err = errors.Join(err, s.close()) }()
	log, err := os.Create(filepath.Join(dir, "history.jsonl"))
	if err != nil {
		return res, err
	}
	s.cleanup = append(s.cleanup, func() { _ = log.Close() })
	s.history.log = log
	var stop context.CancelFunc
	s.watching, stop = context.WithCancel(ctx)
	s.cleanup = append(s.cleanup, func() { stop(); s.watchers.Wait() })
	s.watchers.Go(func() { pulse(s.watching, parent, func() {}, s.history.addEvent) })
	c := &checks{history: s.history, lease: s.Lease, row: row, dir: dir}
	if err = s.start(ctx); err == nil {
		err = s.injectFaults(ctx, c)
	}
	if err != nil {
		return res, fmt.Errorf("faults: %s: %w", row.Name, err)
	}
	stop()
	s.watchers.Wait()
	c.checkAll()
	r := newRegister(s.Register.Addr(), s.Prefix)
	c.checkSums(r)
	r.close()
	res = Result{
		Row: row, Server: s.server.String(), Seed: o.Seed, Injected: s.faults, Operations: c.attempts,
		Holds: c.holds, LongestWait: c.longest, Lost: c.lost, Late: c.late, Excused: c.excuses,
		Violations: c.violations, Undecided: c.undecided, Took: time.Since(began),
	}
	if len(res.Violations) > 0 {
		res.Kept, err = s.keepFiles(res)
	}
	return res, err
}

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
		s.watchServer()
	}
	for range processes {
		if err := s.launch(); err != nil {
			return err
		}
	}
	return nil
}

// watchServer records when the server stood still, which it sees over a connection of its own.
func (s *scene) watchServer() {
	s.watchers.Go(func() {
		down := now()
		for ; s.watching.Err() == nil; sleep(s.watching, 2*beat) {
			conn, err := s.server.Dial(redis.DialReadTimeout(patience))
			if err != nil {
				continue
			}
			ctx, cancel := context.WithCancel(s.watching)
			hangUp := context.AfterFunc(ctx, func() { _ = conn.Close() })
			s.history.addEvent(event{At: now(), Op: opStill, Proc: theServer, Until: down})
			pulse(ctx, theServer, func() {
				if _, err := conn.Do("PING"); err != nil && conn.Err() != nil {
					cancel()
				}
			}, s.history.addEvent)
			down = now()
			if cancel(); hangUp() {
				_ = conn.Close()
			}
		}
	})
}

// launch starts a worker process.
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
	go func() {
		defer close(p.done)
		err := s.history.readEvents(p.n, stdout)
		p.err = errors.Join(err, p.cmd.Wait())
	}()
	return nil
}

// pollUntil waits until ok returns true. It returns false if that takes too long or ctx ends.
func pollUntil(ctx context.Context, within time.Duration, ok func() bool) bool {
	end := time.Now().Add(within)
	for !ok() {
		if time.Now().After(end) || ctx.Err() != nil {
			return false
		}
		sleep(ctx, 10*time.Millisecond)
	}
	return true
}

// patience bounds waits that take a fraction of a second on an idle machine.
const patience = 2 * time.Minute

// injectFaults goes through the faults and ends the processes.
func (s *scene) injectFaults(ctx context.Context, c *checks) error {
	if !pollUntil(ctx, 2*patience, func() bool { return s.isReady(len(s.procs)) }) {
		return fmt.Errorf("the processes do not get ready: %s", s.logs())
	}
	if !s.awaitProgress(ctx) {
		return errors.New("nobody gets a lock before any fault")
	}
	for range max(s.row.Rounds, 1) {
		sleep(ctx, time.Duration(s.rng.Int64N(int64(s.Lease/4))))
		from := now()
		n, err := s.row.Inject(ctx, s)
		s.proxy.Heal()
		if err != nil {
			return err
		}
		s.history.addFault(from, s.row.Name)
		s.faults += n
		if !s.awaitProgress(ctx) {
			c.addViolation("not every key was locked again within %v of the end of the fault", patience)
			break
		}
	}
	// Time for losses to be told and for the locks to be taken again.
	sleep(ctx, s.Lease/3)
	s.endProcesses(ctx, c)
	if s.Flaw == None && !s.row.Stretches {
		s.checkNothingLeft(ctx, c)
	}
	return ctx.Err()
}

func (s *scene) isReady(n int) bool {
	s.history.mu.Lock()
	defer s.history.mu.Unlock()
	return len(s.history.ready) >= n
}

// awaitProgress waits until every contended key was locked again from now on.
func (s *scene) awaitProgress(ctx context.Context) bool {
	from := now()
	return pollUntil(ctx, patience, func() bool {
		s.history.mu.Lock()
		defer s.history.mu.Unlock()
		n := 0
		for _, at := range s.history.last {
			if at > from {
				n++
			}
		}
		return n >= s.row.Load.Mutexes+s.row.Load.RW
	})
}

// endProcesses tells the processes to give all back and waits for them.
func (s *scene) endProcesses(ctx context.Context, c *checks) {
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
			c.addViolation("process %d did not end", p.n)
		case <-ctx.Done():
			return
		}
		if p.err != nil && !p.dead {
			c.addViolation("process %d: %v: %s", p.n, p.err, s.logs())
		}
	}
}

// checkNothingLeft checks that no lock remains. A lock that could not be released ends with
// its lease. A lock that was requested before that ends at most one lease later.
func (s *scene) checkNothingLeft(ctx context.Context, c *checks) {
	var left []string
	if !pollUntil(ctx, 3*s.Lease+patience, func() bool {
		left = nil
		for _, pattern := range []string{"mutex-*", "rw-*", ownKeys + "*"} {
			keys, err := redis.Strings(s.do("KEYS", pattern))
			if err != nil {
				return false
			}
			left = append(left, keys...)
		}
		return len(left) == 0
	}) {
		c.addViolation("%d keys are left: %s", len(left), strings.Join(left[:min(len(left), 10)], ", "))
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

// keepFiles copies the files of a failed run to a directory that is not removed.
func (s *scene) keepFiles(res Result) (string, error) {
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
