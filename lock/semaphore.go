package lock

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/script"
)

// maxPermits is the largest number that Redisson can count, with Java's int.
const maxPermits = 1<<31 - 1

// Semaphore is a counter of permits in Redis, in the format of Redisson's
// RSemaphore: a number under the semaphore's name. All methods are safe for
// concurrent use. Permits have no owner, so anybody may release them. Permits
// that a crashed process had taken do not become free again. Those of a
// PermitSemaphore do.
//
// Every request takes effect once. Its script keeps the result under
// {name}:<client id>:<number> for 30 s, and a copy of the request gets that
// result. So the number of permits stays exact when requests or answers are
// lost, as long as Redis is back within 20 s. Config.Replicas does not apply to
// a Semaphore. It is for locks and permits that have holders.
type Semaphore struct {
	c    *Client // immutable
	name string  // immutable
}

// Semaphore returns the semaphore of that name. It does no I/O and keeps
// nothing. The first call that uses a bad name returns an error. A semaphore
// that was never set has no permits.
func (c *Client) Semaphore(name string) *Semaphore {
	return &Semaphore{c: c, name: c.key(name)}
}

// Name returns the semaphore's key in Redis: Config.KeyPrefix and the name.
func (s *Semaphore) Name() string { return s.name }

// PermitsError says that a semaphore does not have enough free permits, or that
// other calls of this client wait for them, which TryAcquire does not pass.
// errors.Is(err, ErrNotAcquired) is true.
type PermitsError struct {
	Name         string
	Wanted, Free int64
	// OthersWait says that Redis was not asked, because other calls of this client
	// wait for permits. Free is 0 then.
	OthersWait bool
}

func (e *PermitsError) Error() string { return textOf(e) }

func (e *PermitsError) what() string {
	if e.OthersWait {
		return fmt.Sprintf("other calls of this client wait for permits of %q", e.Name)
	}
	return fmt.Sprintf("%q has %d free permits, not %d", e.Name, e.Free, e.Wanted)
}

func (e *PermitsError) hint() string {
	return "try again later, give Acquire time to wait, or set more"
}

func (e *PermitsError) adviceAfterWait() string { return "give Acquire more time, or set more" }

// Is makes errors.Is(err, ErrNotAcquired) true.
func (e *PermitsError) Is(target error) bool { return target == ErrNotAcquired }

// TrySet gives the semaphore n permits if it does not exist, and reports
// whether it did that. This is Redisson's trySetPermits. Errors are those of
// Release.
func (s *Semaphore) TrySet(ctx context.Context, n int64) (bool, error) {
	if err := checkPermits(s.name, "permits", n, 0); err != nil {
		return false, err
	}
	done, err := s.change(ctx, "set permits", script.SemaphoreSet, n, true)
	return done == 1, err
}

// Add changes the number of permits by n. If n is negative, the number of free
// permits may become negative, too. Then some of the permits that are taken now
// do not become free when they are released. This is Redisson's addPermits.
// Errors are those of Release.
func (s *Semaphore) Add(ctx context.Context, n int64) error {
	if err := checkPermits(s.name, "permits", max(n, -n), 0); err != nil {
		return err
	}
	return s.add(ctx, "add permits", n, true)
}

// Release gives back n permits and wakes waiters. If n is 0 it does nothing. It
// works with a cancelled ctx, because ctx only carries values. This is Redisson's
// release(permits).
//
// ErrUnknown: Redis did not answer within Config.UnlockTimeout. Do not release
// again. The client keeps sending this request until 20 s after it was first
// sent. The request takes effect once.
func (s *Semaphore) Release(ctx context.Context, n int64) error {
	if err := errors.Join(s.c.checkName(s.name), checkPermits(s.name, "permits", n, 0)); err != nil || n == 0 {
		return err
	}
	return s.add(context.WithoutCancel(ctx), "release", n, false)
}

