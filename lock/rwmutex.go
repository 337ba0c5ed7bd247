package lock

import "github.com/wheellock/wheellock/lock/internal/engine/hold"

// RWMutex is a re-entrant lock with many readers or one writer. It is a pair of
// Mutexes, Reader and Writer. Like every Mutex it is held by an owner, which
// travels in the context. It has the format of Redisson's RReadWriteLock: a
// hash {mode, owner: count} under the lock's name, and for each reader a key
// that lives as long as the reader's hold.
//
// An owner that writes may also read, and may unlock in any order. If it
// unlocks the writer and still reads, others may read at once. An owner that
// only reads may not write. For such an owner, Lock of the Writer returns
// ErrUpgrade, because two readers that both wait to write would wait for ever.
//
// Each reader has its own lease. If one reader loses its hold, the others keep
// theirs. A stream of readers does not keep a writer of this package out. While such
// writers wait, new readers of this package wait (see Config.ReadersFirst) (P15), but
// between two waiting writers a reader may come first. A writer that dies while it waits
// keeps readers out for at most 2 x MaxPoll + IOTimeout after another writer last waited.
// As with sync.RWMutex, there can be a deadlock: the holder of a read lock must not wait
// for another owner that asks for a read lock. Readers of Redisson overtake waiting writers.
//
// A call costs Redis the same for any number of readers. When a reader unlocks,
// the lock stays in Redis for the longest lease of the remaining readers. With
// more than 32 readers, it may stay for longer, but at most for the longest lease
// that a reader had who has unlocked. If a writer has also read, and for longer than its
// own lease, the lock stays for as long as that unless the writer unlocks. If all
// remaining readers die together, a writer gets the lock after a few of its own tries,
// MaxPoll apart, or when that time is over.
//
// Held.Token is 0, because this lock has no tokens. IsLocked and HeldBy of Reader
// say whether the lock is held for reading. IsLocked and HeldBy of Writer say
// whether it is held for writing. TTL, Inspect and ForceUnlock are about the
// whole lock.
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
// TryLock also returns a *HeldError if others of this client wait. The TTL in the
// error is then the last one that these waiters have seen.
func (m *RWMutex) Writer() *Mutex { return &Mutex{c: m.c, name: m.name, kind: hold.Write} }
