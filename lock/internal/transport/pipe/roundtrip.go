package pipe

import (
	"context"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// RoundTrip sends one command and waits for its answer until ctx ends. If it
// returns an error other than a redis.Error, the connection must be closed. When
// ctx ends, RoundTrip closes the connection, which also ends a write.
func RoundTrip(ctx context.Context, conn redis.Conn, cmd string, args ...any) (any, error) {
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	if err := conn.Send(cmd, args...); err != nil {
		return nil, err
	}
	if err := conn.Flush(); err != nil {
		return nil, err
	}
	deadline, _ := ctx.Deadline()
	reply, err := resp.Receive(conn, max(time.Until(deadline), time.Millisecond))
	if !stop() { // it is closed, perhaps after the answer was read
		return nil, wait.Ended(ctx)
	}
	return reply, err
}
