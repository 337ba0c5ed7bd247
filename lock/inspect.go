package lock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/script"
)

// Info is what Redis knows of a lock of any kind.
type Info struct {
	// Locked: somebody holds the lock; a RWMutex for reading or for writing.
	Locked bool
	// Writing: an owner holds the RWMutex for writing, and may also read.
	Writing bool
	// Holders are the holds in Redis' order: one, or any number of a RWMutex. A
	// reader whose own lease has ended may be among them until another reader
	// unlocks.
	Holders []Holder
	// TTL is what is left of the lease in Redis, of several readers the
	// longest; -1 if the key has no TTL.
	TTL time.Duration
	// Foreign: the key is a string with a TTL, the lock of another library. It
	// has no Holders.
	Foreign bool
}

// Holder is one hold of a lock.
type Holder struct {
	// Field is the hash field of the hold. It is <client uuid>:<owner>:<seq>
	// for a holder of this package and <uuid>:<thread id> for Redisson's,
	// without the ":write" of a writer. When a client hands a Mutex to its own
	// next waiter without Redis, the field remains that of the first holder.
	Field string
	// Count is how often the owner has locked it.
	Count int
	// Writing: this is the writer of a RWMutex.
	Writing bool
}

// Inspect reads the lock from Redis. The answer may be out of date when it
// returns. ErrUnknown: Redis did not answer.
func (m *Mutex) Inspect(ctx context.Context) (Info, error) {
	a, err := m.ask(ctx, "inspect", script.Inspect, m.name)
	if err != nil {
		return Info{}, err
	}
	return m.parseInfo(a.Reply)
}

// parseInfo reads the answer of the inspect script.
func (m *Mutex) parseInfo(reply any) (Info, error) {
	values, ok := reply.([]any)
	if !ok || len(values) == 0 {
		return Info{}, badReply("inspect", m.name, reply)
	}
	pttl, ok := values[0].(int64)
	switch {
	case ok && pttl >= 0 && len(values) == 2:
		return Info{Locked: true, Foreign: true, TTL: ttlOf(pttl)}, nil
	case !ok || len(values)%2 == 0:
		return Info{}, badReply("inspect", m.name, reply)
	case pttl == -2 || len(values) == 1:
		return Info{}, nil
	}
	info, mode := Info{TTL: ttlOf(pttl)}, ""
	for i := 1; i < len(values); i += 2 {
		field, err1 := redis.String(values[i], nil)
		value, err2 := redis.String(values[i+1], nil)
		if err1 != nil || err2 != nil {
			return Info{}, badReply("inspect", m.name, reply)
		}
		if field == "mode" && !m.kind.exclusive() {
			mode = value
			continue
		}
		count, err := strconv.Atoi(value)
		if err != nil {
			return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but no lock's of this kind, field %.50q is %.50q: %s", ErrNotALock, m.name, field, value, otherName)
		}
		h := Holder{Field: field, Count: count}
		if !m.kind.exclusive() {
			h.Field, h.Writing = strings.CutSuffix(field, ":write")
		}
		info.Holders = append(info.Holders, h)
	}
	info.Locked, info.Writing = len(info.Holders) > 0, mode == "write"
	if !m.kind.exclusive() && mode != "read" && mode != "write" {
		return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but no read-write lock's: %s", ErrNotALock, m.name, otherName)
	}
	return info, nil
}

// IsLocked reports whether anybody holds the lock; for the reader or the writer
// of a RWMutex, whether it is held in that mode. See Inspect.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) {
	info, err := m.Inspect(ctx)
	return err == nil && m.rules().locks(info), err
}

// TTL returns what is left of the holder's lease in Redis, of several readers
// the longest. It is 0 if nobody holds the lock, and -1 if the key has no TTL.
func (m *Mutex) TTL(ctx context.Context) (time.Duration, error) {
	info, err := m.Inspect(ctx)
	return info.TTL, err
}

// HeldBy reports whether the owner that ctx carries (Held.Context, WithOwner)
// holds the lock now, as far as the clock can tell; for the reader or the
// writer of a RWMutex, in that mode. It asks nobody.
func (m *Mutex) HeldBy(ctx context.Context) bool {
	v, _ := ctx.Value(ownerKey{}).(ownerOrError)
	if v.err != nil || v.owner == (owner{}) {
		return false
	}
	h := m.rules().held(&m.c.tables, m.name, v.owner)
	return h != nil && h.lease.Valid()
}

