package servers

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/topology"
)

// Config has the settings of a Router. Its functions are called with no mutex of the
// Router held.
type Config struct {
	// Topology says where the servers are. If it is nil there is always one server,
	// which Dial reaches. With a Topology, Dial is not used.
	Topology topology.Topology
	Dial     func(context.Context) (redis.Conn, error)
	// Address names the server that Dial reaches, until it is known where it has
	// connected to. It is empty if it is not known, as for a pool.
	Address string

	// Lease is how long the user may still use a server that no Layout names any
	// more. The Topology is asked again after a sixth of Lease, or after 5 s if that
	// is less.
	Lease time.Duration
	// IOTimeout bounds a round trip. DialTimeout bounds a dial with all its round trips, and
	// the wait for the first Layout.
	IOTimeout, DialTimeout time.Duration
	// CheckMasterEvery is how often a connection for commands that is used asks whether its server is a
	// replica now. It does not ask where keys have slots, because replicas there redirect.
	CheckMasterEvery time.Duration
	// Connections is how many pipelined connections for commands every server has.
	// With Replicas, a server has as many again for acquisitions that replicas must
	// have.
	Connections int
	// Replicas is how many replicas must have an acquisition. ReplicaTimeout is how
	// long the acquisition waits for them.
	Replicas       int
	ReplicaTimeout time.Duration
	// Labeler names the goroutines.
	Labeler *work.Labeler
	// Trial is the channel on which the right to publish is tried. Overlap is how long
	// a Subscriber listens in both ways after the way to publish has changed, and how long it
	// counts on no message after an ASK.
	Trial   string
	Overlap time.Duration
	Logger  *record.Logger
	Random  *rand.Rand // shortens pauses; nil in tests that need none

	// Closing is closed when the user begins to close. From then on no request waits
	// until a server is known.
	Closing <-chan struct{}
	// Opened is called for every server that is opened, before anything is sent to it.
	// It returns the user's Attachment for the server. Other goroutines that need the
	// server wait meanwhile, so Opened does no I/O and does not ask for the same
	// server. An error says that the user is closed, and the server is then never
	// opened.
	Opened func(*Server) (Attachment, error)
	// Moved is called when slots have another server than before, on the goroutine
	// that follows the Topology. The Router already knows the new servers.
	Moved func()
}

// Attachment has the user's state for one server. The Router calls one method at a
// time. Only Close may be called by several goroutines.
type Attachment interface {
	// Replaced says that another server is behind the name now. The epoch has ended,
	// and the user must close connections of earlier epochs.
	Replaced()
	// Idle reports whether the user no longer needs the server.
	Idle() bool
	// Retire says that the server is closed for good, while others stay open. Close
	// follows.
	Retire()
	// Close ends what the Attachment has, and returns when no goroutine of it runs.
	// It may be called again.
	Close()
}
