package servers

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// maxUnanswered is how many INFOs may get no answer. After that, the server is not asked
// about its memory again, and not about its version for a while.
const maxUnanswered = 3

// dialChecked opens a connection for commands. Over the server's first one it asks
// whether the server may evict locks. The question only serves a warning. So a server
// that ends the connection because of it, or gives no answer maxUnanswered times, is
// not asked again.
func (s *Server) dialChecked(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
	dialed, err := s.DialTimed(ctx, bound)
	if err != nil || s.isChecked.Swap(true) {
		return dialed, err
	}
	asking, done := context.WithTimeout(ctx, s.router.cfg.IOTimeout)
	failed := s.checkEviction(asking, dialed.Conn)
	slow := asking.Err() != nil || isTimeout(failed)
	done()
	if failed == nil {
		return dialed, nil
	}
	dialed.Conn.Close()
	if slow {
		// The server may have failed, or may leave only this question unanswered.
		if s.unansweredChecks.Add(1) == maxUnanswered {
			s.router.cfg.Logger.Log(record.MemoryUntold, s.Address(), failed)
		} else {
			s.isChecked.Store(false)
		}
		return pipe.Connection{}, failed
	}
	if dialed, err = s.DialTimed(ctx, bound); err != nil {
		s.isChecked.Store(false) // the server does not take connections now, whatever is asked
		return pipe.Connection{}, err
	}
	s.router.cfg.Logger.Log(record.MemoryUntold, s.Address(), failed)
	return dialed, nil
}

// isTimeout reports whether err says that there was no answer in time.
func isTimeout(err error) bool {
	var slow net.Error
	return errors.As(err, &slow) && slow.Timeout()
}

// checkEviction asks what the server does when its memory is full, and warns. An error
// means that the connection is not usable.
func (s *Server) checkEviction(ctx context.Context, conn redis.Conn) error {
	reply, err := pipe.RoundTrip(ctx, conn, "INFO", "memory")
	if _, refused := err.(redis.Error); err != nil && !refused {
		return err
	}
	info, _ := redis.String(reply, err) // "" if INFO was refused
	if limit, policy := infoValue(info, "maxmemory"), infoValue(info, "maxmemory_policy"); policy != "" &&
		policy != "noeviction" && limit != "0" {
		s.router.cfg.Logger.Log(record.Evicts, s.Address(), policy, limit)
	}
	return nil
}

// VersionOf returns the version of Redis in a reply to INFO, or "" if there is none.
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
