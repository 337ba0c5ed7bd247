package lock

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// Extend makes the lock last for at least d from now: whole milliseconds from
// 100 ms to 30 days. It never shortens the lease. It is for holds of LockFor;
// those of Lock are renewed anyway. An unknown outcome is tried again until ctx
// or the hold ends. *LostError: the lock is lost. ErrNotHeld: it was unlocked.
// If ctx ends while another request of this hold is not answered, nothing was
// sent, and the error is ctx.Err() and not ErrUnknown.
func (x *Held) Extend(ctx context.Context, d time.Duration) error {
	if err := checkLease(x.h.name, d); err != nil {
		return err
	}
	h := x.h
	if err := h.enter(ctx); err != nil {
		return fmt.Errorf("lock: extend of %q was not sent: %w: try again", h.name, &busyError{err})
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	for try := 0; ; try++ {
		h.mu.Lock()
		err, count := x.extendableLocked(), h.count
		h.mu.Unlock()
		if err != nil {
			return err
		}
		began := time.Now()
		a = h.send(ctx, h.kind.rules().reenter(h, count, d))
		if h.kind == permitKind {
			a.Stamp = began // Redis is told an end, not a length
		}
		h.lengthen(d)
		switch n, ok := a.Reply.(int64); {
		case a.Err != nil:
			err := h.c.scripts.callError("extend", h.name, a)
			if pipe.Definite(a.Err) || wait.Pause(ctx, nil, wait.Backoff(h.c.random, try)) != nil {
				return err
			}
			continue
		case !ok, n != 0 && n != 1:
			return badReply("extend", h.name, a.Reply)
		case h.is(leaving):
			return notHeldError(h.name) // the last Unlock did not wait any longer
		case n == 0:
			return h.lostByLease(NotOwner)
		case !h.lease.Extend(a.Stamp, d):
			h.set(unsure, true)
			if h.is(leaving) {
				return notHeldError(h.name)
			}
			return h.lostByLease(TrustEnded)
		}
		return nil
	}
}

// extendableLocked is errLocked, but a closing client still keeps its holds.
func (x *Held) extendableLocked() error {
	if x.h.closing && x.h.why == 0 && x.state.Load() == isHeld && !x.h.is(leaving) {
		return nil
	}
	return x.errLocked()
}

// Guard runs one Redis command if this hold has the lock in Redis at that
// moment. The check and the command are one script: cmd with keys and then
// args. In a Cluster, the keys and the lock must share a slot.
//
// Guard returns the command's answer as redigo does; an integer above 2^53 is
// rounded, because Lua does so. *LostError: the hold was gone and nothing was
// run. ErrUnknown: the command may have run, or may run yet while Redis has the
// hold, so after an Unlock whose outcome is unknown, too. An error of the
// command itself is returned as it is.
//
// The calls with one hold are sent one after the other. The next one is sent
// when the last one was answered or, after ErrUnknown, when it cannot run any
// more (about Config.IOTimeout later, if the server tells its time). If ctx
// ends during this wait, nothing was run, and the error is ctx.Err() and not
// ErrUnknown.
//
// The answer may have 16 MiB and about a million elements. A larger one ends the connection,
// and is ErrUnknown, where the library dials itself (see Open).
//
// Guard protects writes to the Redis that has the lock. For other resources use
// Token.
func (x *Held) Guard(ctx context.Context, cmd string, keys []string, args ...any) (any, error) {
	h := x.h
	if err := x.Err(); err != nil {
		return nil, err
	}
	if h.kind == permitKind {
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
		return nil, h.c.scripts.callError("guard", h.name, a)
	}
	answer, there, ok := wire.ReadGuard(a.Reply)
	switch {
	case !ok:
		return nil, badReply("guard", h.name, a.Reply)
	case !there && h.is(leaving):
		return nil, notHeldError(h.name) // the last Unlock did not wait any longer
	case !there:
		return nil, h.lostByLease(NotOwner)
	}
	if err, failed := answer.(redis.Error); failed {
		return nil, fmt.Errorf("lock: guard of %q: %w", h.name, err)
	}
	return answer, nil
}
