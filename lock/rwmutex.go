package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/script"
)

// RWMutex is a re-entrant lock with many readers or one writer, in the format
// of Redisson's RReadWriteLock: a hash {mode, owner: count} under the lock's
// name, and a key beside it for each reader that lives as long as that reader's
// hold. All methods are safe for concurrent use. Who holds it is an owner that
// travels in the context, as with Mutex.
//
// The owner that writes may also read, and may unlock in any order: when it
// unlocks the writing and still reads, others may read too, at once. An owner
// that only reads may not write: Lock returns ErrUpgrade, for two readers that
// both waited would wait for ever.
//
// Readers' leases are apart: one that is lost or over ends alone. A stream of
// readers does not keep a writer out: once a writer waits, new readers of this
// package wait until it, and all writers that came meanwhile, had a turn or left
// (see Config.ReadersFirst); a writer that died waiting keeps them out for at
// most 2 x MaxPoll + IOTimeout. A read lock that another owner takes while the
// first one's holder waits for it can therefore deadlock, as with sync.RWMutex.
// Readers of Redisson pass writers that wait.
//
// Held.Token is 0: this lock has none.
type RWMutex struct {
	c    *Client // immutable
	name string  // immutable
}

// ErrUpgrade: the owner holds the lock for reading and wants it for writing,
// which could only wait for itself.
var ErrUpgrade = errors.New("lock: the owner holds the lock for reading")

// RWMutex returns the read-write lock of that name. It does no I/O and keeps
// nothing. A bad name is reported by the first call that uses it.
func (c *Client) RWMutex(name string) *RWMutex { return &RWMutex{c: c, name: c.key(name)} }

// rwChannel is where a read-write lock's releases are published, as Redisson
// names it.
func rwChannel(name string) string { return derived("redisson_rwlock", name) }

// slotPrefix is what names in the slot of name begin with.
func slotPrefix(name string) string {
	prefix := suffixed(name, "")
	return prefix[:len(prefix)-1]
}

// rwTimeout is the key that lives as long as a read hold. Redisson has one for
// each count and believes the one that lives longest; ours is the first.
func rwTimeout(name, field string) string {
	return suffixed(name, field+":rwlock_timeout:1")
}

// rwWriters is the key of the writers that wait.
func rwWriters(name string) string { return suffixed(name, "wheellock_writers") }

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *RWMutex) Name() string { return m.name }

// Lock takes the lock for writing, and keeps it renewed until Unlock; it waits
// while others read or write. ErrUpgrade: the owner reads. All else is as with
// Mutex.Lock. This is Redisson's writeLock().lock().
func (m *RWMutex) Lock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, writeKind, terms{lease: m.c.cfg.Lease, renewed: true, wait: true})
}

// LockFor is Lock with a lease of d that is not renewed, see Mutex.LockFor.
func (m *RWMutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, writeKind, terms{lease: d, wait: true})
}

// TryLock takes the lock for writing if nobody else reads, writes or, in this
// client, waits, and otherwise returns a *HeldError at once.
func (m *RWMutex) TryLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, writeKind, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryLockFor is TryLock with a lease of d that is not renewed.
func (m *RWMutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, writeKind, terms{lease: d})
}

// RLock takes the lock for reading, and keeps it renewed until Unlock; it waits
// while another owner writes or a writer waits. This is Redisson's
// readLock().lock().
func (m *RWMutex) RLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: m.c.cfg.Lease, renewed: true, wait: true})
}

// RLockFor is RLock with a lease of d that is not renewed.
func (m *RWMutex) RLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: d, wait: true})
}

// TryRLock takes the lock for reading if no other owner writes and no writer
// waits, and otherwise returns a *HeldError at once.
func (m *RWMutex) TryRLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryRLockFor is TryRLock with a lease of d that is not renewed.
func (m *RWMutex) TryRLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: d})
}

// Do runs f while it holds the lock for writing, see Mutex.Do.
func (m *RWMutex) Do(ctx context.Context, f func(context.Context) error) error {
	held, err := m.Lock(ctx)
	return do(ctx, held, err, f)
}

// RDo runs f while it holds the lock for reading, see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, f func(context.Context) error) error {
	held, err := m.RLock(ctx)
	return do(ctx, held, err, f)
}

// HeldBy reports whether the owner that ctx carries holds the lock for writing
// now, as far as the clock can tell. It asks nobody.
func (m *RWMutex) HeldBy(ctx context.Context) bool { return m.heldBy(ctx, writeKind) }

// RHeldBy is HeldBy for reading.
func (m *RWMutex) RHeldBy(ctx context.Context) bool { return m.heldBy(ctx, readKind) }

func (m *RWMutex) heldBy(ctx context.Context, k kind) bool {
	v, _ := ctx.Value(ownerKey{}).(ownerOrError)
	if v.err != nil || v.owner == (owner{}) {
		return false
	}
	h := m.c.kinOf(m.name, v.owner, k)
	return h != nil && h.lease.Valid()
}

// acquire is all ways to take the lock.
func (m *RWMutex) acquire(ctx context.Context, k kind, t terms) (*Held, error) {
	a, err := m.c.enter(ctx, m.name, k, t)
	if err != nil {
		return nil, err
	}
	defer m.c.end()
	began := time.Now()
	held, err := m.take(ctx, a)
	if hook := m.c.cfg.Hooks.Acquired; hook != nil && err == nil && held.Count() == 1 {
		m.c.callHook(hook, Event{Name: m.name, Waited: time.Since(began)})
	}
	return held, err
}