// ReleaseIfExists is Release if the semaphore exists, and reports whether it
// does. Unlike Release, it never makes a semaphore. If n is 0, it only asks
// whether there is one. It also works with a cancelled ctx. This is Redisson's
// releaseIfExists. Errors are those of Release.
func (s *Semaphore) ReleaseIfExists(ctx context.Context, n int64) (bool, error) {
	if err := errors.Join(s.c.checkName(s.name), checkPermits(s.name, "permits", n, 0)); err != nil {
		return false, err
	}
	done, err := s.change(context.WithoutCancel(ctx), "release", script.SemaphoreRelease, n, false)
	if err == nil && done < 0 {
		return false, tooMany("release", s.name)
	}
	return done == 1, err
}

func (s *Semaphore) add(ctx context.Context, op string, n int64, refusedByClose bool) error {
	done, err := s.change(ctx, op, script.SemaphoreAdd, n, refusedByClose)
	if err == nil && done != 1 {
		return tooMany(op, s.name)
	}
	return err
}

func tooMany(op, name string) error {
	return fmt.Errorf("lock: %s of %q: there would be more than %d permits: add or release fewer", op, name, maxPermits)
}

// change carries out a request whose arguments are n and the channel. With refusedByClose, a
// client that is closing refuses the request.
func (s *Semaphore) change(ctx context.Context, op string, code *script.Script, n int64, refusedByClose bool) (int64, error) {
	done, err := newRecorded(s.c, op, s.name, wire.Once{Script: code, Args: []any{n, keys.SemaphoreChannel(s.name)}}).runForNumber(ctx, refusedByClose)
	if err == nil {
		s.c.table.Freed(locktable.Key{Name: s.name, Kind: waitqueue.Permits})
	}
	return done, err
}

// Acquire takes n permits at once. It waits until they are free or ctx ends. If
// n is 0, it returns nil at once without I/O. Waiters of one client are served
// in the order in which they came, so a request for many permits is not starved
// by requests for few. This is Redisson's acquire(permits).
//
// If ctx ends first, no permit is taken, or permits that were taken are given
// back. The error is ctx.Err() (errors.Is). If the last try was answered, the
// error is also a *PermitsError, which is ErrNotAcquired. If the deadline of ctx
// has already passed, Acquire makes one try; see Mutex.Lock. After an unknown
// outcome, Acquire tries again for 20 s unless Config.FailFast is set. After that
// the error is ErrUnknown. If permits were taken, the client gives them back as
// soon as Redis answers within these 20 s. While there is no connection to Redis,
// Acquire tries again until ctx ends, and the error is also ErrNotSent.
func (s *Semaphore) Acquire(ctx context.Context, n int64) error {
	return s.acquire(ctx, n, true)
}

// TryAcquire takes n permits if they are free and no waiter of this client came
// before. Otherwise it returns a *PermitsError at once. If n is 0, it returns nil
// at once without I/O. It asks Redis once: if there is no answer, the error is
// ErrUnknown, and permits that were taken are given back as with Acquire. If there
// is no connection, it is ErrNotSent. This is Redisson's tryAcquire(permits).
func (s *Semaphore) TryAcquire(ctx context.Context, n int64) error {
	return s.acquire(ctx, n, false)
}

func (s *Semaphore) acquire(ctx context.Context, n int64, wait bool) error {
	if err := errors.Join(s.c.checkName(s.name), checkPermits(s.name, "permits", n, 0)); err != nil || n == 0 {
		return err
	}
	if wait && deadlinePassed(ctx) {
		_, err := tryOnce(ctx, s.c.cfg.IOTimeout, s.name, func(ctx context.Context) (struct{}, error) {
			return struct{}{}, s.acquire(ctx, n, false)
		})
		return err
	}
	return s.c.waitInLine(ctx, locktable.Key{Name: s.name, Kind: waitqueue.Permits}, semaphoreAcquire{s: s, n: n, again: wait && !s.c.cfg.FailFast}, locktable.Request{Needs: n, Final: true, NoWait: !wait})
}

// semaphoreAcquire is a call of Acquire or TryAcquire.
type semaphoreAcquire struct {
	unowned
	s     *Semaphore
	n     int64
	again bool // see carryOut
}

