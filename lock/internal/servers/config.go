package servers

import (
	"context"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/topology"
)

// Config is what a Router gets from above. Its functions are called with no lock of
// the Router held.
type Config struct {
	// Topology says where the servers are. If it is nil there is one server for good,
	// which Dial reaches. With a Topology, Dial is not used.
	Topology topology.Topology
	Dial     func(context.Context) (redis.Conn, error)

	// Lease is how long the user may go on using a server that no Layout names any
	// more. The Topology is asked again after a sixth of it, or after 5 s.
	Lease time.Duration
	// IOTimeout bounds a dial, a round trip, and the wait for the first Layout.
	IOTimeout time.Duration
	// Connections is how many pipelined connections for commands every server has,
	// and, with Replicas, how many more for what replicas must have.
	Connections int
	// Replicas is how many replicas must have an acquisition, and ReplicaTimeout how
	// long it waits for them.
	Replicas       int
	ReplicaTimeout time.Duration
	// Cast names the goroutines.
	Cast *role.Cast
	// Trial is the channel on which the right to publish is tried, and Overlap is how
	// long both ways to publish are listened for when the way has changed.
	Trial   string
	Overlap time.Duration
	// Logger gets the warnings that package lock lists.
	Logger *slog.Logger

	// Closing is closed when the user begins to close. From then on nothing waits
	// until a server is known.
	Closing <-chan struct{}
	// Opened is told of every server that is opened, before anything is sent to it,
	// and returns what belongs to the server and is not this package's. Others who
	// need that server wait meanwhile, so it does no I/O and does not ask for the
	// same server. An error says that the user is closed, so that the server is never
	// opened.
	Opened func(*Server) (Attachment, error)
	// Moved is told that slots have another server than before, from the goroutine
	// that follows the Topology. The Router knows the new servers already.
	Moved func()
}

// Attachment is what the user keeps for one server. The Router tells it what becomes
// of the server, one call at a time; only Close may be called by several goroutines.
type Attachment interface {
	// Replaced says that another server stands behind the name: the epoch has ended,
	// and connections of earlier ones are to be given up.
	Replaced()
	// Idle reports whether nothing of the user's needs the server any more.
	Idle() bool
	// Retire says that the server is no more, while the others go on. Close follows.
	Retire()
	// Close ends what the Attachment has, and returns when no goroutine of it runs.
	// It may be called again.
	Close()
}
