package faults

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Target is a server that faults happen to. *redistest.Server is one.
type Target interface {
	Network() string
	Addr() string
	Dial(opts ...redis.DialOption) (redis.Conn, error)
	Info(section string) (map[string]string, error)
	Pause() error
	Resume() error
	Kill() error
	Restart(ctx context.Context) error
	Stop() error
	String() string
}

// Row is one fault of the matrix and what must hold under it.
type Row struct {
	Name string
	// Promise says in words what must hold, beside what holds always.
	Promise string
	// Loses: the fault takes locks from holders that are alive. There they
	// are told within a renewal interval and a round trip, and the register
	// refuses them; everywhere else no two holders overlap and loss is told
	// before the server's own expiry.
	Loses bool
	// Stretches: the fault makes the server keep locks without renewal
	// for longer than their lease, so waiters wait longer.
	Stretches bool
	// Args are arguments of the server.
	Args []string
	// Start starts the server if it needs more than Args.
	Start func(ctx context.Context, o Options, s *scene) (Target, error)
	// Blind: the checks do not look at the server, because the server that
	// was started is not the one that counts in the end.
	Blind bool
	// Inject does it once, heals it, and returns how often it really happened.
	Inject func(ctx context.Context, s *scene) (int, error)
	// Load replaces the usual one, if it is not zero.
	Load Load
	// Rounds is how often Inject is called; 0 is 1.
	Rounds int
}

// usual is what each of a run's processes does.
var usual = Load{Mutexes: 3, Each: 2, RW: 1, Own: 40}

// processes work at once in a run.
const processes = 3

// ErrNoCompiler is returned by Run when a row needs a C compiler and there is none.
var ErrNoCompiler = errors.New("faults: no C compiler makes a server whose clock can be set")

// Options are the options of a run.
type Options struct {
	// Start starts a server with arguments of redis-server added to those
	// of a server that saves nothing.
	Start func(ctx context.Context, args ...string) (Target, error)
	// Register is a server to which nothing happens.
	Register Target
	// Prefix keeps the keys of runs apart there.
	Prefix string
	// Seed decides everything that is random in the parent and in the workers.
	Seed uint64
	// Flaw makes the processes use a flawed client instead of the library.
	Flaw Flaw
	// Keep is where a failed run leaves its history; a new directory in the
	// system's temporary one if empty.
	Keep string
}

// Result is one line of the table.
type Result struct {
	Row         Row
	Server      string
	Seed        uint64
	Injected    int
	Operations  int // attempts to lock
	Holds       int
	Lost        int
	Late        int
	Excused     int // losses seen late because the process stood still
	Undecided   int // keys for whose operations porcupine found no order in time
	Violations  []string
	LongestWait time.Duration
	Took        time.Duration
	Kept        string // directory of a failed run
}

// Table prints results, a line for each.
func Table(results []Result) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tinjected\toperations\theld\tlost\ttold late\texcused\tviolations\tundecided\tlongest wait\ttook\tmust hold")
	for _, r := range results {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%v\t%v\t%s\n", r.Row.Name, r.Injected, r.Operations, r.Holds, r.Lost, r.Late,
			r.Excused, len(r.Violations), r.Undecided, r.LongestWait.Round(time.Millisecond), r.Took.Round(100*time.Millisecond), r.Row.Promise)
	}
	_ = w.Flush()
	return b.String()
}

// Fault describes the faults of a run in words; empty if there are none.
func (r Result) Fault() string {
	const most = 10
	switch {
	case len(r.Violations) > 0:
		some := r.Violations
		if len(some) > most {
			some = append(slices.Clone(some[:most]), fmt.Sprintf("and %d more", len(some)-most))
		}
		return fmt.Sprintf("%d violations, %d told late; seed %d; history and pictures are in %s\n%s",
			len(r.Violations), r.Late, r.Seed, r.Kept, strings.Join(some, "\n"))
	case r.Injected == 0:
		return fmt.Sprintf("the fault did not happen; seed %d", r.Seed)
	case r.Holds == 0:
		return "nobody held a lock"
	}
	return ""
}