func (a semaphoreAcquire) Try(ctx context.Context) wire.Outcome {
	o := a.s.take(ctx, "acquire", strconv.FormatInt(a.n, 10), a.again)
	if o.Result == wire.Granted && o.Taken == 0 {
		o.Result = wire.Refused
	}
	o.Wanted, o.Next = a.n, -1
	return o
}
func (a semaphoreAcquire) Channel() string { return keys.SemaphoreChannel(a.s.name) }
func (a semaphoreAcquire) Refusal(time.Duration) wire.Outcome {
	return wire.Outcome{Result: wire.Refused, Wanted: a.n, OthersWait: true}
}

// Drain takes all free permits and returns their number. If it returns an error,
// the client gives back permits that were taken, as with Acquire. If ctx has
// ended before, nothing is sent. This is Redisson's drainPermits, which also sets a
// negative number of free permits to 0. Drain leaves it.
func (s *Semaphore) Drain(ctx context.Context) (int64, error) {
	if err := s.c.admit(ctx, s.name, nil); err != nil {
		return 0, err
	}
	defer s.c.table.End(s.name)
	ctx, cancel := context.WithTimeout(wait.Sound(ctx), s.c.cfg.UnlockTimeout)
	defer cancel()
	o := s.take(ctx, "drain", "all", true)
	return o.Taken, s.c.errors.Of(ctx, s.name, o)
}

// take carries out one request for permits. again is the argument of carryOut. If the outcome is not
// known, the client undoes the request.
func (s *Semaphore) take(ctx context.Context, op, wanted string, again bool) wire.Outcome {
	s.c.holds.Counts.Tries.Add(1)
	d := newRecorded(s.c, op, s.name, wire.Once{Script: script.SemaphoreTake, Args: []any{wanted}})
	reply, o := d.carryOut(ctx, s.c.closing, again)
	if o.Result == wire.Granted {
		o = wire.ReadTaken(op, reply)
	}
	if o.Result != wire.Granted && !d.written.IsZero() {
		s.c.orphans.Send(s.name, wire.SemaphoreUndo(s.name, d.once.Result, resultTTL, s.c.holds.Publisher(s.name)), d.lastSending())
	}
	return o
}

// Available returns how many permits are free now. The number is negative if Add
// took away more permits than were free. It is 0 if no permit is free, and also
// if there is no semaphore; TTL tells these two cases apart. The answer may be
// out of date when Available returns. ErrUnknown: Redis did not answer. This is
// Redisson's availablePermits.
func (s *Semaphore) Available(ctx context.Context) (int64, error) {
	return s.c.readCount(ctx, "inspect", s.name, s.name)
}

func checkPermits(name, what string, n, least int64) error {
	if n < least || n > maxPermits {
		return fmt.Errorf("lock: %q: the number of %s is %d: it must be from %d to %d", name, what, n, least, maxPermits)
	}
	return nil
}

// readCount returns the value of the counter key, which belongs to name, or 0 if there is no counter.
func (c *Client) readCount(ctx context.Context, op, name, key string) (int64, error) {
	n, o := c.askCount(ctx, op, name, key)
	return n, c.errors.Of(ctx, name, o)
}

// askCount is readCount with an Outcome in place of the error. It is Granted if Redis answered with a
// count, or that there is no counter.
func (c *Client) askCount(ctx context.Context, op, name, key string) (int64, wire.Outcome) {
	reply, o := c.askTimes(ctx, 2, op, name, wire.Count(key))
	if o.Result != wire.Granted || reply == nil {
		return 0, o
	}
	text, ok := reply.([]byte)
	if !ok {
		return 0, wire.Outcome{Result: wire.Unknown, Cause: badReply(op, key, reply)}
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil {
		return 0, wire.Failure(fmt.Errorf("%w: %s of %q: it is not a counter but %.50q: %s", ErrNotALock, op, key, text, otherName))
	}
	return n, o
}
