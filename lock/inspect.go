package lock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// Info is what Redis knows of a lock of any kind.
type Info struct {
	// Locked: somebody holds the lock; a RWMutex for reading or for writing.
	Locked bool
	// Writing: an owner holds the RWMutex for writing, and may also read.
	Writing bool
	// Holders are the holds in Redis' order: one, or several of a RWMutex; of more
	// than 1024, so many, drawn at random. A reader whose own lease has ended may be
	// among them until another reader unlocks.
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
	reply, err := m.c.ask(ctx, "inspect", m.name, wire.Inspect(m.name))
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
			return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but no lock's of this kind, field %.50q is %.50q: %s", ErrNotALock, m.name, f.Name, f.Value, otherName)
		}
		h := Holder{Field: f.Name, Count: count}
		if !m.kind.Exclusive() {
			h.Field, h.Writing = strings.CutSuffix(f.Name, ":write")
		}
		info.Holders = append(info.Holders, h)
	}
	info.Locked, info.Writing = len(info.Holders) > 0, mode == "write"
	if !m.kind.Exclusive() && mode != "read" && mode != "write" {
		return Info{}, fmt.Errorf("%w: inspect of %q: it is a hash but no read-write lock's: %s", ErrNotALock, m.name, otherName)
	}
	return info, nil
}

// IsLocked reports whether anybody holds the lock; for the reader or the writer
// of a RWMutex, whether it is held in that mode. See Inspect.
func (m *Mutex) IsLocked(ctx context.Context) (bool, error) {
	info, err := m.Inspect(ctx)
	return err == nil && info.locks(m.kind), err
}

// locks reports whether somebody holds what a lock of that kind is.
func (i Info) locks(k hold.Kind) bool {
	switch k {
	case hold.Read:
		return i.Foreign || slices.ContainsFunc(i.Holders, func(h Holder) bool { return !h.Writing })
	case hold.Write:
		return i.Foreign || i.Writing
	}
	return i.Locked
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
	o, _ := owner.Of(ctx)
	return o != owner.Nobody && m.heldBy(o)
}

// heldBy reports whether that owner holds the lock, as far as the clock can tell.
func (m *Mutex) heldBy(o owner.Owner) bool {
	h := m.c.table.Own(m.name, o, m.kind.Mode())
	return h != nil && h.Valid()
}

// forceTries is how often ForceUnlock reads a lock that goes from one holder to
// the next each time before it can be deleted.
const forceTries = 16

// ForceUnlock deletes the lock, whoever holds it, wakes waiters, and reports
// whether there was a holder. A holder of this client is told (NotOwner) after
// one more round trip. One of another client is told at its next renewal, or
// within MaxPoll while others of that client wait for a Mutex. So another owner
// may have the lock before. This is Redisson's forceUnlock().
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
	call, left := m.c.holds.Force(m.kind, m.name)
	deleted := false
	for tries := 0; tries < forceTries; tries++ {
		reply, err := m.c.ask(ctx, "force", m.name, wire.Inspect(m.name))
		if err != nil {
			return false, err
		}
		key, ok := wire.ReadKey(reply)
		switch {
		case !ok:
			return false, badReply("force", m.name, reply)
		case key.Foreign:
			return false, fmt.Errorf("%w of this package: %q is a string with a TTL, the lock of another library: release it there", ErrNotALock, m.name)
		case !key.There:
			m.forced(nil)
			return deleted, nil
		}
		var fields []string
		for _, f := range key.Fields {
			if f.Name != "mode" {
				fields = append(fields, f.Name)
			}
		}
		these := call
		these.Args = slices.Clone(call.Args)
		if reply, err = m.c.ask(ctx, "force", m.name, these.With(fields)); err != nil {
			return false, err
		}
		switch n, ok := reply.(int64); {
		case !ok:
			return false, badReply("force", m.name, reply)
		case n == -1:
			return false, fmt.Errorf("%w: %q %s: %s", ErrNotALock, m.name, left, otherName)
		case n == -2:
		default:
			m.forced(fields)
			deleted = deleted || n == 1
			if !key.More {
				return deleted, nil
			}
			tries = -1 // there are more: each time there are fewer
		}
	}
	return false, fmt.Errorf("lock: force of %q: it had another holder each of the %d times that it was to be deleted: try again", m.name, forceTries)
}

// ask sends a call that needs no hold, once, and returns its answer. Its key may be another
// one that belongs to name.
func (c *Client) ask(ctx context.Context, op, name string, call wire.Call) (any, error) {
	if err := c.checkName(name); err != nil {
		return nil, err
	}
	if !c.table.Begin(name, true) {
		return nil, closedError(name)
	}
	defer c.table.End(name)
	a := c.network.Send(ctx, name, call, nil)
	if a.Err != nil {
		return nil, c.errors.Call(op, name, a)
	}
	return a.Reply, nil
}

// forced has those holds of this client asked about that ForceUnlock found or has deleted.
func (m *Mutex) forced(fields []string) {
	var holds []*hold.Hold
	if m.kind.Exclusive() {
		if h := m.c.table.Live(m.name); h != nil {
			holds = append(holds, h)
		}
	}
	for _, f := range fields {
		text, ours := strings.CutPrefix(f, m.c.id+":")
		if m.kind.Exclusive() || !ours {
			continue
		}
		for _, o := range m.c.ownersOf(strings.TrimSuffix(text, ":write")) {
			for _, mode := range [...]locktable.Mode{locktable.Reading, locktable.Writing} {
				holds = m.c.table.Shared(holds, m.name, o, mode)
			}
		}
	}
	for _, h := range holds {
		h.Confirm()
	}
}

// ownersOf are the owners of whom one has made this end of a field, <owner>:<seq>.
func (c *Client) ownersOf(tail string) []owner.Owner {
	i := strings.LastIndexByte(tail, ':')
	if i < 0 {
		return nil
	}
	owners := []owner.Owner{{Text: tail[:i]}}
	if id, err := strconv.ParseUint(tail[:i], 10, 64); err == nil {
		owners = append(owners, owner.Owner{Text: c.id, ID: id})
	}
	return owners
}
