package lock

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/dialing"
	"github.com/wheellock/wheellock/lock/internal/pipe"
)

// maxUnanswered is after how many INFOs without an answer a server is not asked
// again.
const maxUnanswered = 3

// open opens a connection for commands. Over the node's first one it looks
// whether the server may evict locks. That is advice, so a server that does not
// tell, or ends the connection for the question, is left in peace.
func (n *node) open(ctx context.Context, bound *dialing.Bound) (redis.Conn, uint32, error) {
	conn, epoch, err := n.connect(ctx, bound)
	if err != nil || n.checked.Swap(true) {
		return conn, epoch, err
	}
	failed := n.greet(ctx, conn)
	if failed == nil {
		return conn, epoch, nil
	}
	conn.Close()
	var slow net.Error
	if ctx.Err() != nil || errors.As(failed, &slow) && slow.Timeout() {
		// That may be the server, or the question.
		if n.unanswered.Add(1) == maxUnanswered {
			n.toldNothing(failed)
		} else {
			n.checked.Store(false)
		}
		return nil, epoch, failed
	}
	if conn, epoch, err = n.connect(ctx, bound); err != nil {
		n.checked.Store(false) // it was not the question
		return nil, epoch, err
	}
	n.toldNothing(failed)
	return conn, epoch, nil
}

// greet asks what the server does when its memory is full, and warns. An error
// means that the connection is of no use.
func (n *node) greet(ctx context.Context, conn redis.Conn) error {
	reply, err := pipe.RoundTrip(ctx, conn, "INFO", "memory")
	if _, refused := err.(redis.Error); err != nil && !refused {
		return err
	}
	info, _ := redis.String(reply, err) // nothing, if it was refused
	if limit, policy := infoValue(info, "maxmemory"), infoValue(info, "maxmemory_policy"); policy != "" &&
		policy != "noeviction" && limit != "0" {
		n.c.cfg.Logger.Warn("lock: when its memory is full, this Redis evicts keys, locks among them, and a lock's holder "+
			"is told only at its next renewal: set maxmemory-policy to noeviction, or keep locks on a server of their own",
			"maxmemory_policy", policy, "maxmemory", limit)
	}
	return nil
}

// toldNothing warns, once a node, that the server gave no answer to greet.
func (n *node) toldNothing(err error) {
	n.c.cfg.Logger.Warn("lock: INFO memory ended the connection or was not answered; the client works on without it, but does "+
		"not know whether this Redis evicts keys, locks among them: see that its maxmemory-policy is noeviction, and that "+
		"what stands before it is no proxy that shards", "server", n.where(), "error", err)
}

// infoValue returns the value of a field of an INFO reply.
func infoValue(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
