package lock

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/role"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/wheel"
)

// counters are what a Client counts of its calls. All of it is atomic.
type counters struct {
	calls      [outcomes]atomic.Uint64
	waited     wheel.Recorder
	released   atomic.Uint64
	lost       [reasons]atomic.Uint64
	tries      atomic.Uint64
	unreleased atomic.Uint64
}

// hooks calls the Hooks of a Client.
type hooks struct {
	// immutable after New
	Hooks
	logger *slog.Logger

	losses backlog[Event] // for Lost
}

func (k *hooks) init(cfg Config, cast *role.Cast) {
	k.Hooks, k.logger = cfg.Hooks, cfg.Logger
	k.losses.init(cast, "call Hooks.Lost", func(e Event) { k.call(k.Lost, e) })
}

// call calls a hook that is not nil.
func (k *hooks) call(hook func(Event), e Event) {
	defer logPanic(k.logger, e.Name)
	hook(e)
}

// tellWaited calls Waited, if there is one, when a call that had to wait ends.
func (k *hooks) tellWaited(ctx context.Context, a *attempt, held *Held, err error) {
	if k.Waited == nil {
		return
	}
	took := time.Duration(a.c.table.Now() - a.began)
	e := Event{Context: ctx, Client: a.c.id, Name: a.name, Waited: took, Outcome: outcomeOf(ctx, err), Err: err}
	if err == nil {
		e.Token, e.Hold = held.h.token, held.h.seq
	}
	k.call(k.Waited, e)
}

// tellLost calls Lost soon, if there is one. It does not block.
func (k *hooks) tellLost(e Event) {
	if k.Lost != nil {
		k.losses.add(e)
	}
}

// drain returns when Lost was called with all that it was to be told.
func (k *hooks) drain() { k.losses.drain() }

// observe counts how a call ended that began then, tells the hooks, and returns what the
// call returns. Every call that takes a lock or permits passes here once.
func (c *keeper) observe(ctx context.Context, name string, began waitqueue.Instant, held *Held, err error) (*Held, error) {
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
