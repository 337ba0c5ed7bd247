package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Extend makes the lease last for at least d from now.
func (x *Held) Extend(ctx context.Context, d time.Duration) error {
	if err := CheckLease(x.h.name, d); err != nil {
		return err
	}
	h := x.h
	if err := h.enter(ctx); err != nil {
		return fmt.Errorf("lock: extend of %q was not sent: %w: try again", h.name, err)
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	var o wire.Outcome // of the try before, which is unknown
	for try := 0; ; try++ {
		h.mu.Lock()
		err, count := x.usableLocked(), h.count
		h.mu.Unlock()
		if err != nil {
			return err
		}
		if err := h.checkMaxHold(d); err != nil {
			if try > 0 {
				return h.engine.errors.Of(ctx, h.name, o)
			}
			return err
		}
		h.recordLease(d)
		h.setFlag(prolonging, true)
		began := time.Now()
		a = h.send(ctx, reenterCall(h.kind, h.name, h.field(), count, d))
		if h.kind == Permits {
			a.Stamp = began // Redis is told an end, not a length
		}
		o = h.engine.read("extend", a, wire.ReadPresence)
		if o.Result == wire.Denied && try > 0 { // an earlier request may have been carried out
			o.Result = wire.Unknown
		}
		switch {
		case a.Err != nil:
			if pipe.Definite(a.Err) || wait.Pause(ctx, nil, wait.Backoff(h.engine.cfg.Random, try)) != nil {
				return h.engine.errors.Of(ctx, h.name, o)
			}
			continue
		case o.Result == wire.Unknown:
			return h.engine.errors.Of(ctx, h.name, o)
		case h.has(leaving):
			return h.engine.errors.NotHeld(h.name) // the last Unlock did not wait any longer
		case o.Result == wire.Gone:
			return h.lostByLease(renewal.NotOwner)
		case !h.lease.Extend(a.Stamp, d):
			h.setFlag(unsure, true)
			if h.has(leaving) {
				return h.engine.errors.NotHeld(h.name)
			}
			return h.lostByLease(renewal.TrustEnded)
		}
		return nil
	}
}

// usable is Err, but a closing client still keeps its holds.
func (x *Held) usable() error {
	_ = x.h.Look()
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return x.usableLocked()
}

func (x *Held) usableLocked() error {
	if x.h.closing && !x.h.has(lost) && x.state.Load() == stateHeld && !x.h.has(leaving) {
		return nil
	}
	return x.errLocked()
}

// checkMaxHold refuses a lease that would last beyond the end of Config.MaxHold, if h is renewed. Redis
// would have the field after the hold was lost.
func (h *Hold) checkMaxHold(d time.Duration) error {
	end := h.lease.MaxHoldEnd()
	h.mu.Lock()
	limited := h.renewing > 0 && !end.IsZero()
	h.mu.Unlock()
	now := time.Now()
	if last := now.Add(d); !limited || !last.After(end) || !last.After(h.lease.Deadline()) {
		return nil
	}
	return fmt.Errorf("lock: %q: the lease is %v: it must end in %v, when the time of Config.MaxHold has passed: ask for a shorter one", h.name, d,
		max(end.Sub(now), 0).Truncate(time.Millisecond))
}

// reenter takes one more count. The Outcome is Gone if the hold has ended before the caller
// had it, so the caller needs a fresh attempt. If ctx ends before the hold's turn has come,
// nothing was sent to Redis, and the error is ctx's and not ErrUnknown. If limit is above 0, the
// call does not wait for long: if it is not the hold's turn at once, ctx ends after limit. Extend may
// keep the turn for as long as Redis does not answer.
func (h *Hold) reenter(ctx context.Context, lease time.Duration, renewed bool, limit time.Duration) (*Held, wire.Outcome) {
	if limit == 0 || !h.enterNow() {
		if limit > 0 {
			limited, cancel := context.WithTimeout(wait.Sound(ctx), limit)
			defer cancel()
			ctx = limited
		}
		if err := h.enter(ctx); err != nil {
			return nil, wire.Failure(fmt.Errorf("lock: re-entry of %q was not sent: %w", h.name, err))
		}
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	h.mu.Lock()
	count, left, lost := h.count+1, h.has(leaving), h.has(lost)
	h.mu.Unlock()
	if left || lost {
		return nil, wire.Outcome{Result: wire.Gone}
	}
	if !renewed {
		if err := h.checkMaxHold(lease); err != nil {
			return nil, wire.Failure(err)
		}
	}
	h.recordLease(lease)
	h.setFlag(prolonging, true)
	a = h.send(ctx, reenterCall(h.kind, h.name, h.field(), count, lease))
	o := h.engine.read("reenter", a, wire.ReadPresence)
	if o.Result != wire.Granted && o.Result != wire.Gone {
		return nil, o
	}
	there := o.Result == wire.Granted
	trusted := there && h.lease.Extend(a.Stamp, lease)
	if there && !trusted {
		h.setFlag(unsure, true)
	}
	h.mu.Lock()
	left = h.has(leaving)
	if trusted && !left {
		h.count++
		if renewed {
			h.renewing++
		}
	}
	renewing := h.renewing
	h.mu.Unlock()
	switch {
	case left:
		return nil, wire.Outcome{Result: wire.Gone} // the last Unlock did not wait any longer
	case !there:
		return nil, wire.Failure(h.lostByLease(renewal.NotOwner))
	case !trusted:
		return nil, wire.Failure(h.lostByLease(renewal.TrustEnded))
	}
	if renewed && renewing == 1 {
		h.settle()
	}
	return h.anotherHeld(renewed), o
}

// Guard runs a command of Redis if the hold exists, in one script. lock.Held has the promise.
func (x *Held) Guard(ctx context.Context, cmd string, keys []string, args ...any) (any, error) {
	h := x.h
	if err := x.usable(); err != nil {
		return nil, err
	}
	if h.kind == Permits {
		return nil, fmt.Errorf("lock: guard of %q: not available for permits, which several holders share: guard with a Mutex", h.name)
	}
	if err := h.enter(ctx); err != nil {
		return nil, fmt.Errorf("lock: guard of %q was not run: %w: try again", h.name, err)
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	if err := x.usable(); err != nil {
		return nil, err
	}
	a = h.send(ctx, guardCall(h.kind, h.name, h.field(), cmd, keys, args))
	if a.Err != nil {
		return nil, h.engine.errors.Of(ctx, h.name, h.engine.Outcome("guard", a))
	}
	answer, there, ok := wire.ReadGuard(a.Reply.Any())
	switch {
	case !ok:
		return nil, h.engine.errors.Of(ctx, h.name, wire.OddAnswer("guard", a.Reply.Any()))
	case !there && h.has(leaving):
		return nil, h.engine.errors.NotHeld(h.name) // the last Unlock did not wait any longer
	case !there:
		return nil, h.lostByLease(renewal.NotOwner)
	}
	if err, failed := answer.(redis.Error); failed {
		return nil, fmt.Errorf("lock: guard of %q: %w", h.name, err)
	}
	return answer, nil
}
