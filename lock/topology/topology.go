// Package topology says how package lock finds the Redis servers that have its
// locks, if their addresses change or there are several. Packages sentinel and
// cluster implement it. Implement a Topology yourself only for servers that are
// found in another way.
//
// A Topology tells a Client where the servers are, each time that this changes,
// and dials them. The Client does the rest by itself: it opens and closes
// connections, sends requests to the servers that have their keys, and checks
// its holds on a server that has replaced another one.
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

	// Dial connects to the server that a Layout, or a redirection by another
	// server, has named. If it returns later than ctx ends, the next dial waits
	// for it and uses its result.
	Dial(ctx context.Context, server string) (redis.Conn, error)

	// Follow finds out where the servers are and calls update with each Layout,
	// one after the other: at once, after each period, and soon after it
	// receives from hint, which says that something failed. It returns when ctx
	// ends. Each Client that has been used calls it once; ctx ends when the
	// Client is closed.
	Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(Layout))
}

// Traits are what never changes about a Topology.
type Traits struct {
	// Slots: keys are spread over servers by their hash slots, as in a Redis
	// Cluster. Without Slots there is one server, and Dial is called with an
	// empty name.
	Slots bool
	// PubSub says how releases are published where there are slots.
	PubSub PubSub
}

// PubSub says how releases are published in a Redis Cluster. Waiters listen in the
// same way. All clients that share locks must use the same way, Redisson included.
// Clients that differ find each other's releases only by polling.
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
	// Err says why nothing could be found out. The other fields are empty then.
	Err error
}

// Server is one server in a Layout.
type Server struct {
	// Name is the argument of Dial. Without slots Dial gets no name, and this
	// one is only for the log.
	Name string
	// Instance identifies the server that the name stands for now. When it
	// changes, the client closes the connections to the old server and checks
	// all holds on the new one.
	Instance string
}