// forceTries is how often ForceUnlock reads a lock that goes from one holder to
// the next each time before it can be deleted.
const forceTries = 16

// ForceUnlock deletes the lock, whoever holds it, wakes waiters, and reports
// whether there was a holder. The holder is told (NotOwner) at its next
// renewal, so another owner may have the lock before. This is Redisson's
// forceUnlock().
//
// ForceUnlock reads the holds and then deletes exactly those, so a late request
// cannot take the lock from a later holder. If they have all ended in the
// meantime and another owner holds the lock, it reads again, up to 16 times. A
// reader that comes while others are removed keeps its hold. Redisson's owners
// use the same field for every hold: a late request may then delete the next
// hold of the same Java thread.
//
// A key that is not a lock's hash is left as it is, also the lock of another
// library (Info.Foreign): the error is ErrNotALock.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	cmd, left := m.rules().force(&m.c.scripts, m.name)
	for range forceTries {
		a, err := m.ask(ctx, "force", script.Inspect, m.name)
		if err != nil {
			return false, err
		}
		values, ok := a.Reply.([]any)
		switch {
		case ok && len(values) == 2:
			return false, fmt.Errorf("%w of this package: %q is a string with a TTL, the lock of another library: release it there", ErrNotALock, m.name)
		case !ok || len(values)%2 == 0:
			return false, badReply("force", m.name, a.Reply)
		case len(values) == 1:
			return false, nil
		}
		args := slices.Clone(cmd.args)
		for i := 1; i < len(values); i += 2 {
			field, err := redis.String(values[i], nil)
			if err != nil {
				return false, badReply("force", m.name, a.Reply)
			}
			if field != "mode" {
				args = append(args, field)
			}
		}
		a, err = m.askKeys(ctx, "force", cmd.script, cmd.keys, args...)
		if err != nil {
			return false, err
		}
		switch n, ok := a.Reply.(int64); {
		case !ok:
			return false, badReply("force", m.name, a.Reply)
		case n == -1:
			return false, fmt.Errorf("%w: %q %s: %s", ErrNotALock, m.name, left, otherName)
		case n != -2:
			return n == 1, nil
		}
	}
	return false, fmt.Errorf("lock: force of %q: it had another holder each of the %d times that it was to be deleted: try again", m.name, forceTries)
}

// ask sends one script that needs no hold, once.
func (m *Mutex) ask(ctx context.Context, op string, s *script.Script, args ...any) (pipe.Answer, error) {
	return m.askKeys(ctx, op, s, 1, args...)
}

func (m *Mutex) askKeys(ctx context.Context, op string, s *script.Script, keys int, args ...any) (pipe.Answer, error) {
	if err := m.c.checkName(m.name); err != nil {
		return pipe.Answer{}, err
	}
	if !m.c.tables.begin(m.name, true) {
		return pipe.Answer{}, closedError(m.name)
	}
	defer m.c.tables.end(m.name)
	a := m.c.scripts.callKeys(ctx, m.name, s, keys, nil, args...)
	if a.Err != nil {
		return a, m.c.scripts.callError(op, m.name, a)
	}
	return a, nil
}

// Do runs f while it holds the lock. It locks, calls f with a context that
// carries the owner and ends when the lock is lost, and unlocks, also when f
// panics. It joins the errors of f and of Unlock. If the error is ErrLost, f
// may have run without the lock.
func (m *Mutex) Do(ctx context.Context, f func(context.Context) error) error {
	if err := checkDo(ctx, m.name); err != nil {
		return err
	}
	held, err := m.Lock(ctx)
	return do(ctx, held, err, f)
}

// do is Do once the lock is held, or could not be.
func do(ctx context.Context, held *Held, failed error, f func(context.Context) error) (err error) {
	if failed != nil {
		return failed
	}
	defer func() {
		if unlockErr := held.Unlock(ctx); unlockErr != nil {
			err = errors.Join(err, unlockErr)
		}
	}()
	return f(held.Context(ctx))
}
