package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/renewal"
)

// reenter takes one more count. The Outcome is Gone if the hold has ended before the caller
// had it, so the caller needs a fresh attempt. If ctx ends before the hold's turn has come,
// nothing was sent to Redis, and the error is ctx's and not ErrUnknown.
func (h *Hold) reenter(ctx context.Context, lease time.Duration, renewed bool) (*Held, wire.Outcome) {
	if err := h.enter(ctx); err != nil {
		return nil, wire.Failure(fmt.Errorf("lock: re-entry of %q was not sent: %w", h.name, &busyError{err}))
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
	h.lengthen(lease)
	a = h.send(ctx, h.k.calls.reenter(h.kind, h.name, h.field(), count, lease))
	o := h.k.readPresence("reenter", a)
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
