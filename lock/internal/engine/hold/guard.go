package hold

import (
	"context"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Guard runs a command of Redis if the hold exists, in one script. lock.Held has the promise.
func (x *Held) Guard(ctx context.Context, cmd string, keys []string, args ...any) (any, error) {
	h := x.h
	if err := x.Err(); err != nil {
		return nil, err
	}
	if h.kind == Permits {
		return nil, fmt.Errorf("lock: guard of %q: not available for permits, which several holders share: guard with a Mutex", h.name)
	}
	if err := h.enter(ctx); err != nil {
		return nil, fmt.Errorf("lock: guard of %q was not run: %w: try again", h.name, &busyError{err})
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	if err := x.Err(); err != nil {
		return nil, err
	}
	a = h.send(ctx, wire.Guard(h.name, h.field(), cmd, keys, args))
	if a.Err != nil {
		return nil, h.k.errors.Of(ctx, h.name, h.k.Outcome("guard", a))
	}
	answer, there, ok := wire.ReadGuard(a.Reply.Any())
	switch {
	case !ok:
		return nil, h.k.errors.Of(ctx, h.name, wire.OddAnswer("guard", a.Reply.Any()))
	case !there && h.has(leaving):
		return nil, h.k.errors.NotHeld(h.name) // the last Unlock did not wait any longer
	case !there:
		return nil, h.lostByLease(renewal.NotOwner)
	}
	if err, failed := answer.(redis.Error); failed {
		return nil, fmt.Errorf("lock: guard of %q: %w", h.name, err)
	}
	return answer, nil
}
