// Package topology has the interface through which package lock finds its Redis
// servers, if their addresses change or if there are several. Packages sentinel
// and cluster implement the interface. Implement a Topology yourself only for
// servers that are found in another way.
//
// A Topology tells a Client where the servers are, again after each change, and
// dials them. The Client does the rest. It opens and closes connections, sends
// requests to the servers that have the keys, and checks its holds on a server
// that has replaced another one.
package topology

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Topology finds a server whose address changes, or several servers. It may
// serve several Clients. All methods are safe for concurrent use.
type Topology interface {
	// Traits returns what never changes.
	Traits() Traits

	// Dial connects to a server that a Layout, or a redirection by another server,
	// has named. Dial should return when ctx ends. If Dial returns later, the next
	// dial waits for this one and uses its result.
	Dial(ctx context.Context, server string) (redis.Conn, error)

	// Follow finds out where the servers are and calls update with a Layout. It
	// does so at once, after each period, and soon after it receives from hint. A
	// hint says that a connection or a request failed. Calls of update do not
	// overlap. Follow returns when ctx ends. Each Client that has been used calls
	// Follow once, and ctx ends when the Client is closed.
	Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(Layout))
}

// Traits has the properties of a Topology that never change.
type Traits struct {
	// Slots is true if keys are spread over servers by their hash slots, as in a
	// Redis Cluster. If it is false there is one server, and Dial is called with
	// an empty name.
	Slots bool
	// PubSub says how releases are published. It counts only with Slots.
	PubSub PubSub
	// DialTimeout limits a dial with everything in it: Dial, and the questions that
	// the Client asks over the new connection. 0 means 5 s. It also limits the wait
	// for the first Layout. A Client takes a sixth of its lease if that is less.
	DialTimeout time.Duration
}

// PubSub says how releases are published in a Redis Cluster. Waiters listen in the
// same way. All clients that share locks, including clients of Redisson, must use the
// same way. Clients that differ find each other's releases only by polling.
type PubSub uint8

const (
	// PubSubAuto is PubSubSharded on every server of version 7 or newer, of Redis or
	// Valkey, and PubSubPlain on all others. Redisson 3.22 and newer do the same.
	PubSubAuto PubSub = iota
	// PubSubPlain publishes with PUBLISH. Every node forwards the message to all others.
	PubSubPlain
	// PubSubSharded publishes with SPUBLISH. The message stays on the server that has
	// the lock and on its replicas.
	PubSubSharded
)

// Layout is what a Topology knows now.
type Layout struct {
	// Servers are the servers that have keys. Without slots there is one.
	Servers []Server
	// Slots has for each of the 16,384 slots the index of its server, or -1 if
	// no server has it. It is nil without slots.
	Slots []int
	// Warning is for the log: the servers were found, but something is wrong. It is nil
	// if nothing is wrong.
	Warning error
	// Err says why the servers could not be found. The other fields are empty then.
	Err error
}

// Server is one server in a Layout.
type Server struct {
	// Name is the argument of Dial. Without slots Dial gets an empty name, and Name
	// is only for the log.
	Name string
	// Instance identifies the server that has the name now. When Instance changes,
	// the client closes the connections to the old server and checks all holds on
	// the new one.
	Instance string
}
