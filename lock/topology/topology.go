// Package topology says how package lock finds the Redis servers that have its
// locks, where that changes or there are several. Packages sentinel and cluster
// implement it; a user implements a Topology only for servers that are found in
// some other way.
//
// A Topology tells a Client where the servers are, each time that changes, and
// dials them. What the Client does with that, it does by itself: it opens and
// closes connections, sends requests to where their keys are, and looks holds up
// on a server that took the place of another.
package topology

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Topology finds a server whose address changes, or several servers. It may serve
// several Clients; all methods are safe for concurrent use.
type Topology interface {
	// Traits says what never changes.
	Traits() Traits

	// Dial connects to the server that a Layout, or a redirection by another
	// server, has named. It may return later than ctx ends; then the next dial
	// waits for it and uses what it returns.
	Dial(ctx context.Context, server string) (redis.Conn, error)

	// Follow finds out what is where and calls update with each Layout that it
	// gets, one after the other: at once, after each period, and soon after a
	// token in hint, which says that something went wrong. It returns when ctx
	// ends. Each Client that has been used calls it once, until it is closed.
	Follow(ctx context.Context, period time.Duration, hint <-chan struct{}, update func(Layout))
}

// Traits are what never changes about a Topology.
type Traits struct {
	// Slots: keys are spread over servers by their hash slots, as in a Redis
	// Cluster. Without it there is one server, and Dial is called with an
	// empty name.
	Slots bool
	// PubSub says how releases are published where there are slots.
	PubSub PubSub
}

// PubSub says how releases are published in a Redis Cluster, and so what waiters hear.
// All clients that share locks, those of Redisson too, have to agree: those that do not
// wake each other only by polling.
type PubSub uint8

const (
	// PubSubAuto is PubSubSharded on every server of version 7 or newer, of Redis or
	// Valkey, and PubSubPlain on others. Redisson 3.22 and newer do the same.
	PubSubAuto PubSub = iota
	// PubSubPlain publishes with PUBLISH, which every node passes on to all others.
	PubSubPlain
	// PubSubSharded publishes with SPUBLISH, which stays on the server that has the
	// lock, and its replicas.
	PubSubSharded
)

// Layout is what a Topology knows now.
type Layout struct {
	// Servers are those that have keys; one if there are no slots.
	Servers []Server
	// Slots has for each of the 16,384 slots the index of its server, or -1 if
	// no server has it. It is nil without slots.
	Slots []int
	// Err says why nothing could be found out; there is nothing else then.
	Err error
}

// Server is one server in a Layout.
type Server struct {
	// Name is what Dial takes. Without slots Dial takes no name, and this one is
	// for the log.
	Name string
	// Instance says which server the name stands for now. When it changes, its
	// connections are given up and all holds are looked up on the new one.
	Instance string
}
