package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// admit begins a call that takes something, unless something forbids it: its arguments, of
// which wrong is nil or says what is wrong beside the name, the end of ctx, or Close. The
// caller calls the table's End when the call is over.
func (c *Client) admit(ctx context.Context, name string, wrong error) error {
	if err := c.checkName(name); err != nil || wrong != nil {
		return errors.Join(err, wrong)
	}
	if ctx.Err() != nil {
		return newWaitError(ctx, name, nil)
	}
	if !c.table.Begin(name, true) {
		return closedError(name)
	}
	return nil
}

func (c *Client) checkName(name string) error {
	if err := keys.Check(name); err != nil || !c.traits.Slots {
		return err
	}
	return keys.CheckSlot(name)
}

// overdue reports whether ctx ended by its deadline. A call that would wait then
// asks once all the same, as Redisson's tryLock(0) does.
func overdue(ctx context.Context) bool { return errors.Is(ctx.Err(), context.DeadlineExceeded) }

// once is that one try, of at most limit. try must not wait for others. What it
// says of the lock is the end of a wait for which there was no time.
func once[T any](ctx context.Context, limit time.Duration, name string, try func(context.Context) (T, error)) (T, error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	got, err := try(detached)
	if errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUnknown) {
		err = newWaitError(ctx, name, err)
	}
	return got, err
}

// unowned is what is the same of all that no owner re-enters, and that is not handed over.
type unowned = locktable.Unowned[*hold.Hold]

// stand runs a call that takes what no owner has.
func (c *Client) stand(ctx context.Context, k locktable.Key, wants locktable.Acquisition[*hold.Hold], r locktable.Request) error {
	w := c.table.NewWaiter(k, wants, r)
	defer w.End()
	return w.Run(ctx)
}

// reply is what such a call is told of a try.
func reply(said waitqueue.Answer, err error) locktable.Reply {
	return locktable.Reply{Verdict: verdictOf(err), Err: err, Said: said}
}

// face is what a user gets of what a call has brought.
func face(x *hold.Held, err error) (*Held, error) { return (*Held)(x), err }
