package run

import (
	"context"
	crand "crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
)

const (
	// hangTimeout is how long a row may show no progress before it is killed.
	// It is longer than what a row itself waits for.
	hangTimeout = 45 * time.Second
	endTimeout  = 5 * time.Second // from a row's result to its end
	outageBound = time.Second     // how long a silent server is waited for before a row
)

// Parent starts the rows' processes, one at a time, and collects their results. One
// goroutine calls Control, Rows and Max; Kill may be called by any.
type Parent struct {
	// immutable
	target      *holders.Target
	plan        Plan
	command     []string // of a row's process
	env         []string // added to this process's environment
	runID       string   // part of every lock's name
	hangTimeout time.Duration
	out         io.Writer // for what goes wrong
	progress    Progress

	serverDown  bool         // the server did not answer before the last row
	trials      int          // rows of Max so far
	interrupted bool         // the process of a row was interrupted
	outputs     []*rowOutput // of the rows since the last showOutputs

	mu     sync.Mutex // guards what follows
	child  *exec.Cmd  // the process that runs; nil between rows
	closed bool       // Kill was called, so no further process starts
}

// NewParent is a parent of rows on t. What goes wrong with a row is written to
// out at once, on lines of its own. What the rows' processes write to their
// standard error is written there after the last row, in a bounded number of
// lines. The program that calls it must call RowMain,
// and nothing else, when RowEnv is set: it starts itself for every row.
func NewParent(t *holders.Target, p Plan, out io.Writer, told Progress) (*Parent, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("bench: finding this program's file: %w", err)
	}
	return &Parent{
		target: t, plan: p, command: []string{exe}, env: []string{RowEnv + "=1"},
		runID: strings.ToLower(crand.Text()[:6]), hangTimeout: hangTimeout, out: out, progress: told,
	}, nil
}

// Control acquires a lock, does not renew it and waits until it has expired, which
// takes about ControlLease. It returns how long the lock was there. An error says
// that "lost 0" would mean nothing on this server.
func (p *Parent) Control(ctx context.Context) (time.Duration, error) {
	return checkExpiry(ctx, p.target, "wheellock:bench:"+p.runID+":control", ControlLease)
}

// Rows measures every driver at every number of locks, once, in random order, and
// returns the rows in the order of the plan. When ctx ends, the result lacks
// the rows that were not measured.
func (p *Parent) Rows(ctx context.Context) []report.Row {
	type place struct {
		locks  int
		driver string
	}
	var places []place
	for _, n := range p.plan.Locks {
		for _, d := range p.plan.Drivers {
			places = append(places, place{n, d.Name})
		}
	}
	measured := make([]*report.Row, len(places))
	order := rand.Perm(len(places))
	locks := make([]int, len(places))
	for k, at := range order {
		locks[k] = places[at].locks
	}
	p.progress.Start(locks)
	defer p.showOutputs()
	for k, at := range order {
		r := report.Row{Driver: places[at].driver, Locks: places[at].locks}
		err := p.awaitServer(ctx)
		if ctx.Err() != nil {
			fmt.Fprintln(p.out, "bench: interrupted; no lock is held")
			break
		}
		p.progress.Begin(r, time.Now())
		if err != nil {
			r.Faults = []string{"not run: " + report.OneLine(err)}
		} else {
			r = p.runRow(ctx, r, k)
		}
		p.progress.End(time.Now())
		p.reportRow(r)
		if !r.Interrupted || r.Lost.Known {
			measured[at] = &r
		}
		if p.isInterruptedWith(ctx, r) {
			break
		}
	}
	rows := []report.Row{}
	for _, r := range measured {
		if r != nil {
			rows = append(rows, *r)
		}
	}
	return rows
}

// isInterruptedWith reports whether no further row may run after r, because this process or that of r was
// interrupted. A signal from a terminal comes to both, but the row may have ended before it comes here.
func (p *Parent) isInterruptedWith(ctx context.Context, r report.Row) bool {
	if r.Interrupted && !p.interrupted {
		p.interrupted = true
		select {
		case <-ctx.Done():
		case <-time.After(2 * time.Second):
		}
	}
	return p.Interrupted(ctx)
}

// Interrupted reports whether this process or that of a row was interrupted.
func (p *Parent) Interrupted(ctx context.Context) bool { return p.interrupted || ctx.Err() != nil }

// showOutputs shows what the rows' processes have written, below the progress.
func (p *Parent) showOutputs() {
	for _, o := range p.outputs {
		o.writeTo(p.out)
	}
	p.outputs = nil
}

// reportRow reports a bad row at once.
func (p *Parent) reportRow(r report.Row) {
	switch {
	case r.Interrupted && len(r.Faults) == 0:
		fmt.Fprintf(p.out, "bench: interrupted; %s locks released, none is left\n", report.Count(r.Released))
	case r.Losses() != "":
		fmt.Fprintln(p.out, "bench:", r.Losses())
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(p.out, "bench: %v: %s\n", r, fault)
	}
}

