package faults

import (
	"context"
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
	// Stretches: the fault makes the server keep what nobody renews for
	// longer than its lease, so that who waits for it waits longer.
	Stretches bool
	// Kills: the fault ends processes.
	Kills bool
	// Args are the server's.
	Args []string
	// Start starts the server if it needs more than Args.
	Start func(ctx context.Context, o Options, s *scene) (Target, error)
	// Blind: nobody looks at the server beside the clients, because the one
	// that was started is not the one that counts.
	Blind bool
	// NoPermits: the fault may take the number of permits alone.
	NoPermits bool
	// Inject does it once, heals it, and returns how often it really
	// happened.
	Inject func(ctx context.Context, s *scene) (int, error)
	// Load replaces the usual one, if it is not zero.
	Load Load
	// Rounds is how often Inject is called; 0 is 1.
	Rounds int
	// For, if it is not 0, is how long Inject is called again and again.
	For time.Duration
}

// usual is what each of a run's processes does.
var usual = Load{Mutexes: 3, Each: 2, RW: 1, Permits: 1, Counts: 1, Shared: 1, Many: 40, Throng: 6}

// processes work at once in a run.
const processes = 3

// Options are those of a run.
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
	// Lease is that of all locks; 2 s if 0.
	Lease time.Duration
	// Flaw makes the processes use a broken twin instead of the library.
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
	Undecided   int // pieces whose order porcupine did not find in time
	Pieces      int // in which the history was checked, most of them while it was made
	Quiet       int // points at which the processes rested
	Violations  []string
	LongestWait time.Duration
	Took        time.Duration
	After       time.Duration // of Took, after the last process had ended
	Memory      uint64        // most bytes that the parent had of the system
	Kept        string        // directory of a failed run
	Processes   []Report      // of those that lived to their end
}
