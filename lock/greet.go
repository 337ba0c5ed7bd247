package lock

import (
	"context"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// greet looks, on the node's first connection, whether the server may evict
// locks, and warns. A server that does not tell is left in peace; an error
// means that the connection is of no use.
func (n *node) greet(ctx context.Context, conn redis.Conn) error {
	if n.checked.Swap(true) {
		return nil
	}
	reply, err := redis.String(roundTrip(ctx, conn, "INFO", []any{"memory"}))
	if err != nil {
		if _, answered := err.(redis.Error); !answered {
			n.checked.Store(false)
			return err
		}
		return nil
	}
	if limit, policy := infoValue(reply, "maxmemory"), infoValue(reply, "maxmemory_policy"); policy != "" &&
		policy != "noeviction" && limit != "0" {
		n.c.cfg.Logger.Warn("lock: when its memory is full, this Redis evicts keys, locks among them, and a lock's holder "+
			"is told only at its next renewal: set maxmemory-policy to noeviction, or keep locks on a server of their own",
			"maxmemory_policy", policy, "maxmemory", limit)
	}
	return nil
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
