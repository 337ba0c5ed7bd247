package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// CountDownLatch is a gate in Redis that opens when it was counted down to
// zero. It has the format of Redisson's RCountDownLatch: a number under the
// latch's name, which exists while the latch is closed. A latch that was never
// set is open. All methods are safe for concurrent use.
//
// Every request takes effect once, however often it must be sent, see
// Semaphore.
type CountDownLatch struct {
	c    *Client // immutable
	name string  // immutable
}

// CountDownLatch returns the latch of that name. It does no I/O and keeps
// nothing. The first call that uses a bad name returns an error.
func (c *Client) CountDownLatch(name string) *CountDownLatch {
	return &CountDownLatch{c: c, name: c.key(name)}
}

// Name returns the latch's key in Redis: Config.KeyPrefix and the name.
func (l *CountDownLatch) Name() string { return l.name }

// channel is where the latch's opening is published, for scripts.
func (l *CountDownLatch) channel() any {
	return l.c.network.Channel(l.name, keys.LatchChannel(l.name, false), keys.LatchChannel(l.name, true))
}

// errShut is the refusal of a latch that is closed.
type errShut struct{}

func (errShut) Error() string        { return "the latch is closed" }
func (errShut) Is(target error) bool { return target == ErrNotAcquired }

// TrySet closes the latch with a count of n, from 1 to 2^31-1, if it is open,
// and reports whether it did that. Redisson's trySetCount. Errors are those of
// CountDown.
func (l *CountDownLatch) TrySet(ctx context.Context, n int64) (bool, error) {
	if err := checkPermits(l.name, "counts", n, 1); err != nil {
		return false, err
	}
	done, err := l.change(ctx, "set count", script.LatchSet, true, n, l.channel())
	return done == 1, err
}

// CountDown takes one from the count. At zero the latch opens and all waiters
// go on. On an open latch it does nothing. It works under a cancelled ctx: ctx
// only carries values. Redisson's countDown.
//
// ErrUnknown: Redis did not answer within Config.UnlockTimeout. Do not count
// down again. The client goes on sending this request, which takes effect once,
// until 20 s after it was first sent.
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.change(context.WithoutCancel(ctx), "count down", script.LatchDown, false, l.channel())
	return err
}

// Reset opens the latch whatever its count, lets waiters go on, and reports
// whether it was closed. It can be set again then. Errors are those of
// CountDown. This is Redisson's delete, which does not wake waiters in Java,
// because the message of that format says "changed" and not "open".
func (l *CountDownLatch) Reset(ctx context.Context) (bool, error) {
	done, err := l.change(ctx, "reset", script.LatchReset, true, l.channel())
	return done == 1, err
}

func (l *CountDownLatch) change(ctx context.Context, op string, s *script.Script, refuse bool, args ...any) (int64, error) {
	return newRecorded(l.c, op, l.name, wire.Once{Script: s, Args: args}).insist(ctx, refuse)
}

// Wait returns nil when the latch is open, at once if it is open now. It is
// woken by a message, and also asks Redis every Config.MaxPoll. If a latch is
// opened and set again before a waiter has asked, it stays closed for that
// waiter. If ctx ends first, the error is ctx.Err(). A ctx whose deadline has
// passed asks once, see Mutex.Lock. Redisson's await.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	if overdue(ctx) {
		_, err := once(ctx, l.c.cfg.IOTimeout, l.name, func(ctx context.Context) (int64, error) {
			if err := l.c.admit(ctx, l.name, nil); err != nil {
				return 0, err
			}
			defer l.c.table.End(l.name)
			return l.look(ctx)
		})
		return err
	}
	if err := l.c.admit(ctx, l.name, nil); err != nil {
		return err
	}
	defer l.c.table.End(l.name)
	return l.c.stand(ctx, locktable.Key{Name: l.name, Kind: locktable.Latches}, latchWait{l: l}, locktable.Request{})
}

// latchWait is a call of Wait.
type latchWait struct {
	unowned
	l *CountDownLatch
}

func (a latchWait) Try(ctx context.Context) locktable.Reply {
	left, err := a.l.look(ctx)
	return reply(waitqueue.Answer{TTL: -1, Left: left}, err)
}
func (a latchWait) Channel() string           { return keys.LatchChannel(a.l.name, false) }
func (latchWait) Refusal(time.Duration) error { return errShut{} }

// look returns nil if the latch is open, and that it has room for all.
func (l *CountDownLatch) look(ctx context.Context) (int64, error) {
	n, err := l.c.readCount(ctx, "wait", l.name, l.name)
	switch {
	case err != nil:
		return 0, err
	case n > 0:
		return 0, errShut{}
	}
	return 1, nil
}

// Count returns how many count-downs are missing, 0 if the latch is open. The
// answer may be out of date when it returns. ErrUnknown: Redis did not answer.
// Redisson's getCount.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) {
	n, err := l.c.readCount(ctx, "inspect", l.name, l.name)
	return max(n, 0), err
}
