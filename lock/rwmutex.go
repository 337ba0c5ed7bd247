package lock

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/keys"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/wire"
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
// A call costs Redis the same however many read. An unlock leaves the lock in Redis for as
// long as the longest of those who still read. While more than 32 read, it may leave it for
// longer: at most for the longest lease that somebody had who has left. If all of them die
// together, a writer has the lock after a few of its own tries, MaxPoll apart, or when that
// time is over.
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

func (rwLocks) force(s *scripts, name string) (wire.Call, string) {
	return wire.RWForce(name, s.publish(name)), "is no read-write lock"
}

// readers are the rules of the lock for reading.
type readers struct{ rwLocks }

func (readers) acquire(a *attempt, field string) wire.Call {
	c, writer := a.c, ""
	if h := c.table.Own(a.name, a.owner, locktable.Writing); h != nil {
		writer = h.field()
	}
	return wire.Read{
		Name: a.name, Field: field, Lease: a.lease, Writer: writer, First: c.cfg.ReadersFirst, Publish: c.scripts.publish(a.name),
	}.Call()
}

func (readers) release(s *scripts, name, field string) wire.Call {
	return wire.ReadRelease(name, field, s.publisher(name))
}

func (readers) reenter(h *hold, count int32, lease time.Duration) wire.Call {
	return wire.ReadReenter(h.name, h.field(), count, lease)
}

func (readers) class() carrier.Class { return carrier.Readers }

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

func (writers) acquire(a *attempt, field string) wire.Call {
	announced := time.Duration(0)
	if a.writer != "" {
		announced = announcement(a.c.cfg)
	}
	return wire.Write{
		Name: a.name, Field: field, Lease: a.lease, Waiting: a.writer, Announced: announced, Publish: a.c.scripts.publish(a.name),
	}.Call()
}

func (writers) release(s *scripts, name, field string) wire.Call {
	return wire.WriteRelease(name, field, s.publisher(name))
}

func (writers) reenter(h *hold, count int32, lease time.Duration) wire.Call {
	return wire.Reenter(h.name, h.field(), count, lease)
}

func (writers) class() carrier.Class { return carrier.Fields }
func (writers) locks(i Info) bool    { return i.Foreign || i.Writing }

// orphanOutlived: a reading of the same owner keeps the key, and the field would keep
// all others out for as long. When nothing could be renewed, the others end too.
func (writers) orphanOutlived(h *hold, why Reason) {
	if why == Expired || why == MaxHold || why == TrustEnded && h.c.table.Own(h.name, h.owner, locktable.Reading) != nil {
		h.orphan()
	}
}

// takeRW takes the lock, or waits for it if the caller does.
func (m *Mutex) takeRW(ctx context.Context, a *attempt) (held *Held, err error) {
	k, reads := locktable.ReadersWriters, a.kind == readKind
	if reads && m.c.cfg.ReadersFirst {
		k = locktable.ReadersFirst
	}
	held, err = a.stand(ctx, k, rwAcquire{a}, locktable.Request{Reading: reads})
	if a.writer != "" && (held == nil || held.h.seq != a.seq) { // a re-entry's script knows nothing of writers
		withdraw(m.c, m.name, a.writer)
	}
	return held, err
}

// rwAcquire is a call of Lock and its like of a RWMutex.
type rwAcquire struct{ *attempt }

func (x rwAcquire) Try(ctx context.Context) locktable.Reply {
	if a := x.attempt; a.kind == writeKind && a.wait && !a.c.cfg.ReadersFirst && a.waiter.Waited() && a.writer == "" {
		a.writer = a.field() // it waits: new readers wait behind it
	}
	return x.attempt.Try(ctx)
}

func (x rwAcquire) Barred(*hold) error {
	return fmt.Errorf("%w and cannot also write, because it would wait for itself: unlock the read lock of %q first", ErrUpgrade, x.name)
}

// withdraw tells readers that a writer waits no more.
func withdraw(c *Client, name, writer string) {
	c.orphans.Send(name, wire.Withdraw(name, writer, c.scripts.publisher(name)), time.Now().Add(announcement(c.cfg)))
}

// announcement is how long a writer that waits keeps readers out before it must
// say so again, which it does each MaxPoll.
func announcement(cfg Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }
