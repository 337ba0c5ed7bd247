package lock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// RWMutex is a re-entrant lock with many readers or one writer. It is a pair of
// Mutexes, Reader and Writer. Like every Mutex it is held by an owner, which
// travels in the context. It has the format of Redisson's RReadWriteLock: a
// hash {mode, owner: count} under the lock's name, and for each reader a key
// that lives as long as the reader's hold.
//
// An owner that writes may also read, and may unlock in any order. If it
// unlocks the writer and still reads, others may read at once. An owner that
// only reads may not write: Lock returns ErrUpgrade, because two readers that
// both wait for that would wait for ever.
//
// Each reader has its own lease: one that is lost or has expired does not end
// the others. A stream of readers does not keep a writer out: while a writer
// waits, new readers of this package wait until all writers that are waiting
// have had their turn or have left (see Config.ReadersFirst). A writer that
// dies while it waits keeps readers out for at most 2 x MaxPoll + IOTimeout.
// So, as with sync.RWMutex, there is a deadlock if the holder of a read lock
// waits for another owner that asks for a read lock meanwhile. Readers of
// Redisson pass waiting writers.
//
// Held.Token is 0: this lock has no tokens. IsLocked and HeldBy of Reader say
// whether it is held for reading, those of Writer for writing. TTL, Inspect and
// ForceUnlock are about the whole lock.
type RWMutex struct {
	c    *Client // immutable
	name string  // immutable
}

// RWMutex returns the read-write lock of that name. It does no I/O and keeps
// nothing. The first call that uses a bad name returns an error.
func (c *Client) RWMutex(name string) *RWMutex { return &RWMutex{c: c, name: c.key(name)} }

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *RWMutex) Name() string { return m.name }

// Reader returns the lock for reading, Redisson's readLock(). Its Lock waits
// while another owner writes or a writer waits. Its TryLock does not queue
// behind waiting readers.
func (m *RWMutex) Reader() *Mutex { return &Mutex{c: m.c, name: m.name, kind: readKind} }

// Writer returns the lock for writing, Redisson's writeLock(). Its Lock waits
// while others read or write, and returns ErrUpgrade if the owner reads. Its
// TryLock is also refused if others of this client wait; the TTL in the error
// is then the one that they know.
func (m *RWMutex) Writer() *Mutex { return &Mutex{c: m.c, name: m.name, kind: writeKind} }

// rwLocks are the rules of both halves.
type rwLocks struct{}

func (rwLocks) take(ctx context.Context, m *Mutex, a *attempt) (*Held, error) {
	return m.takeRW(ctx, a)
}
func (rwLocks) key(name string) string     { return name }
func (rwLocks) channel(name string) string { return keys.RWChannel(name) }

func (rwLocks) force(s *scripts, name string) (command, string) {
	return command{script: script.RwForce, keys: 2, args: []any{name, keys.RWWriters(name), keys.RWChannel(name), s.publish(name), keys.Prefix(name)}},
		"is no read-write lock"
}

// readers are the rules of the lock for reading.
type readers struct{ rwLocks }

func (readers) acquire(a *attempt, field string) command {
	c, writer, wait := a.c, "", 1
	if h := c.tables.sharedHold(a.name, a.owner, writeKind); h != nil {
		writer = h.field()
	}
	if c.cfg.ReadersFirst {
		wait = 0
	}
	return command{script: script.RwRead, keys: 3, args: []any{
		a.name, keys.RWReader(a.name, field), keys.RWWriters(a.name),
		field, ms(a.lease), writer, wait, keys.Prefix(a.name), keys.RWChannel(a.name), c.scripts.publish(a.name),
	}}
}

func (readers) release(s *scripts, name, field string) command {
	return command{script: script.RwReadRelease, keys: 3, args: s.publishing(name, []any{
		name, keys.RWReader(name, field), keys.RWWriters(name), field, keys.RWChannel(name), keys.Prefix(name),
	})}
}

func (readers) reenter(h *hold, count int32, lease time.Duration) command {
	return command{script: script.RwReadReenter, keys: 2, args: []any{h.name, keys.RWReader(h.name, h.field()), h.field(), count, ms(lease)}}
}

