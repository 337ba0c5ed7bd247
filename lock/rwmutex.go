package lock

import "github.com/wheellock/wheellock/lock/internal/hold"

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
func (m *RWMutex) Reader() *Mutex { return &Mutex{c: m.c, name: m.name, kind: hold.Read} }

// Writer returns the lock for writing, Redisson's writeLock(). Its Lock waits
// while others read or write, and returns ErrUpgrade if the owner reads. Its
// TryLock is also refused if others of this client wait; the TTL in the error
// is then the one that they know.
func (m *RWMutex) Writer() *Mutex { return &Mutex{c: m.c, name: m.name, kind: hold.Write} }
