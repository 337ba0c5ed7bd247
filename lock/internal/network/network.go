// Package network is what a client's holds see of its servers: a [Network], which says where the
// server of a key is and sends it scripts. The engine has one, [Routed], over the servers that a
// pool or a Topology leads to. Whatever else is one, such as a simulation of servers, needs no
// connection.
//
//	hold, locktable, orphans ──▶ Network ──▶ Server ──▶ Lane
//	                             scripts     messages   renewals
package network

import (
	"log/slog"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pubsub"
	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/internal/sender"
	"github.com/wheellock/wheellock/lock/internal/servers"
	"github.com/wheellock/wheellock/renewal"
)

// Network is the servers of a client. All methods are safe for concurrent use.
type Network interface {
	sender.Sender
	// Unanswered is how many calls of Send got no answer.
	Unanswered() uint64
	// Server returns the server of a key, which is not nil. It does no I/O.
	Server(key string) Server
	// Publisher is the command that publishes a release of the lock of that key: text, or nil
	// for PUBLISH. Channel is that of a key which has one name for PUBLISH, and another one for
	// SPUBLISH.
	Publisher(key string) any
	Channel(key, plain, sharded string) any
	// Router finds real servers. Of another Network than Routed it finds none.
	Router() *servers.Router
	// Close ends all that is under way, with why as its error, and returns when no goroutine of
	// the Network runs. The watchdog is closed already.
	Close(why error)
}

// Server is one server of a Network. Two of them are equal if they are the same server.
type Server interface {
	// Subscriber is the connection for messages.
	Subscriber() *pubsub.Subscriber
	// Ahead is how far the server's clock is estimated to be ahead of this process's.
	Ahead() time.Duration
	// Lane is where holds whose keys are on the server are renewed; nil while it is not known
	// which server it is.
	Lane() Lane
}

// Lane renews the holds of one server.
type Lane interface {
	// Leases is the watchdog's lane.
	Leases() *renewal.Lane
	// Open has connections made, if none were yet. It does not wait.
	Open()
	// Refusal is what the server last answered to a renewal, if that was within a lease; nil
	// otherwise. While it is the same refusal, it is the same error value.
	Refusal() *Refusal
}

// Refusal is an error that a server answered to a renewal.
type Refusal struct {
	Err error
	at  time.Time
}

// Config is what a Network gets from above.
type Config struct {
	// Servers is what it needs to reach servers, but for Opened and Moved.
	Servers servers.Config
	// ID is the client's: the first part of every hash field.
	ID string
	// Lease and IOTimeout are those of package lock's Config.
	Lease, IOTimeout time.Duration
	Watchdog         *renewal.Watchdog
	Cast             *role.Cast
	Logger           *slog.Logger
	// Advice says what to do about a server that refuses to renew; "" if that passes by itself.
	Advice func(refusal error) string
	// Closed is the error of requests that come after Close.
	Closed error
	// Moved is told that keys have another server than before, on a goroutine of the Network.
	Moved func()
}

// Connector is a Topology that brings its own Network: a simulation of servers.
type Connector interface {
	Connect(cfg Config) (Network, error)
}
