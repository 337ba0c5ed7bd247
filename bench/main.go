package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/integration/redistest"
)

const serverTimeout = 5 * time.Second // for the server of -redis to answer

// Exit statuses.
const (
	exitOK          = 0
	exitFault       = 1
	exitUsage       = 2
	exitInterrupted = 130
)

func main() {
	if os.Getenv(run.RowEnv) != "" {
		os.Exit(run.RowMain(os.Stdin, os.Stdout))
	}
	os.Exit(program(os.Args[1:], os.Stdout, os.Stderr))
}

// program is main with a terminal's signals and exit status.
func program(args []string, stdout, stderr io.Writer) int {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	stderr = onTerminal(stderr)
	b := &bench{stdout: stdout, stderr: stderr}
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel() // before the line: nobody may read it
		fmt.Fprintln(stderr, "bench: interrupted, releasing the locks; a second interrupt quits at once")
		<-signals
		b.quit()
		fmt.Fprintln(stderr, "bench: quitting; locks that are still held expire with their lease")
		os.Exit(exitInterrupted)
	}()
	return b.run(ctx, args)
}

// bench is one run of the command.
type bench struct {
	stdout, stderr io.Writer // immutable

	mu     sync.Mutex // guards what follows
	target *holders.Target
	parent *run.Parent
}

// quit ends the processes that a run has started.
func (b *bench) quit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.parent != nil {
		b.parent.Kill()
	}
	if b.target != nil {
		for _, srv := range b.target.Servers() {
			_ = srv.Kill() // refuses to end a server that bench did not start
		}
		stop(b.target)
	}
}

// run does everything and returns the exit status.
func (b *bench) run(ctx context.Context, args []string) int {
	o, err := parse(args, b.stdout)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err == nil && o.json != "" {
		if err = report.CheckWritable(o.json); err != nil {
			err = usagef("-json: the file cannot be written: %v", err)
		}
	}
	dir := report.Dir{}
	if err == nil && o.out != "" {
		if dir, err = report.OpenDir(o.out); err != nil {
			err = usagef("-out: %v", err)
		}
	}
	if err != nil {
		return b.status(ctx.Err() != nil, err)
	}
	rep, err := b.measure(ctx, o, commandLine(args))
	if rep == nil {
		dir.Abandon()
		return b.status(ctx.Err() != nil, err)
	}
	err = errors.Join(err, b.save(rep, o, dir))
	return b.status(ctx.Err() != nil || rep.Environment.Interrupted, err)
}

// save writes the report to the files that are wanted.
func (b *bench) save(rep *report.Report, o options, dir report.Dir) error {
	var errs []error
	if o.json != "" {
		errs = append(errs, report.WriteJSON(o.json, rep))
	}
	if o.out != "" {
		err := dir.Write(rep)
		if err == nil {
			fmt.Fprintf(b.stdout, "Charts and a page with everything: %s\n", dir.Page())
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// status says on one line what went wrong, and what exit status it is.
func (b *bench) status(interrupted bool, err error) int {
	if err != nil {
		fmt.Fprintln(b.stderr, "bench:", report.OneLine(err))
	}
	switch {
	case interrupted:
		return exitInterrupted
	case errors.Is(err, errUsage):
		return exitUsage
	case err != nil:
		return exitFault
	}
	return exitOK
}

// measure runs the rows and prints them. The report is nil if it did not come
// to rows.
func (b *bench) measure(ctx context.Context, o options, command string) (*report.Report, error) {
	target, err := openTarget(ctx, o)
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.target = target
	b.mu.Unlock()
	defer stop(target)
	rep := &report.Report{Environment: newEnvironment(target)}
	env := &rep.Environment
	env.Command = command

	capacity, measured := float64(usualCapacity), target.Servers()[0].Kind() == redistest.Mini
	if measured {
		if capacity, err = run.MeasureCapacity(ctx, target.Servers()[0]); err != nil {
			return nil, err
		}
	}
	p, notes, err := choose(o, capacity, measured)
	if err != nil {
		return nil, err
	}
	if o.out != "" && !measured && !o.max { // miniredis has no CPU of its own
		p.Watch = p.Lease * 2 / 3
	}
	env.LeaseMs, env.DurationMs = p.Lease.Milliseconds(), p.Duration.Milliseconds()
	if measured {
		notes = append(notes, fmt.Sprintf("note: embedded miniredis renews %s\u00a0locks/s one by one here. Redis renews far more, so use a redis-server for figures that matter", report.Count(int(capacity))))
	}
	for _, note := range notes {
		fmt.Fprintln(b.stderr, "bench:", note)
	}

	pa, err := run.NewParent(target, p, b.stderr, newProgress(b.stderr, p))
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.parent = pa
	b.mu.Unlock()
	gone, err := pa.Control(ctx)
	if err != nil {
		return nil, err
	}
	env.Notes = append(notes, fmt.Sprintf("control lock: gone %v after it was taken for %v and not renewed, as it must be", gone.Round(time.Millisecond), run.ControlLease))

	machine := run.WatchMachine(target)
	env.Load = machine.Load()
	if warning := env.Load.WarningAtStart(); warning != "" {
		fmt.Fprintln(b.stderr, "bench:", warning)
	}
	if o.max {
		return rep, b.findMax(ctx, rep, pa, p, machine)
	}
	rep.Rows = pa.Rows(ctx)
	env.Load = machine.Load()
	env.Interrupted = pa.Interrupted(ctx)
	report.WriteText(b.stdout, rep)
	return rep, report.CheckSound(rep.Rows)
}

// findMax fills a report with how many locks each driver keeps. A row that
// did not keep its locks is expected here, and no fault.
func (b *bench) findMax(ctx context.Context, rep *report.Report, pa *run.Parent, p run.Plan, machine *run.Machine) error {
	var none []string
	for _, d := range p.Drivers {
		if pa.Interrupted(ctx) {
			break
		}
		found, rows := pa.Max(ctx, d.Name, p.Locks[0], maxLocks)
		rep.Max, rep.Rows = append(rep.Max, found), append(rep.Rows, rows...)
		if found.Kept == 0 && !found.Interrupted {
			none = append(none, d.Name)
		}
	}
	rep.Environment.Load = machine.Load()
	rep.Environment.Interrupted = pa.Interrupted(ctx)
	report.WriteText(b.stdout, rep)
	if len(none) > 0 {
		return fmt.Errorf("bench: FAILED: %s kept no lock", strings.Join(none, ", "))
	}
	return nil
}

// openTarget finds or starts the Redis that -redis or -cluster asks for.
func openTarget(ctx context.Context, o options) (*holders.Target, error) {
	if o.cluster != nil {
		ctx, cancel := context.WithTimeout(ctx, serverTimeout)
		defer cancel()
		return holders.ConnectCluster(ctx, o.cluster)
	}
	var srv *redistest.Server
	var err error
	switch o.redis {
	case "auto":
		srv, err = redistest.Auto(ctx)
	case "embedded":
		srv, err = redistest.StartMini(redistest.MiniOptions{})
	default:
		ctx, cancel := context.WithTimeout(ctx, serverTimeout)
		defer cancel()
		srv, err = redistest.Connect(ctx, o.redis)
	}
	if err != nil {
		return nil, err
	}
	return holders.OneServer(srv), nil
}

// stop ends the servers that bench has started, and no others.
func stop(t *holders.Target) {
	for _, srv := range t.Servers() {
		_ = srv.Stop()
	}
}
