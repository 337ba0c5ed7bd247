package lock

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"
)

// dialer opens a connection; it may block past its context, see package dialing.
type dialer = func(context.Context) (redis.Conn, error)

// poolDialer returns how pool dials. The engine's connections, so many for commands
// and for renewal, live long and are written and read by different goroutines, which a
// pooled connection does not allow, so they are dialled beside the pool.
func poolDialer(pool *redis.Pool, commands, renewals int) (dialer, error) {
	need := commands + renewals + 1
	if pool != nil && pool.MaxActive > 0 && pool.MaxActive < need {
		return nil, fmt.Errorf("lock: the pool's MaxActive is %d: the engine needs %d connections "+
			"(commands %d, renewal %d, a subscriber)", pool.MaxActive, need, commands, renewals)
	}
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