// awaitServer waits for the server to answer. After a wait without an answer it asks
// only once per row.
func (p *Parent) awaitServer(ctx context.Context) error {
	deadline := time.Now().Add(outageBound)
	for {
		err := ping(ctx, p.target)
		if err == nil || ctx.Err() != nil {
			p.serverDown = false
			return err
		}
		if p.serverDown || time.Now().After(deadline) {
			p.serverDown = true
			return fmt.Errorf("Redis does not answer: %w", err) //lint:ignore ST1005 a name
		}
		sleep(ctx, 50*time.Millisecond)
	}
}

// ping asks every master for an answer.
func ping(ctx context.Context, t *holders.Target) error {
	for _, srv := range t.Servers() {
		conn, err := srv.DialContext(ctx)
		if err != nil {
			return err
		}
		_, err = redis.DoContext(conn, ctx, "PING")
		_ = conn.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// runRow runs r in a process of its own. When ctx ends, the process is told to
// release its locks.
func (p *Parent) runRow(ctx context.Context, r report.Row, number int) report.Row {
	fail := func(err error) report.Row {
		r.Faults = append(r.Faults, report.OneLine(err))
		return r
	}
	cmd := exec.Command(p.command[0], p.command[1:]...)
	cmd.Env = append(os.Environ(), p.env...)
	wrote := newRowOutput(r)
	p.outputs = append(p.outputs, wrote)
	cmd.Stderr = wrote
	cmd.WaitDelay = time.Second
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return fail(err)
	}
	defer stdin.Close()
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return fail(err)
	}
	if err := p.start(cmd); err != nil {
		return fail(fmt.Errorf("the row's process cannot be started: %w", err))
	}
	cfg, err := json.Marshal(rowConfig{
		URL: p.target.Seed(), Cluster: p.target.IsCluster(), Prefix: fmt.Sprintf("wheellock:bench:%s:%d:", p.runID, number),
		Own: p.target.IsOwn(), Driver: r.Driver, Locks: r.Locks, Lease: p.plan.Lease, Duration: p.plan.Duration, Watch: p.plan.WatchOf(r.Locks),
	})
	if err == nil {
		_, err = stdin.Write(append(cfg, '\n'))
	}
	unwanted := context.AfterFunc(ctx, func() { _ = stdin.Close() })
	defer unwanted()

	kill := func() { _ = cmd.Process.Kill() }
	result, hung := p.followEvents(stdout, kill)
	// Whatever the process has reported, it has nothing left to do.
	over := time.AfterFunc(endTimeout, kill)
	ended := p.wait(cmd)
	over.Stop()
	switch {
	case result != nil:
		return *result
	case isInterrupt(ended):
		r.Interrupted = true
		return r
	case hung != "":
		err = fmt.Errorf("no progress for %v in its phase %q: killed; its locks expire with their lease of %v", p.hangTimeout, hung, p.plan.Lease)
	case ended != nil:
		err = fmt.Errorf("the row's process died: %w; its locks expire with their lease of %v", ended, p.plan.Lease)
	default:
		err = errors.Join(errors.New("the row's process ended without a result"), err)
	}
	return fail(err)
}

// isInterrupt reports whether an interrupt has ended a row's process. That happens only before RowMain
// catches the signals, when the process has no lock.
func isInterrupt(ended error) bool {
	var exit *exec.ExitError
	if !errors.As(ended, &exit) {
		return false
	}
	status, _ := exit.Sys().(syscall.WaitStatus)
	return status.Signaled() && (status.Signal() == syscall.SIGINT || status.Signal() == syscall.SIGTERM)
}

// followEvents reads a row's events until its result, or until its output ends. When
// there is no progress for too long it calls kill and returns the phase.
func (p *Parent) followEvents(events io.Reader, kill func()) (result *report.Row, hung string) {
	var killed atomic.Bool
	alive := time.AfterFunc(p.hangTimeout, func() {
		killed.Store(true)
		kill()
	})
	defer alive.Stop()
	cpu := newCPUSampler(p.target, p.plan.Watch)
	defer cpu.stopSampling()
	phase := "start"
	for dec := json.NewDecoder(events); ; {
		var e event
		if dec.Decode(&e) != nil { // it has died, or something else wrote there
			if killed.Load() {
				return nil, phase
			}
			return nil, ""
		}
		if e.Result != nil {
			e.Result.ServerCPU = cpu.stopSampling()
			return e.Result, ""
		}
		phase = e.Phase
		alive.Reset(p.hangTimeout)
		cpu.enterPhase(phase)
		p.progress.Step(phase, e.Done, time.Now())
	}
}

func (p *Parent) start(cmd *exec.Cmd) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errors.New("bench: the run was stopped, so no more rows start")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	p.child = cmd
	return nil
}

func (p *Parent) wait(cmd *exec.Cmd) error {
	err := cmd.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.child = nil
	return err
}

// Kill ends the row that runs at once, and no other is started. The locks that it
// held expire with their lease.
func (p *Parent) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.child != nil {
		_ = p.child.Process.Kill()
	}
}
