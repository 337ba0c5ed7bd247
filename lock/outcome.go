package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Outcome says how a call that takes a lock or permits ended. These calls are Lock,
// LockFor, TryLock and TryLockFor of every kind of Mutex, and the corresponding
// methods of a PermitSemaphore. A MultiLock and a RedLock make one such call for each
// attempt to take a member.
type Outcome uint8

const (
	// OutcomeAcquired: the call acquired the lock.
	OutcomeAcquired Outcome = iota + 1
	// OutcomeReentered: the owner already held the lock.
	OutcomeReentered
	// OutcomeRefused: another owner has the lock, and the call does not wait.
	OutcomeRefused
	// OutcomeEnded: the context ended before the call had the lock.
	OutcomeEnded
	// OutcomeUnknown: the call returned ErrUnknown, even if its context had ended.
	OutcomeUnknown
	// OutcomeClosed: the client is closed.
	OutcomeClosed
	// OutcomeError: Redis refused the request, or the arguments were wrong.
	OutcomeError

	outcomes = iota + 1
)

func (o Outcome) String() string {
	switch o {
	case OutcomeAcquired:
		return "acquired"
	case OutcomeReentered:
		return "reentered"
	case OutcomeRefused:
		return "refused"
	case OutcomeEnded:
		return "ended"
	case OutcomeUnknown:
		return "unknown"
	case OutcomeClosed:
		return "closed"
	case OutcomeError:
		return "error"
	}
	return fmt.Sprintf("Outcome(%d)", uint8(o))
}

// MarshalText makes Stats.Calls readable as JSON: the key is String's text.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// outcomeOf is the outcome of a call with ctx that returned err. What is not known
// counts before the end of ctx: a server that does not answer ends many contexts.
func outcomeOf(ctx context.Context, err error) Outcome {
	switch {
	case err == nil:
		return OutcomeAcquired
	case errors.Is(err, ErrUnknown):
		return OutcomeUnknown
	case errors.Is(err, ErrClosed):
		return OutcomeClosed
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return OutcomeEnded
	case errors.Is(err, ErrNotAcquired):
		return OutcomeRefused
	}
	return OutcomeError
}

// observe counts how a call ended that began then, tells the hooks, and returns what the
// call returns. Every call that takes a lock or permits passes here once.
func (c *Client) observe(ctx context.Context, name string, began waitqueue.Instant, held *Held, err error) (*Held, error) {
	took, o, hook := time.Duration(c.table.Now()-began), outcomeOf(ctx, err), c.hooks.Failed
	var h *hold
	if err == nil {
		h, hook = held.h, c.hooks.Acquired
		if h.set(seen, true) {
			o, hook = OutcomeReentered, nil
		} else {
			c.counts.waited.Record(took)
		}
	}
	c.counts.calls[o].Add(1)
	if hook != nil {
		e := Event{Context: ctx, Client: c.id, Name: name, Waited: took, Outcome: o, Err: err}
		if h != nil {
			e.Token, e.Hold = h.token, h.seq
		}
		c.hooks.call(hook, e)
	}
	if o == OutcomeAcquired {
		h.tellOverdueLoss()
	}
	return held, err
}

// tellOverdueLoss is called when Hooks.Acquired was told of h. A loss that came before
// that is told now.
func (h *hold) tellOverdueLoss() {
	if hooks := &h.c.hooks; hooks.Lost != nil && h.marks.Or(told)&untold != 0 {
		hooks.call(hooks.Lost, h.lossEvent())
	}
}

// tellLoss tells Hooks.Lost of a hold that was lost, or leaves that to tellOverdueLoss.
// Of a hold that no call has returned with nothing is told.
func (h *hold) tellLoss() {
	if h.marks.Or(untold)&told != 0 {
		h.c.hooks.tellLost(h.lossEvent())
	}
}

func (h *hold) lossEvent() Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return Event{Context: context.Background(), Client: h.c.id, Name: h.name, Token: h.token, Hold: h.seq, Err: h.lostErrorLocked()}
}

// tellReleased counts the last Unlock of h, and tells Hooks.Released how it ended. Of a
// hold that no call has returned with nothing is told.
func (h *hold) tellReleased(ctx context.Context, err error) {
	c := h.c
	if !h.is(seen) {
		return
	}
	if err == nil {
		c.counts.released.Add(1)
	}
	if hook := c.hooks.Released; hook != nil {
		c.hooks.call(hook, Event{Context: ctx, Client: c.id, Name: h.name, Token: h.token, Hold: h.seq, Err: err})
	}
}
