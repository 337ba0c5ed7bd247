package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/bench/internal/report"
	"github.com/wheellock/wheellock/bench/internal/run/holders"
	"github.com/wheellock/wheellock/lock"
)

const (
	maxLocks    = 10_000_000
	maxDuration = 24 * time.Hour
)

// options are the command line. A zero field was not given.
type options struct {
	redis    string   // auto, embedded, or an address that redistest.Connect takes
	cluster  []string // addresses of nodes of a Cluster, instead of redis
	locks    []int
	drivers  []holders.Driver
	max      bool
	lease    time.Duration
	duration time.Duration
	json     string
	out      string
}

// errUsage marks errors that the user can correct on the command line.
var errUsage = errors.New("bench: wrong usage")

// usageError is a fault of the command line, in one line. It is errUsage.
type usageError struct{ text string }

func (e *usageError) Error() string        { return "bench: " + e.text }
func (e *usageError) Is(target error) bool { return target == errUsage }

func usagef(format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...)}
}

// parse reads the command line. On -h it prints the help and returns
// flag.ErrHelp.
func parse(args []string, help io.Writer) (options, error) {
	o := options{}
	locks, nodes, names := "", "", strings.Join(report.Drivers(), ",")
	fs := flag.NewFlagSet("bench", flag.ContinueOnError)
	fs.SetOutput(io.Discard) // its errors are ours to print, on one line
	fs.StringVar(&o.redis, "redis", "auto", "`server`: auto (REDIS_ADDR, else redis-server on PATH, else embedded), embedded, host:port,\nor redis://user:password@host:port/db")
	fs.StringVar(&nodes, "cluster", "", "`nodes` of a Redis Cluster, instead of -redis: host:port or redis:// URLs, a list; the others are found")
	fs.StringVar(&locks, "locks", "", "`numbers` of locks to hold, a list (default 1000,10000; fewer if embedded)")
	fs.StringVar(&names, "drivers", names, "`names` of the ways to renew them, a list")
	fs.BoolVar(&o.max, "max", false, "find how many locks are kept renewed at the lease, by doubling, then halving (default of -drivers then: library)")
	fs.DurationVar(&o.lease, "lease", 0, "the locks' lease, renewed every third of it (default 3s; longer if many locks need it)")
	fs.DurationVar(&o.duration, "duration", 0, "how long a row holds its locks, at least the lease (default the lease; with -max two)")
	fs.StringVar(&o.json, "json", "", "`file` for the report as JSON")
	fs.StringVar(&o.out, "out", "", "`directory` for charts, a page with everything (index.html) and report.json")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(help, "Usage: go run ./bench [flags]\n\nHolds many locks on Redis, renews them in several ways, and prints what each way costs.\n\n")
		fs.SetOutput(help)
		fs.PrintDefaults()
		return o, err
	} else if err != nil {
		return o, usagef("%v", err)
	}
	if fs.NArg() > 0 {
		return o, usagef("%q is not a flag: all settings are flags, see -h", fs.Arg(0))
	}
	given := map[string]bool{}
	fs.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var err error
	if given["locks"] {
		if o.locks, err = parseLocks(locks); err != nil {
			return o, err
		}
	}
	if o.drivers, err = parseDrivers(names); err != nil {
		return o, err
	}
	if o.max && given["locks"] {
		return o, usagef("-max and -locks are both given: -max finds the number of locks")
	}
	if o.max && !given["drivers"] {
		o.drivers, _ = parseDrivers(report.Library)
	}
	if given["json"] && o.json == "" {
		return o, usagef("-json names no file")
	}
	if given["out"] && o.out == "" {
		return o, usagef("-out names no directory")
	}
	if given["lease"] && (o.lease < lock.MinLease || o.lease > lock.MaxLease || o.lease%time.Millisecond != 0) {
		return o, usagef("-lease is %v: it must be whole milliseconds from %v to %v", o.lease, lock.MinLease, lock.MaxLease)
	}
	if given["duration"] && (o.duration < lock.MinLease || o.duration > maxDuration) {
		return o, usagef("-duration is %v: it must be from %v to %v", o.duration, lock.MinLease, maxDuration)
	}
	if given["lease"] && given["duration"] && o.duration < o.lease {
		return o, usagef("-duration is %v: it must be at least -lease, %v, or locks that nobody renews would look held", o.duration, o.lease)
	}
	if given["cluster"] {
		if given["redis"] {
			return o, usagef("-cluster and -redis are both given: it must be one of them")
		}
		for node := range strings.SplitSeq(nodes, ",") {
			node = strings.TrimSpace(node)
			if err := checkNode(node); err != nil {
				return o, err
			}
			o.cluster = append(o.cluster, node)
		}
	}
	return o, checkAddress(o.redis)
}

