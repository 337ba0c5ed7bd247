package lock

import (
	"context"
	"errors"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// TryLockWithin takes the lock and keeps it renewed. While another owner holds it,
// TryLockWithin waits, for d at most. This is Redisson's tryLock(waitTime).
//
// If d is over, the error is that of the last try, as TryLock returns it: a
// *HeldError, whose TTL is from the time of that try, or ErrUnknown or ErrNotSent
// if Redis did not answer. A re-entry also waits while another call for its hold is
// not answered, and its error says so. If ctx ends first, the error is that of Lock, which is
// ctx.Err(). With a d of zero or less, TryLockWithin makes one try, which takes at
// most Config.IOTimeout, unless others of this client wait.
func (m *Mutex) TryLockWithin(ctx context.Context, d time.Duration) (*Held, error) {
	w := hold.Wanted{Kind: m.kind, Name: m.name, Terms: hold.Terms{Renewed: true}}
	began, waited := m.c.table.Now(), false
	held, err := within(ctx, d, func(ctx context.Context, waits bool) (*hold.Held, error) {
		w.Wait = waits
		held, hadTo, err := m.c.takeUncounted(ctx, w)
		waited = waited || hadTo
		return held, err
	})
	m.c.telling.recordCall(ctx, m.name, m.c.table.Now()-began, waited, held, err)
	return (*Held)(held), err
}

// TryLockWithin takes all members and keeps them renewed, and waits for them for d
// at most. If d is over, the error is that of the member that was missing at the
// last try; see Mutex.TryLockWithin. See Lock for how it waits.
func (m *MultiLock) TryLockWithin(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return within(ctx, d, func(ctx context.Context, waits bool) (*MultiHeld, error) {
		return m.acquire(ctx, hold.Terms{Renewed: true, Wait: waits})
	})
}

// TryLockWithin takes the lock and keeps it renewed, and waits for it for d at most.
// If d is over, the error is that of the last try, as TryLock returns it; see
// Mutex.TryLockWithin.
func (r *RedLock) TryLockWithin(ctx context.Context, d time.Duration) (*MultiHeld, error) {
	return within(ctx, d, func(ctx context.Context, waits bool) (*MultiHeld, error) {
		return r.acquire(ctx, hold.Terms{Renewed: true, Wait: waits}, !waits)
	})
}

// errTimeUp is the cause of a context that TryLockWithin has ended.
var errTimeUp = errors.New("the time of TryLockWithin is over")

// within calls take, which waits until its context ends, for d at most. If d is over, it returns the
// error of the last try. If there was no try, because others of this client were waiting, it makes one.
func within[T any](ctx context.Context, d time.Duration, take func(ctx context.Context, waits bool) (T, error)) (T, error) {
	limited, cancel := context.WithTimeoutCause(wait.Sound(ctx), d, errTimeUp)
	defer cancel()
	got, err := take(limited, true)
	var ended *waitError
	if !errors.As(err, &ended) || context.Cause(limited) != errTimeUp {
		return got, err
	}
	if last := ended.last(); last != nil {
		return got, last
	}
	return take(ctx, false)
}

// last returns the error of the last try, or nil if there was none.
func (e *waitError) last() error {
	for i := len(e.errs) - 1; i >= 0; i-- {
		var before *waitError
		switch err := e.errs[i]; {
		case errors.As(err, &before):
			if last := before.last(); last != nil {
				return last
			}
		case errors.Is(err, ErrNotAcquired), gotNoAnswer(err), errors.As(err, new(*refusedError)): // the last says MOVED
			return err
		}
	}
	return nil
}
