package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wait"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// Extend makes the lease last for at least d from now.
func (x *Held) Extend(ctx context.Context, d time.Duration) error {
	if err := CheckLease(x.h.name, d); err != nil {
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
		if err == nil {
			err = h.checkMaxHold(d)
		}
		if err != nil {
			return err
		}
		h.lengthen(d)
		began := time.Now()
		a = h.send(ctx, h.k.calls.reenter(h.kind, h.name, h.field(), count, d))
		if h.kind == Permits {
			a.Stamp = began // Redis is told an end, not a length
		}
		switch o := h.k.readPresence("extend", a); {
		case a.Err != nil:
			if pipe.Definite(a.Err) || wait.Pause(ctx, nil, wait.Backoff(h.k.cfg.Random, try)) != nil {
				return h.k.errors.Of(ctx, h.name, o)
			}
			continue
		case o.Result == wire.Unknown:
			return h.k.errors.Of(ctx, h.name, o)
		case h.has(leaving):
			return h.k.errors.NotHeld(h.name) // the last Unlock did not wait any longer
		case o.Result == wire.Gone:
			return h.lostByLease(renewal.NotOwner)
		case !h.lease.Extend(a.Stamp, d):
			h.setFlag(unsure, true)
			if h.has(leaving) {
				return h.k.errors.NotHeld(h.name)
			}
			return h.lostByLease(renewal.TrustEnded)
		}
		return nil
	}
}

// extendableLocked is errLocked, but a closing client still keeps its holds.
func (x *Held) extendableLocked() error {
	if x.h.closing && !x.h.has(lost) && x.state.Load() == isHeld && !x.h.has(leaving) {
		return nil
	}
	err := x.errLocked()
	return err
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
