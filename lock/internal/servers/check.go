package servers

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

// dialChecked opens a connection for commands. Over the server's first one it asks
// whether the server may evict locks. That is advice, so a server that does not
// tell, or ends the connection because of the question, is not asked again.
func (s *Server) dialChecked(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	dialed, err := s.DialTimed(ctx, bound)
	if err != nil || s.checked.Swap(true) {
		return dialed, err
	}
	failed := s.check(ctx, dialed.Conn)
	if failed == nil {
		return dialed, nil
	}
	dialed.Conn.Close()
	if ctx.Err() != nil || isTimeout(failed) {
		// That may be the server, or the question.
		if s.unanswered.Add(1) == maxUnanswered {
			s.warnUnchecked(failed)
		} else {
			s.checked.Store(false)
		}
		return pipe.Connection{}, failed
	}
	if dialed, err = s.DialTimed(ctx, bound); err != nil {
		s.checked.Store(false) // it was not the question
		return pipe.Connection{}, err
	}
	s.warnUnchecked(failed)
	return dialed, nil
}

// isTimeout reports whether err says that there was no answer in time.
func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// check asks what the server does when its memory is full, and warns. An error
// means that the connection is of no use.
func (s *Server) check(ctx context.Context, conn redis.Conn) error {
	reply, err := pipe.RoundTrip(ctx, conn, "INFO", "memory")
	if _, refused := err.(redis.Error); err != nil && !refused {
		return err
	}
	info, _ := redis.String(reply, err) // nothing, if it was refused
	if limit, policy := infoValue(info, "maxmemory"), infoValue(info, "maxmemory_policy"); policy != "" &&
		policy != "noeviction" && limit != "0" {
		s.router.cfg.Logger.Warn("lock: when its memory is full, this Redis evicts keys, also those of locks, and the holder of a lock "+
			"is told only at its next renewal: set maxmemory-policy to noeviction, or use a Redis for locks alone",
			"server", s.Address(), "maxmemory_policy", policy, "maxmemory", limit)
	}
	return nil
}

// warnUnchecked warns, once per server, that check got no answer.
func (s *Server) warnUnchecked(err error) {
	s.router.cfg.Logger.Warn("lock: INFO memory ended the connection or was not answered. The client works without it, but does "+
		"not know whether this Redis evicts the keys of locks: check that its maxmemory-policy is noeviction, and that "+
		"there is no sharding proxy before it", "server", s.Address(), "error", err)
}

// VersionOf returns the version of Redis that INFO tells; "" if it tells none.
func VersionOf(info string) string { return infoValue(info, "redis_version") }

// infoValue returns the value of a field of an INFO reply.
func infoValue(info, field string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
