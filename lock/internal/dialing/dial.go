// Package dialing bounds dial functions that do not bound themselves.
package dialing

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"
)

// Dial calls dial and returns what it returns, but not later than ctx ends. A
// dial function that does not heed its context is left behind then, and what it
// brings later is closed.
func Dial(ctx context.Context, dial func(context.Context) (redis.Conn, error)) (redis.Conn, error) {
	type result struct {
		conn redis.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		conn, err := dial(ctx)
		if err == nil && conn == nil {
			err = errors.New("the dial function returned neither a connection nor an error")
		}
		done <- result{conn, err}
	}()
	select {
	case r := <-done:
		return r.conn, r.err
	case <-ctx.Done():
		go func() {
			if r := <-done; r.err == nil {
				r.conn.Close()
			}
		}()
		return nil, ctx.Err()
	}
}
