package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// take takes a lock or permits, counts the call by its outcome, and calls the hooks.
func (c *Client) take(ctx context.Context, w hold.Wanted) (*Held, error) {
	began := c.table.Now()
	held, waited, err := c.takeUncounted(ctx, w)
	c.telling.recordCall(ctx, w.Name, c.table.Now()-began, waited, held, err)
	return (*Held)(held), err
}

// takeUncounted is take without the count and the hooks. It reports whether a call that waits had to.
func (c *Client) takeUncounted(ctx context.Context, w hold.Wanted) (held *hold.Held, waited bool, err error) {
	if w.Wait && deadlinePassed(ctx) {
		w.Wait = false
		held, err = tryOnce(ctx, c.cfg.IOTimeout, w.Name, func(ctx context.Context) (*hold.Held, error) {
			held, _, err := c.takeUncounted(ctx, w)
			return held, err
		})
		return held, false, err
	}
	var wrong error
	if w.Renewed {
		w.Lease = c.cfg.Lease
	} else {
		wrong = hold.CheckLease(w.Name, w.Lease)
	}
	if w.Kind == hold.Permits {
		wrong = errors.Join(wrong, checkPermitsAtOnce(w.Name, w.Permits))
	}
	if err := c.admit(ctx, w.Name, wrong); err != nil {
		return nil, false, err
	}
	defer c.table.End(w.Name)
	if w.Kind != hold.Permits {
		if w.Owner, w.Shared, err = c.ownerOf(ctx); err != nil {
			return nil, false, err
		}
	}
	return c.holds.Take(ctx, w)
}

// admit begins a call that takes something. It returns an error if the name is wrong, if ctx has
// ended, or after Close. wrong is nil, or the error of the call's other arguments. The caller
// calls the table's End when the call is over.
func (c *Client) admit(ctx context.Context, name string, wrong error) error {
	if err := c.checkName(name); err != nil || wrong != nil {
		return errors.Join(err, wrong)
	}
	if wait.Ended(ctx) != nil {
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

// ownerOf returns the owner that ctx carries, or a fresh one.
func (c *Client) ownerOf(ctx context.Context) (o owner.Owner, carried bool, err error) {
	if o, err = owner.FromContext(ctx); o != owner.Nobody || err != nil {
		return o, true, err
	}
	return owner.Owner{Text: c.id, ID: c.owners.Add(1)}, false, nil
}

// deadlinePassed reports whether ctx ended by its deadline. A call that waits then still
// makes one try, as Redisson's tryLock(0) does.
func deadlinePassed(ctx context.Context) bool {
	return errors.Is(wait.Ended(ctx), context.DeadlineExceeded)
}

// tryOnce makes the one try of a call whose deadline has passed. The try takes at most
// limit. try must not wait for other owners. If it returns ErrNotAcquired, ErrUnknown or
// ErrNotSent, tryOnce returns this as the error of a wait that ctx ended.
func tryOnce[T any](ctx context.Context, limit time.Duration, name string, try func(context.Context) (T, error)) (T, error) {
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	got, err := try(detached)
	if errors.Is(err, ErrNotAcquired) || gotNoAnswer(err) {
		err = newWaitError(ctx, name, err)
	}
	return got, err
}

// unowned has the common methods of objects without owners, which are not re-entered and not handed over.
type unowned = locktable.Unowned[*hold.Hold]

// waitInLine runs a call that takes from an object without owners.
func (c *Client) waitInLine(ctx context.Context, k locktable.Key, wants locktable.Acquisition[*hold.Hold], r locktable.Request) error {
	if err := c.admit(ctx, k.Name, nil); err != nil {
		return err
	}
	defer c.table.End(k.Name)
	w := c.table.NewWaiter(k, wants, r)
	defer w.End()
	return c.errors.Of(ctx, k.Name, w.Run(ctx))
}
