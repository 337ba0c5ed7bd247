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

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// Info describes a lock of any kind as Redis has it.
type Info struct {
	// Locked reports that somebody holds the lock; a RWMutex for reading or for
	// writing.
	Locked bool
	// Writing reports that an owner holds the RWMutex for writing. That owner may
	// also read.
	Writing bool
	// Holders are the holds in Redis' order. There is one, or there are several of
	// a RWMutex. If there are more than 1024, Holders has 1024 of them, drawn at
	// random. A reader that has died may be among them as long as others read.
	Holders []Holder
	// TTL is the rest of the lease in Redis, for several readers the longest; -1
	// if the key has no TTL. It is at most 291 years, also for a key that lives
	// longer.
	TTL time.Duration
	// Foreign reports that the key is a string with a TTL, which is the lock of
	// another library. Such a lock has no Holders.
	Foreign bool
}

// Holder is one hold of a lock.
type Holder struct {
	// Field is the hash field of the hold: <client id>:<owner>:<seq> for a holder
	// of this package, <uuid>:<thread id> for a holder of Redisson. The ":write"
	// of a writer is left out. When a client hands a Mutex to its own next waiter
	// without Redis, the field of the first holder remains.
	Field string
	// Label is the Config.Label of the client that has the hold. It is empty if
	// the client has no label, is of an older version, or is Redisson.
	Label string
	// Count is how often the owner has locked the lock.
	Count int
	// Writing reports that this is the writer of a RWMutex.
	Writing bool
}

// Inspect reads the lock from Redis. The answer may be out of date when Inspect
// returns. ErrUnknown: Redis did not answer. ErrNotALock: the key has other
// values than a lock of this kind.
func (m *Mutex) Inspect(ctx context.Context) (Info, error) {
	reply, err := m.c.read(ctx, "inspect", m.name, wire.Inspect(m.name))
	if err != nil {
		return Info{}, err
	}
	return m.readInfo(reply)
}

// readInfo reads the answer of the inspect script.
func (m *Mutex) readInfo(reply any) (Info, error) {
	key, ok := wire.ReadKey(reply)
	switch {
	case !ok:
		return Info{}, badReply("inspect", m.name, reply)
	case key.Foreign:
		return Info{Locked: true, Foreign: true, TTL: key.TTL}, nil
	case !key.There:
		return Info{}, nil
	}
	info, mode := Info{TTL: key.TTL}, ""
	for _, f := range key.Fields {
		if f.Name == "mode" && !m.kind.Exclusive() {
			mode = f.Value
			continue
		}
		count, err := strconv.Atoi(f.Value)
		if err != nil {
			return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but not a lock of this kind, because its field %.50q is %.50q: %s", ErrNotALock, m.name, f.Name, f.Value, otherName)
		}
		h := Holder{Field: f.Name, Label: owner.Label(f.Name), Count: count}
		if !m.kind.Exclusive() {
			h.Field, h.Writing = strings.CutSuffix(f.Name, ":write")
		}
		info.Holders = append(info.Holders, h)
	}
	info.Locked, info.Writing = len(info.Holders) > 0, mode == "write"
	if !m.kind.Exclusive() && mode != "read" && mode != "write" {
		return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but not a read-write lock: %s", ErrNotALock, m.name, otherName)
	}
	return info, nil
}

// IsLocked reports whether anybody holds the lock. For the Reader or the Writer
// of a RWMutex, it reports whether the lock is held in that mode. See Inspect.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) {
	info, err := m.Inspect(ctx)
	return err == nil && info.locks(m.kind), err
}

// locks reports whether somebody holds the lock in the mode of that kind.
func (i Info) locks(k hold.Kind) bool {
	switch k {
	case hold.Read:
		return i.Foreign || slices.ContainsFunc(i.Holders, func(h Holder) bool { return !h.Writing })
	case hold.Write:
		return i.Foreign || i.Writing
	}
	return i.Locked
}

// TTL returns the rest of the holder's lease in Redis, for several readers the
// longest. It is 0 if nobody holds the lock, and -1 if the key has no TTL. See
// Inspect.
func (m *Mutex) TTL(ctx context.Context) (time.Duration, error) {
	info, err := m.Inspect(ctx)
	return info.TTL, err
}

// HeldBy reports whether the owner that ctx carries (Held.Context, WithOwner)
// holds the lock now, as far as the clock can tell. For the Reader or the Writer
// of a RWMutex, it reports whether the owner holds the lock in that mode. HeldBy
// does no I/O.
func (m *Mutex) HeldBy(ctx context.Context) bool {
	o, _ := owner.FromContext(ctx)
	return o != owner.Nobody && m.heldBy(o)
}

// heldBy reports whether that owner holds the lock, as far as the clock can tell.
func (m *Mutex) heldBy(o owner.Owner) bool {
	h := m.c.table.Own(m.name, o, m.kind.Mode())
	return h != nil && h.Valid()
}

// forceTries is how often ForceUnlock reads a lock whose holder changes each
// time before the script can delete it.
const forceTries = 16

