package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// mutexes are the rules of a lock that one owner holds at a time: a hash {field:
// count} under its name. With or without a counter of its own.
type mutexes struct{}

func (mutexes) acquire(a *attempt, field string) command {
	counter, least := a.c.counterOf(a.kind, a.name)
	return command{script.Acquire, 2, []any{a.name, counter, field, ms(a.lease), least}}
}

func (mutexes) release(c *Client, name, field string, remaining int, lease time.Duration) command {
	return command{script.Release, 1, c.publishing([]any{name, field, remaining, ms(lease), keys.Channel(name)})}
}

func (mutexes) reenter(h *hold, count int32, lease time.Duration) command {
	return command{script.Reenter, 1, []any{h.name, h.field(), count, ms(lease)}}
}

func (mutexes) class() carrier.Class         { return carrier.Fields }
func (mutexes) key(name string) string       { return name }
func (mutexes) channel(name string) string   { return keys.Channel(name) }
func (mutexes) locks(i Info) bool            { return i.Locked }
func (mutexes) orphanOutlived(*hold, Reason) {}

func (mutexes) held(c *Client, name string, o owner) *hold {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ownLocked(name, o)
}

// notMutex is what a hash is that no exclusive lock has made.
const notMutex = "is a hash of other things than owners and counts"

func (mutexes) force(c *Client, name string) (command, string) {
	return command{script.Force, 1, []any{name, keys.Channel(name), c.publish()}}, notMutex
}

func (mutexes) take(ctx context.Context, m *Mutex, a *attempt) (*Held, error) {
	return m.takeExclusive(ctx, a, m.takeAnew, m.wait)
}

// takeExclusive re-enters the hold that the owner has, and otherwise takes the lock
// anew. wait waits for it when it is not known whether a re-entry was carried out.
func (m *Mutex) takeExclusive(ctx context.Context, a *attempt, anew func(context.Context, *attempt) (*Held, error),
	wait func(context.Context, *attempt, error) (*Held, error),
) (*Held, error) {
	var gone *hold // it cannot be re-entered, though the table may have it yet
	for {
		if h := m.c.lookup(m.name); h != nil && h != gone && h.owner == a.owner {
			if h.kind != m.kind {
				return nil, errOtherKind(m.name)
			}
			held, err := h.reenter(ctx, a.lease, a.renewed)
			switch {
			case err == nil:
				return held, nil
			case err == errGone:
				gone = h
				continue
			case a.wait && errors.Is(err, ErrUnknown):
				return wait(ctx, a, err)
			}
			return nil, err
		}
		held, err := anew(ctx, a)
		if err != errAgain {
			return held, err
		}
	}
}

// takeAnew takes a lock that the owner has not. A newcomer tries once, unless others
// of this client wait; then it waits behind them or is refused. errAgain: the owner
// may have it now.
func (m *Mutex) takeAnew(ctx context.Context, a *attempt) (*Held, error) {
	send := a.try
	switch queued := m.c.queued(m.name); {
	case queued && a.wait:
		return m.wait(ctx, a, nil)
	case queued:
		send = func(context.Context) (*Held, error) {
			return nil, &HeldError{Name: m.name, TTL: max(time.Until(m.c.heldUntil(m.name)), 0)}
		}
	}
	held, err := a.ask(ctx, send)
	if _, left := err.(*waitError); left || err == nil || !a.wait || err == errAgain {
		return held, err
	}
	return m.wait(ctx, a, err)
}
