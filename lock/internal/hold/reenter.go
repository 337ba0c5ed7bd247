package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// reenter takes one more count. It returns errGone if the hold has ended before the caller
// had it, so the caller needs a fresh attempt. If ctx ends before the hold's turn has come,
// nothing was sent to Redis, and the error is ctx's and not ErrUnknown.
func (h *Hold) reenter(ctx context.Context, lease time.Duration, renewed bool) (*Held, error) {
	if err := h.enter(ctx); err != nil {
		return nil, fmt.Errorf("lock: re-entry of %q was not sent: %w", h.name, &busyError{err})
	}
	var a pipe.Answer
	defer func() { h.leave(a) }()
	h.mu.Lock()
	count, left, lost := h.count+1, h.is(leaving), h.why != 0
	h.mu.Unlock()
	if left || lost {
		return nil, errGone
	}
	if !renewed {
		if err := h.checkMaxHold(lease); err != nil {
			return nil, err
		}
	}
	h.lengthen(lease)
	a = h.send(ctx, h.k.calls.reenter(h.kind, h.name, h.field(), count, lease))
	if a.Err != nil {
		return nil, h.k.errors.Call("reenter", h.name, a)
	}
	n, ok := a.Reply.Number()
	if !ok || n != 0 && n != 1 {
		return nil, h.k.errors.BadReply("reenter", h.name, a.Reply.Any())
	}
	trusted := n == 1 && h.lease.Extend(a.Stamp, lease)
	if n == 1 && !trusted {
		h.set(unsure, true)
	}
	h.mu.Lock()
	left = h.is(leaving)
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
		return nil, errGone // the last Unlock did not wait any longer
	case n == 0:
		return nil, h.lostByLease(renewal.NotOwner)
	case !trusted:
		return nil, h.lostByLease(renewal.TrustEnded)
	}
	if renewed && renewing == 1 {
		h.settle()
	}
	return h.anotherHeld(renewed), nil
}
