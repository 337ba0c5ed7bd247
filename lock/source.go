package lock

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Source is the Redis that a Client's locks live on: a *redis.Pool of one
// server, or a topology.Topology of a server whose address changes, or of several
// servers: package sentinel has one, and package cluster. The engine needs
// connections that live long and that different goroutines write and read, which a
// pooled one does not allow, so it dials its own, as the Source would.
type Source interface {
	// GetContext returns a connection that the caller uses and closes; the
	// engine does not call it.
	GetContext(ctx context.Context) (redis.Conn, error)
}
