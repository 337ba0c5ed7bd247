// Package network has the interface between a client's holds and its servers. A [Network] knows
// the server of a key and sends scripts to it. The engine uses a [Routed], which connects to the
// servers of a pool or a Topology. Another Network, such as a simulation of servers, needs no
// connections.
//
//	hold, locktable, orphans ──▶ Network ──▶ Server ──▶ Lane
//	                             scripts     messages   renewals
package network

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/support/work"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/renewal"
)

// Network is the servers of a client. All methods are safe for concurrent use.
type Network interface {
	Sender
	// Count counts the answer to a call of Post as Send counts its own.
	Count(a pipe.Answer)
	// Unanswered returns how many counted calls got no answer.
	Unanswered() uint64
	// Refused returns how many counted calls, and how many batches of renewals, got an error of Redis
	// for an answer.
	Refused() uint64
	// Server returns the server of a key. It never returns nil, and does no I/O.
	Server(key string) Server
	// Publisher returns the command that publishes a release of the lock of that key, as text, or
	// nil for PUBLISH. Channel returns the channel of a key from its two names, one for PUBLISH
	// and one for SPUBLISH.
	Publisher(key string) any
	Channel(key, plain, sharded string) any
	// Router returns the Router of the real servers. The Router of a simulation finds none.
	Router() *servers.Router
	// Close ends all running calls with the error why, and returns when no goroutine of the
	// Network runs. The watchdog is already closed.
	Close(why error)
}

// Sender sends scripts. All traffic between the holds of a client and its servers goes through
// a Sender, except renewals and messages. So a simulation can treat each script as one event and
// its answer as another. All methods are safe for concurrent use.
type Sender interface {
	// Send sends a call to the server of key and waits for the answer until ctx ends. An answer
	// that comes later goes to late, unless late is nil.
	Send(ctx context.Context, key string, call wire.Call, late func(pipe.Answer)) pipe.Answer
	// Post sends a call and does not wait. The answer goes to late.
	Post(key string, call wire.Call, late func(pipe.Answer))
}

// Server is one server of a Network. Two of them are equal if they are the same server.
type Server interface {
	// Subscriber returns the connection for messages.
	Subscriber() *pubsub.Subscriber
	// Ahead returns how far the server's clock is estimated to be ahead of this process's clock.
	Ahead() time.Duration
	// Lane returns the lane that renews holds whose keys are on the server, or nil while the
	// server is not known.
	Lane() Lane
}

// Lane renews the holds of one server.
type Lane interface {
	// RenewalLane returns the watchdog's lane.
	RenewalLane() *renewal.Lane
	// Open starts to make connections, if none were made yet. It does not wait.
	Open()
	// Refusal returns the error with which the server last refused a renewal, if that was within
	// a lease. Otherwise it returns nil.
	Refusal() error
}

// Config has the settings of a Network.
type Config struct {
	// Servers has the settings for reaching servers, without Opened and Moved.
	Servers servers.Config
	// ID is the id of the client, which is the first part of every hash field.
	ID string
	// Lease and IOTimeout are the fields of package lock's Config.
	Lease, IOTimeout time.Duration
	Watchdog         *renewal.Watchdog
	Labeler          *work.Labeler
	Logger           *record.Logger
	// Advice returns what to do about a server that refuses to renew, or "" if the refusal ends
	// by itself.
	Advice func(refusal error) string
	// Closed is the error of requests that come after Close.
	Closed error
	// Moved is called when keys have another server than before, on a goroutine of the Network.
	Moved func()
}

// Connector is a Topology that brings its own Network: a simulation of servers.
type Connector interface {
	Connect(cfg Config) (Network, error)
}
