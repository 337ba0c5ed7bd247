package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock"
)

const (
	// minLease is the shortest lease that leaves time to end a command before the lease ends.
	minLease = time.Second
	forever  = time.Duration(-1)
)

// runOptions are the command line of run.
type runOptions struct {
	servers servers
	wait    time.Duration // 0: one try; negative: no limit
	lease   time.Duration
	grace   time.Duration
	keep    time.Duration // from when the lock was taken
	quiet   bool
	label   string
	name    string // without the prefix
	command []string
}

// lock returns the whole name of the lock.
func (o *runOptions) lock() string { return o.servers.prefix + o.name }

// parseRun reads the command line of run.
func (p *program) parseRun(args []string) (runOptions, error) {
	o := runOptions{lease: lock.DefaultLease, grace: -1}
	ours, command, found := cut(args)
	fs := newFlags("run [flags] NAME -- command [argument...]",
		"Runs a command while it holds the lock NAME. The command is ended when the lock is lost.")
	o.servers.register(fs)
	fs.Var((*waiting)(&o.wait), "wait", "`duration` of the wait for the lock: 10s, 5m, a number of seconds, or forever (default one\ntry, so that scheduled runs do not pile up)")
	fs.Var((*duration)(&o.lease), "lease", "`duration` for which others wait if this process or machine dies; the lock is renewed every third of it (default 30s)")
	fs.Var((*duration)(&o.grace), "grace", "`duration` that the command has to end by itself when the lock is lost, between SIGTERM and SIGKILL,\nat most half of the lease (default 10s, or a third of a shorter lease)")
	fs.Var((*duration)(&o.keep), "keep", "`duration` for which the lock stays taken, from when it was taken, if the command ends earlier:\nlonger than the clocks of the machines differ, and shorter than the period of a scheduled run (default 0)")
	fs.BoolVar(&o.quiet, "quiet", false, "print nothing if another has the lock; the status is still 120")
	fs.StringVar(&o.label, "label", "", "`text` that says who has the lock, for inspect and list (default the name of this host; - for none)")
	names, err := p.parse(fs, ours)
	if err != nil {
		return o, err
	}
	switch {
	case len(names) == 0:
		return o, usagef("run: the lock has no name: write wheellock run NAME -- command")
	case !found && len(names) > 1:
		return o, usagef("run: there is no -- before the command: write wheellock run %s -- %s", names[0], strings.Join(names[1:], " "))
	case len(names) > 1:
		return o, usagef("run: %q stands before the --: write only flags and one name there", names[1])
	case len(command) == 0 || command[0] == "":
		return o, usagef("run: there is no command: write wheellock run %s -- command", names[0])
	case o.lease < minLease || o.lease > lock.MaxLease || o.lease%time.Millisecond != 0:
		return o, usagef("-lease is %v: it must be whole milliseconds from %v to %v", o.lease, minLease, lock.MaxLease)
	}
	if o.keep > lock.MaxLease {
		return o, usagef("-keep is %v: it must be at most %v", o.keep, lock.MaxLease)
	}
	if o.grace == -1 {
		o.grace = min(defaultGrace, o.lease/3)
	}
	if o.grace > o.lease/2 {
		return o, usagef("-grace is %v: it must be at most half of the lease, %v, because the lock must be kept that long when it cannot be renewed", o.grace, o.lease/2)
	}
	if err := checkName(names[0]); err != nil {
		return o, err
	}
	o.name, o.command = names[0], command
	return o, p.settle(&o.servers, o.quiet)
}

// cut splits args at the first --, which may be missing.
func cut(args []string) (before, after []string, found bool) {
	for i, arg := range args {
		if arg == "--" {
			return args[:i], args[i+1:], true
		}
	}
	return args, nil, false
}

// parseNamed reads the command line of a subcommand that has a name and flags.
func (p *program) parseNamed(fs *flag.FlagSet, s *servers, args []string) (string, error) {
	s.register(fs)
	names, err := p.parse(fs, args)
	if err != nil {
		return "", err
	}
	if len(names) != 1 {
		return "", usagef("%s: %d names are given: write the name of one lock", subcommandOf(fs), len(names))
	}
	if err := checkName(names[0]); err != nil {
		return "", err
	}
	return names[0], p.settle(s, false)
}

// checkName refuses the URL of Redis as the name of a lock. It is a mistake, and names are shown.
func checkName(name string) error {
	scheme, _, found := strings.Cut(name, "://")
	if found && (strings.HasPrefix(scheme, "redis") || strings.HasPrefix(scheme, "valkey") || scheme == "unix") {
		return usagef("the name of the lock is a URL of Redis: write -redis before the URL, and give the name")
	}
	return nil
}

// newFlags returns the flags of a subcommand, whose usage begins with its name.
func newFlags(usage, what string) *flag.FlagSet {
	fs := flag.NewFlagSet(usage, flag.ContinueOnError)
	fs.SetOutput(io.Discard) // wheellock prints the errors itself, on one line
	fs.Usage = func() { fmt.Fprintf(fs.Output(), "Usage: wheellock %s\n\n%s\n\n", usage, what) }
	return fs
}

// subcommandOf returns the subcommand that the flags belong to.
func subcommandOf(fs *flag.FlagSet) string {
	name, _, _ := strings.Cut(fs.Name(), " ")
	return name
}

// parse reads flags and names in any order. On -h it prints the help and returns
// flag.ErrHelp.
func (p *program) parse(fs *flag.FlagSet, args []string) (names []string, err error) {
	for {
		switch err := fs.Parse(args); {
		case errors.Is(err, flag.ErrHelp):
			fs.SetOutput(p.out)
			fs.Usage()
			fs.PrintDefaults()
			return nil, err
		case err != nil:
			for name, form := range forms {
				if strings.HasSuffix(err.Error(), "not defined: "+name) {
					return nil, usagef("%s: %s is no longer a flag: write -redis %s", subcommandOf(fs), name, form)
				}
			}
			return nil, usagef("%s: %v, see wheellock help %[1]s", subcommandOf(fs), err)
		case fs.NArg() == 0:
			return names, nil
		}
		names, args = append(names, fs.Arg(0)), fs.Args()[1:]
	}
}

// duration is a flag whose value is a text for time.ParseDuration, or a number of seconds.
type duration time.Duration

// String returns "", so that the help adds no default. The text of each flag says it.
func (d *duration) String() string { return "" }

func (d *duration) Set(s string) error {
	v, err := parseTime(s)
	if err == nil && v < 0 {
		err = errors.New("it must not be negative")
	}
	*d = duration(v)
	return err
}

// waiting is a duration that may also be negative or "forever", which mean no limit.
type waiting time.Duration

func (w *waiting) String() string { return "" }

func (w *waiting) Set(s string) error {
	if s == "forever" {
		*w = waiting(forever)
		return nil
	}
	v, err := parseTime(s)
	*w = waiting(v)
	return err
}

func parseTime(s string) (time.Duration, error) {
	if n, err := strconv.ParseFloat(s, 64); err == nil && math.Abs(n) < float64(math.MaxInt64/time.Second) {
		return time.Duration(math.Round(n * float64(time.Second))), nil
	}
	v, err := time.ParseDuration(s)
	if err != nil {
		return 0, errors.New("it must be a time like 500ms, 30s, 5m, or a number of seconds")
	}
	return v, nil
}