// take tries once, unless others of this client wait, and then waits.
func (m *RWMutex) take(ctx context.Context, a *attempt) (*Held, error) {
	var err error
	switch line := m.line(a.kind); {
	case !m.c.lined(line) || m.c.kinOf(m.name, a.owner, readKind) != nil || m.c.kinOf(m.name, a.owner, writeKind) != nil:
		// A re-entry does not queue.
		held, e := m.try(ctx, a)
		if e == nil || !a.wait || errors.Is(e, ErrUpgrade) {
			return held, e
		}
		err = e
	case !a.wait:
		return nil, &HeldError{Name: m.name}
	}
	return m.wait(ctx, a, err)
}

// line is the name of the queue of this client's waiters. Readers have one of
// their own if they are not to wait for writers that wait.
func (m *RWMutex) line(k kind) string {
	if k == readKind && m.c.cfg.ReadersFirst {
		return rwChannel(m.name) + ":readers"
	}
	return rwChannel(m.name)
}

// try enters the owner's own hold or asks Redis once.
func (m *RWMutex) try(ctx context.Context, a *attempt) (*Held, error) {
	if h := m.c.kinOf(m.name, a.owner, a.kind); h != nil {
		held, err := h.reenter(ctx, a.lease, a.renewed)
		if err != errGone {
			return held, err
		}
	}
	if a.kind == writeKind && m.c.kinOf(m.name, a.owner, readKind) != nil {
		return nil, fmt.Errorf("%w and cannot also write, which would wait for itself: %q", ErrUpgrade, m.name)
	}
	return a.try(ctx)
}

// wait is the body of a call that has to wait. last is what the try before it
// said, or nil.
func (m *RWMutex) wait(ctx context.Context, a *attempt, last error) (held *Held, err error) {
	if hook := m.c.cfg.Hooks.Waited; hook != nil {
		began := time.Now()
		defer func() { m.c.callHook(hook, Event{Name: m.name, Waited: time.Since(began), Err: err}) }()
	}
	if a.kind == writeKind && !m.c.cfg.ReadersFirst {
		a.writer = a.field()
		defer func() {
			if held == nil {
				m.withdraw(a)
			}
		}()
	}
	err = m.c.attend(ctx, m.name, m.line(a.kind), rwChannel(m.name), errand{
		try: func(ctx context.Context) (int64, error) {
			var err error
			held, err = m.try(ctx, a)
			return unknownLeft, err
		},
		again: true,
	}, last)
	return held, err
}

// withdraw tells readers that a waits no more.
func (m *RWMutex) withdraw(a *attempt) {
	m.c.janitor.send(&debt{
		name: m.name, until: time.Now().Add(m.announcement()),
		command: command{script.RwWithdraw, 1, m.c.publishing([]any{rwWriters(m.name), a.writer, rwChannel(m.name)})},
	})
}

// announcement is how long a writer that waits keeps readers out before it must
// say so again, which it does each MaxPoll.
func (m *RWMutex) announcement() time.Duration { return announcement(m.c.cfg) }

func announcement(cfg Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }

// rwRequest is the script that takes a read-write lock with its arguments, but
// for the fields that are owed.
func (a *attempt) rwRequest(f string) command {
	c, prefix := a.c, slotPrefix(a.name)
	if a.kind == readKind {
		writer, wait := "", 1
		if h := c.kinOf(a.name, a.owner, writeKind); h != nil {
			writer = h.field()
		}
		if c.cfg.ReadersFirst {
			wait = 0
		}
		return command{script.RwRead, 3, []any{a.name, rwTimeout(a.name, f), rwWriters(a.name), f, ms(a.lease), writer, wait, prefix}}
	}
	announce := int64(0)
	if a.writer != "" {
		announce = ms(announcement(c.cfg))
	}
	return command{script.RwWrite, 2, []any{a.name, rwWriters(a.name), f, ms(a.lease), a.writer, announce, prefix}}
}

// RWInfo is what Redis knows of a read-write lock.
type RWInfo struct {
	Writing bool // an owner writes, and perhaps reads too
	Holders []RWHolder
	// TTL is what is left of the longest lease in Redis; -1 if the key has no
	// TTL.
	TTL time.Duration
}

// RWHolder is one hold of a read-write lock. A reader whose own lease is over
// may be among them until others that read unlock.
type RWHolder struct {
	// Field is the holder's field in the lock's hash, <client uuid>:<owner>:<seq>
	// for a holder of this package and <uuid>:<thread id> for Redisson's,
	// without the ":write" of a writer.
	Field   string
	Writing bool
	Count   int
}

// Inspect reads the lock from Redis. What it says may be over when it returns.
// An answer that does not come is ErrUnknown.
func (m *RWMutex) Inspect(ctx context.Context) (RWInfo, error) {
	reply, err := m.c.read(ctx, "inspect", m.name, script.Inspect)
	if err != nil {
		return RWInfo{}, err
	}
	return m.parseInfo(reply)
}

// ForceUnlock deletes the lock, whoever holds it, wakes waiters, and reports
// whether there was one; see Mutex.ForceUnlock.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	lock := Mutex{c: m.c, name: m.name}
	return lock.force(ctx, "is no read-write lock", command{script.RwForce, 2, m.c.publishing([]any{m.name, rwWriters(m.name), rwChannel(m.name)})})
}
