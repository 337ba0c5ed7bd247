package lock

import (
	"context"

	"github.com/gomodule/redigo/redis"
)

// Source is the Redis that a Client's locks live on. A *redis.Pool is the
// Source of one server. The engine needs connections that live long and that
// different goroutines write and read, which a pooled one does not allow, so it
// dials its own as the Source would.
type Source interface {
	// GetContext returns a connection that the caller uses and closes; the
	// engine does not call it.
	GetContext(ctx context.Context) (redis.Conn, error)
}