// checkNode refuses what no node of a Cluster can be at.
func checkNode(s string) error {
	scheme, _, isURL := strings.Cut(s, "://")
	if !isURL {
		if host, port, err := net.SplitHostPort(s); err != nil || port == "" || strings.ContainsAny(host, "@/ ") {
			return usagef("-cluster has a node that is not an address: it must be host:port or a redis:// URL, or several with commas")
		}
		return nil
	}
	u, err := url.Parse(s)
	switch {
	case scheme != "redis" && scheme != "rediss":
		return usagef("-cluster has the scheme %q: it must be redis or rediss", scheme)
	case err != nil || u.Host == "":
		return usagef("-cluster has a URL that cannot be parsed: write redis://user:password@host:port, with %%-escapes in the password")
	case strings.Trim(u.Path, "/0") != "":
		return usagef("-cluster has a URL with a database: a Cluster has only database 0")
	}
	return nil
}

// commandLine is how the run was asked for, without a password.
func commandLine(args []string) string {
	line := "go run ./bench"
	for _, arg := range args {
		line += " " + quoted(withoutPassword(arg))
	}
	return line
}

// nextURL is where another URL of a list begins, behind the spaces that parse trims.
var nextURL = regexp.MustCompile(`,[\s\v\x{85}\pZ]*(rediss?://)`)

// withoutPassword hides the passwords of URLs, which may stand behind -redis= or
// in a list.
func withoutPassword(arg string) string {
	if next := nextURL.FindStringSubmatchIndex(arg); next != nil {
		comma, from := next[0], next[2]
		return withoutPassword(arg[:comma]) + arg[comma:from] + withoutPassword(arg[from:])
	}
	at := strings.Index(arg, "://")
	if at < 0 {
		return arg
	}
	from := strings.LastIndex(arg[:at], "=") + 1
	u, err := url.Parse(arg[from:])
	if err != nil {
		return arg[:from] + "URL"
	}
	return arg[:from] + u.Redacted()
}

// quoted is arg as a shell takes it.
func quoted(arg string) string {
	if arg != "" && !strings.ContainsAny(arg, " \t\n\"'`$&|;<>()*?[]#~!\\") {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

func parseLocks(list string) ([]int, error) {
	var out []int
	for _, s := range strings.Split(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(s))
		switch {
		case err != nil || n < 1 || n > maxLocks:
			return nil, usagef("-locks has %q: it must be a whole number from 1 to %d, or several with commas", s, maxLocks)
		case slices.Contains(out, n):
			return nil, usagef("-locks has %d twice", n)
		}
		out = append(out, n)
	}
	return out, nil
}

func parseDrivers(list string) ([]holders.Driver, error) {
	var out []holders.Driver
	for _, s := range strings.Split(list, ",") {
		name := strings.TrimSpace(s)
		d, ok := holders.DriverNamed(name)
		switch {
		case !ok:
			return nil, usagef("-drivers has %q: it must be one of %s", s, strings.Join(report.Drivers(), ", "))
		case slices.ContainsFunc(out, func(o holders.Driver) bool { return o.Name == name }):
			return nil, usagef("-drivers has %s twice", name)
		}
		out = append(out, d)
	}
	return out, nil
}

// checkAddress refuses what no server can be at. It never repeats a URL, which
// may have a password in it.
func checkAddress(s string) error {
	switch scheme, _, isURL := strings.Cut(s, "://"); {
	case s == "auto", s == "embedded", strings.HasPrefix(s, "/"):
		return nil
	case isURL:
		if scheme != "redis" && scheme != "rediss" && scheme != "unix" {
			return usagef("-redis has the scheme %q: it must be redis, rediss or unix", scheme)
		}
		if u, err := url.Parse(s); err != nil || u.Host == "" && u.Path == "" {
			return usagef("-redis is a URL that cannot be parsed: write redis://user:password@host:port/db, with %%-escapes in the password")
		}
		return nil
	}
	if host, port, err := net.SplitHostPort(s); err != nil || port == "" || strings.ContainsAny(host, "@/ ") {
		return usagef("-redis is not an address: it must be auto, embedded, host:port or a redis:// URL")
	}
	return nil
}