// ForceUnlock deletes the lock, whoever holds it, wakes waiters, and reports
// whether there was a holder. A holder of this client is told (NotOwner) after
// one more round trip (P23). A holder of another client is told at its next renewal,
// or within MaxPoll while others of that client wait for a Mutex. A hold of
// LockFor has no renewals, so its holder in another client may be told only when
// it uses the hold in Redis (see LockFor) or when its lease ends. Until the
// holder is told, Held.Valid is true, although another owner may have the lock.
// This is Redisson's forceUnlock().
//
// ForceUnlock reads the holds and then deletes exactly these, so a late request
// cannot take the lock from a later holder. If all of them have ended in the
// meantime and another owner holds the lock, ForceUnlock reads again, up to 16
// times. A reader that comes while others are removed keeps its hold. An owner
// of Redisson uses the same field for every hold. So a late request may delete
// the next hold of the same Java thread.
//
// If ForceUnlock fails after it has deleted some of very many holds, it returns true
// with the error. ErrUnknown: these or others may have been deleted. If ctx has
// ended before, nothing is sent, and the error is ctx.Err().
//
// ErrNotALock: the key is not a lock's hash, or is the lock of another library
// (Info.Foreign). ForceUnlock leaves such a key as it is.
func (m *Mutex) ForceUnlock(ctx context.Context) (bool, error) {
	call, left := m.c.holds.Force(m.kind, m.name)
	deleted, gone := false, false // gone: holds of this client may be
	defer func() {
		if gone {
			m.c.table.ConfirmHolds(m.name)
		}
	}()
	if wait.Ended(ctx) != nil {
		return false, newWaitError(ctx, m.name, nil)
	}
	for tries := 0; tries < forceTries; tries++ {
		reply, err := m.c.read(ctx, "force", m.name, wire.Inspect(m.name))
		if err != nil {
			return deleted, notWhole(err, deleted)
		}
		key, ok := wire.ReadKey(reply)
		switch {
		case !ok:
			return deleted, badReply("force", m.name, reply)
		case key.Foreign:
			return deleted, fmt.Errorf("%w of this package: %q is a string with a TTL, the lock of another library: release it there", ErrNotALock, m.name)
		case !key.There:
			gone = true
			return deleted, nil
		}
		holders := key.Holders()
		these := call
		these.Args = call.Args.Into(resp.Args{})
		if reply, err = m.c.ask(ctx, "force", m.name, these.With(holders)); err != nil {
			gone = gone || errors.Is(err, ErrUnknown)
			return deleted, notWhole(err, deleted)
		}
		switch n, ok := reply.(int64); {
		case !ok:
			return deleted, badReply("force", m.name, reply)
		case n == -1:
			return deleted, fmt.Errorf("%w: %q %s: %s", ErrNotALock, m.name, left, otherName)
		case n == -2:
		default:
			gone = true
			deleted = deleted || n == 1
			if !key.More {
				return deleted, nil
			}
			tries = -1 // more holds are left, and fewer each time
		}
	}
	return deleted, fmt.Errorf("lock: force of %q: its holder changed before each of the %d deletions: try again", m.name, forceTries)
}

// notWhole is the error of a ForceUnlock that failed, after it has deleted some holds or none.
func notWhole(err error, deleted bool) error {
	var unsent *NotSentError
	if deleted && errors.As(err, &unsent) {
		return &UnknownError{Op: unsent.Op, Name: unsent.Name, Err: unsent.Err}
	}
	return err
}

// read is ask of a call that changes nothing. If its connection fails, the call is sent once more,
// over a new one. A connection that was idle may be dead although nothing has told this client.
func (c *Client) read(ctx context.Context, op, name string, call wire.Call) (any, error) {
	reply, o := c.askTimes(ctx, 2, op, name, call)
	return reply, c.errors.Of(ctx, name, o)
}

// ask sends a call that needs no hold, once, and returns its answer. The call's key is name, or
// another key that belongs to it. If ctx has ended, ask sends nothing, because the call may change
// something.
func (c *Client) ask(ctx context.Context, op, name string, call wire.Call) (any, error) {
	if wait.Ended(ctx) != nil {
		return nil, newWaitError(ctx, name, nil)
	}
	reply, o := c.askTimes(ctx, 1, op, name, call)
	return reply, c.errors.Of(ctx, name, o)
}

// askTimes is ask, but sends the call up to most times while the connections to which it was
// written fail. The Outcome of an answer is Granted.
func (c *Client) askTimes(ctx context.Context, most int, op, name string, call wire.Call) (any, wire.Outcome) {
	if err := c.checkName(name); err != nil {
		return nil, wire.Failure(err)
	}
	if !c.table.Begin(name, true) {
		return nil, wire.Outcome{Result: wire.Closed}
	}
	defer c.table.End(name)
	a := c.network.Send(ctx, name, call, nil)
	for n := 1; n < most && brokeOff(a); n++ {
		a = c.network.Send(ctx, name, call, nil)
	}
	if a.Err != nil {
		return nil, c.holds.Outcome(op, a)
	}
	return a.Reply.Any(), wire.Outcome{Result: wire.Granted}
}

// brokeOff reports whether a connection failed before the answer came, and the caller still waits.
func brokeOff(a pipe.Answer) bool {
	_, reply := a.Err.(redis.Error)
	return a.Err != nil && !reply && !a.IsAbandoned && !a.Stamp.IsZero() && !errors.Is(a.Err, ErrClosed)
}
