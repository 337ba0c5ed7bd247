package locktable

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// newDeafSubscriber returns a Subscriber that never has a connection. It runs until ctx ends.
func newDeafSubscriber(ctx context.Context) *pubsub.Subscriber {
	return pubsub.New(ctx, pubsub.Config{
		Timeout:           time.Second,
		Modes:             func() pubsub.SubscribeModes { return pubsub.SubscribeModes{Plain: true} },
		SSubscribeRefused: func(error) bool { return false },
		Dial:              func(context.Context) (redis.Conn, uint32, error) { return nil, 0, errors.New("no connection") },
		Epoch:             func() uint32 { return 0 },
		Where:             func() string { return "nowhere" },
		Logger:            record.New(slog.New(slog.DiscardHandler)),
	})
}

// fakeRedis has the exclusive locks of many clients. It loses one answer in 20.
type fakeRedis struct {
	losesNothing bool // it answers every request; set before use

	mu     sync.Mutex // guards what follows
	random *rand.Rand
	holder map[string]*fakeHold
	stolen map[*fakeHold]bool // the holds whose keys were deleted
}

// steal deletes the key of a hold. It returns false if there is no such key.
func (r *fakeRedis) steal(h *fakeHold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder[h.name] != h {
		return false
	}
	delete(r.holder, h.name)
	r.stolen[h] = true
	return true
}

// client is one client of a fakeRedis.
type client struct {
	redis *fakeRedis
	table *Table[*fakeHold]
}

// isLost reports, once in n times, that an answer is lost.
func (r *fakeRedis) isLost(n int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n) == 0 && !r.losesNothing
}

// swapHolder makes next the holder of a lock if h is the holder. A nil hold means that the lock is free.
func (r *fakeRedis) swapHolder(name string, h, next *fakeHold) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.holder[name] != h {
		return false
	}
	if next == nil {
		delete(r.holder, name)
	} else {
		r.holder[name] = next
	}
	return true
}

// take is a call that takes an exclusive lock.
type take struct {
	c    *client
	name string
	as   owner.Owner
	w    *Waiter[*fakeHold]
	held *fakeHold

	reentries int // how many were tried
}

func (a *take) of() owner.Owner                       { return a.as }
func (a *take) Channel() string                       { return a.name }
func (a *take) Take(h *fakeHold)                      { a.held = h }
func (a *take) RefuseDeadlock(*fakeHold) wire.Outcome { return wire.Outcome{Result: wire.Upgrade} }
func (a *take) Follows(*fakeHold, bool) bool          { return true }
func (a *take) Refusal(time.Duration) wire.Outcome    { return refused }

// Reenter succeeds unless the hold ends. The fake has no counts of re-entries.
func (a *take) Reenter(_ context.Context, h *fakeHold) wire.Outcome {
	a.reentries++
	time.Sleep(time.Millisecond)
	if h.Leaving() || h.IsLost() {
		return wire.Outcome{Result: wire.Gone}
	}
	return granted
}

func (a *take) Try(ctx context.Context) wire.Outcome {
	time.Sleep(time.Millisecond)
	h := &fakeHold{of: a.c, name: a.name, owner: a.as, past: new(Past), until: time.Now().Add(time.Minute)}
	switch {
	case ctx.Err() != nil:
		return wire.Outcome{Result: wire.Unknown, Cause: ctx.Err()}
	case a.c.redis.isLost(20):
		return unknown
	case !a.c.redis.swapHolder(a.name, nil, h):
		return wire.Outcome{Result: wire.Refused, TTL: time.Minute, Next: -1}
	case !a.c.table.Adopt(h, a.w):
		a.c.redis.swapHolder(a.name, h, nil)
		return wire.Outcome{Result: wire.Closed}
	}
	a.held = h
	return granted
}

// run takes the lock.
func (a *take) run(ctx context.Context, r Request) error {
	r.Owner = a.as
	w := a.c.table.NewWaiter(Key{a.name, waitqueue.Exclusive}, a, r)
	defer w.End()
	a.w = w
	return errorOf(ctx, w.Run(ctx))
}

// unlock ends h, as the last Unlock does.
func (c *client) unlock(h *fakeHold) {
	h.set(&h.leaving)
	n := c.table.Leaving(h)
	time.Sleep(time.Millisecond)
	if next := (&fakeHold{of: c, name: h.name, mode: h.mode, past: new(Past), until: h.until}); n.Next != nil {
		next.owner = n.For.(interface{ of() owner.Owner }).of()
		if c.redis.swapHolder(h.name, h, next) {
			c.table.Deliver(h, n.Next, next)
			return
		}
	}
	c.redis.swapHolder(h.name, h, nil)
	c.table.Forget(h)
}

// lose ends h as a loss does. The key is deleted before.
func (c *client) lose(h *fakeHold) {
	c.redis.swapHolder(h.name, h, nil)
	h.set(&h.ended)
	h.set(&h.over)
	c.table.Forget(h)
}