func (readers) class() carrier.Class                       { return carrier.Readers }
func (readers) held(t *tables, name string, o owner) *hold { return t.sharedHold(name, o, readKind) }

func (readers) locks(i Info) bool {
	return i.Foreign || slices.ContainsFunc(i.Holders, func(h Holder) bool { return !h.Writing })
}

// orphanOutlived: other readers, or a write hold of the owner, keep the key.
func (readers) orphanOutlived(h *hold, why Reason) {
	if why == Expired || why == MaxHold {
		h.orphan()
	}
}

// writers are the rules of the lock for writing.
type writers struct{ rwLocks }

func (writers) acquire(a *attempt, field string) command {
	announce := int64(0)
	if a.writer != "" {
		announce = ms(announcement(a.c.cfg))
	}
	return command{script: script.RwWrite, keys: 2, args: []any{
		a.name, keys.RWWriters(a.name), field, ms(a.lease), a.writer, announce, keys.Prefix(a.name), keys.RWChannel(a.name), a.c.scripts.publish(a.name),
	}}
}

func (writers) release(s *scripts, name, field string) command {
	return command{script: script.RwWriteRelease, keys: 2, args: s.publishing(name, []any{
		name, keys.RWWriters(name), field, keys.RWChannel(name), keys.Prefix(name),
	})}
}

func (writers) reenter(h *hold, count int32, lease time.Duration) command {
	return mutexes{}.reenter(h, count, lease)
}

func (writers) class() carrier.Class                       { return carrier.Fields }
func (writers) held(t *tables, name string, o owner) *hold { return t.sharedHold(name, o, writeKind) }
func (writers) locks(i Info) bool                          { return i.Foreign || i.Writing }

// orphanOutlived: a reading of the same owner keeps the key, and the field would keep
// all others out for as long. When nothing could be renewed, the others end too.
func (writers) orphanOutlived(h *hold, why Reason) {
	if why == Expired || why == MaxHold || why == TrustEnded && h.shard.c.tables.sharedHold(h.name, h.owner, readKind) != nil {
		h.orphan()
	}
}

// takeRW takes the lock, or waits for it if the caller does.
func (m *Mutex) takeRW(ctx context.Context, a *attempt) (held *Held, err error) {
	k := queueKey{m.name, rwQueue}
	if a.kind == readKind && m.c.cfg.ReadersFirst {
		k.kind = readersQueue
	}
	w := newWaiter(a.shard, k, rwAcquire{a})
	defer endWaiter(w)
	w.caller.Shared = a.kind == readKind
	held, err = a.stand(ctx, w)
	if a.writer != "" && (held == nil || held.h.seq != a.seq) { // a re-entry's script knows nothing of writers
		withdraw(m.c, m.name, a.writer)
	}
	return held, err
}

// rwAcquire is a call of Lock and its like of a RWMutex.
type rwAcquire struct{ *attempt }

func (x rwAcquire) probe(ctx context.Context) (left int64, err error) {
	if a := x.attempt; a.kind == writeKind && a.wait && !a.c.cfg.ReadersFirst && a.waiter.waited && a.writer == "" {
		a.writer = a.field() // it waits: new readers wait behind it
	}
	return x.attempt.probe(ctx)
}

func (x rwAcquire) barred(*hold) error {
	return fmt.Errorf("%w and cannot also write, because it would wait for itself: unlock the read lock of %q first", ErrUpgrade, x.name)
}

// withdraw tells readers that a writer waits no more.
func withdraw(c *Client, name, writer string) {
	c.orphans.send(&orphan{
		name: name, until: time.Now().Add(announcement(c.cfg)),
		command: command{script: script.RwWithdraw, keys: 1, args: c.scripts.publishing(name, []any{keys.RWWriters(name), writer, keys.RWChannel(name)})},
	})
}

// announcement is how long a writer that waits keeps readers out before it must
// say so again, which it does each MaxPoll.
func announcement(cfg Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }
