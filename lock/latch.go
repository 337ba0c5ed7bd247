package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/script"
)

// CountDownLatch is a gate in Redis that opens when its count reaches zero. It
// has the format of Redisson's RCountDownLatch: a number under the latch's name,
// which exists while the latch is closed. A latch that was never set is open.
// All methods are safe for concurrent use.
//
// Every request takes effect once, however often the client must send it; see
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

// channel is the argument of scripts that names the channel of the latch's opening.
func (l *CountDownLatch) channel() any {
	return l.c.network.Channel(l.name, keys.LatchChannel(l.name, false), keys.LatchChannel(l.name, true))
}

// errShut is the error about a latch that is closed.
type errShut struct{}

func (e errShut) Error() string         { return textOf(e) }
func (errShut) what() string            { return "the latch is closed" }
func (errShut) hint() string            { return "" }
func (errShut) adviceAfterWait() string { return "count it down, or give Wait more time" }
func (errShut) Is(target error) bool    { return target == ErrNotAcquired }

// TrySet closes the latch with a count of n, from 1 to 2^31-1, if the latch is
// open, and reports whether it did that. This is Redisson's trySetCount. Errors
// are those of CountDown.
func (l *CountDownLatch) TrySet(ctx context.Context, n int64) (bool, error) {
	if err := checkPermits(l.name, "counts", n, 1); err != nil {
		return false, err
	}
	done, err := l.change(ctx, "set count", script.LatchSet, true, n, l.channel())
	return done == 1, err
}

// CountDown takes one from the count. At zero the latch opens and all waiters
// continue. On an open latch, CountDown does nothing. It works with a cancelled
// ctx, because ctx only carries values. This is Redisson's countDown.
//
// ErrUnknown: Redis did not answer within Config.UnlockTimeout. Do not count
// down again. The client keeps sending this request until 20 s after it was
// first sent. The request takes effect once (P22).
func (l *CountDownLatch) CountDown(ctx context.Context) error {
	_, err := l.change(context.WithoutCancel(ctx), "count down", script.LatchDown, false, l.channel())
	return err
}

// Reset opens the latch whatever its count is, lets waiters continue, and
// reports whether the latch was closed. The latch can then be set again. Errors
// are those of CountDown. This is Redisson's delete. It does not wake waiters in
// Java, because the message of that format says "changed" and not "open".
func (l *CountDownLatch) Reset(ctx context.Context) (bool, error) {
	done, err := l.change(ctx, "reset", script.LatchReset, true, l.channel())
	return done == 1, err
}

func (l *CountDownLatch) change(ctx context.Context, op string, s *script.Script, refusedByClose bool, args ...any) (int64, error) {
	return newRecorded(l.c, op, l.name, wire.Once{Script: s, Args: args}).runForNumber(ctx, refusedByClose)
}

// Wait returns nil when the latch is open, at once if it is open now (P21). A message
// wakes Wait, which also asks Redis every Config.MaxPoll. If a latch is opened
// and set again before a waiter has asked, it stays closed for that waiter. If
// ctx ends first, the error is ctx.Err() (errors.Is). If the deadline of ctx has
// already passed, Wait asks once; see Mutex.Lock. This is Redisson's await.
func (l *CountDownLatch) Wait(ctx context.Context) error {
	if deadlinePassed(ctx) {
		_, err := tryOnce(ctx, l.c.cfg.IOTimeout, l.name, func(ctx context.Context) (struct{}, error) {
			if err := l.c.admit(ctx, l.name, nil); err != nil {
				return struct{}{}, err
			}
			defer l.c.table.End(l.name)
			return struct{}{}, l.c.errors.Of(ctx, l.name, l.look(ctx))
		})
		return err
	}
	return l.c.waitInLine(ctx, locktable.Key{Name: l.name, Kind: waitqueue.Latch}, latchWait{l: l}, locktable.Request{})
}

// latchWait is a call of Wait.
type latchWait struct {
	unowned
	l *CountDownLatch
}

func (a latchWait) Try(ctx context.Context) wire.Outcome { return a.l.look(ctx) }
func (a latchWait) Channel() string                      { return keys.LatchChannel(a.l.name, false) }
func (latchWait) Refusal(time.Duration) wire.Outcome     { return shut() }

// shut is how a look at a closed latch ends.
func shut() wire.Outcome {
	return wire.Outcome{Result: wire.Refused, Cause: errShut{}, Next: -1}
}

// look asks whether the latch is open. If it is, all other waiters can continue, too.
func (l *CountDownLatch) look(ctx context.Context) wire.Outcome {
	switch n, o := l.c.askCount(ctx, "wait", l.name, l.name); {
	case o.Result != wire.Granted:
		return o
	case n > 0:
		return shut()
	}
	return wire.Outcome{Result: wire.Granted, Free: 1}
}

// Count returns how many count-downs are missing, 0 if the latch is open. The
// answer may be out of date when Count returns. ErrUnknown: Redis did not
// answer. This is Redisson's getCount.
func (l *CountDownLatch) Count(ctx context.Context) (int64, error) {
	n, err := l.c.readCount(ctx, "inspect", l.name, l.name)
	return max(n, 0), err
}
