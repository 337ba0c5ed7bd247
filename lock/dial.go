package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// dialer opens a connection; it may block past its context, see package dialing.
type dialer = func(context.Context) (redis.Conn, error)

// sourceDialer returns how the engine reaches the one server of source with its
// so many connections for commands and for renewal.
func sourceDialer(source Source, commands, renewals int) (dialer, error) {
	pool, ok := source.(*redis.Pool)
	if !ok && source != nil {
		return nil, fmt.Errorf("lock: New got a %T: it needs a *redis.Pool or a topology.Topology, as packages sentinel and cluster make it", source)
	}
	need := commands + renewals + 1
	if pool != nil && pool.MaxActive > 0 && pool.MaxActive < need {
		return nil, fmt.Errorf("lock: the pool's MaxActive is %d: the engine needs %d connections "+
			"(commands %d, renewal %d, a subscriber)", pool.MaxActive, need, commands, renewals)
	}
	return poolDialer(pool)
}

// poolDialer returns how pool dials. The engine's connections live long and
// are written and read by different goroutines, which a pooled connection does
// not allow, so they are dialled beside the pool.
func poolDialer(pool *redis.Pool) (dialer, error) {
	switch {
	case pool == nil:
		return nil, errors.New("lock: New needs a *redis.Pool, got nil")
	case pool.DialContext != nil:
		return pool.DialContext, nil
	case pool.Dial != nil:
		dial := pool.Dial
		return func(context.Context) (redis.Conn, error) { return dial() }, nil
	}
	return nil, errors.New("lock: the pool has no Dial function: set redis.Pool.DialContext or Dial")
}
