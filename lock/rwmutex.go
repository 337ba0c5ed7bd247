package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/keys"
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
// client, waits, and otherwise returns a *HeldError at once. Its TTL is what the
// waiters of this client know, if it is for them.
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
// waits, and otherwise returns a *HeldError at once. It does not queue behind
// readers that wait.
func (m *RWMutex) TryRLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryRLockFor is TryRLock with a lease of d that is not renewed.
func (m *RWMutex) TryRLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, readKind, terms{lease: d})
}

// Do runs f while it holds the lock for writing, see Mutex.Do.
func (m *RWMutex) Do(ctx context.Context, f func(context.Context) error) error {
	if err := checkDo(ctx, m.name); err != nil {
		return err
	}
	held, err := m.Lock(ctx)
	return do(ctx, held, err, f)
}

// RDo runs f while it holds the lock for reading, see Mutex.Do.
func (m *RWMutex) RDo(ctx context.Context, f func(context.Context) error) error {
	if err := checkDo(ctx, m.name); err != nil {
		return err
	}
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
	if t.wait && overdue(ctx) {
		t.wait = false
		return once(ctx, m.c.cfg.IOTimeout, m.name, func(ctx context.Context) (*Held, error) { return m.acquire(ctx, k, t) })
	}
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
	for {
		held, err := m.reenter(ctx, a)
		if err == errGone {
			send := a.try
			switch line := m.line(a.kind); {
			case !m.c.lined(line):
			case a.wait:
				return m.wait(ctx, a, nil)
			case a.kind == writeKind || m.c.writersLined(line): // it would pass those who came before
				send = func(context.Context) (*Held, error) {
					return nil, &HeldError{Name: m.name, TTL: m.c.lineHeldFor(line)}
				}
			}
			held, err = a.ask(ctx, send)
		}
		switch {
		case err == errAgain:
			continue
		case err == nil, !a.wait, ctx.Err() == nil && !m.passing(err):
			return held, err
		}
		return m.wait(ctx, a, err)
	}
}

// passing reports whether a try that failed with err may succeed later.
func (m *RWMutex) passing(err error) bool {
	return errors.Is(err, ErrNotAcquired) || errors.Is(err, ErrUnknown) && !m.c.cfg.FailFast
}

// line is the name of the queue of this client's waiters. Readers have one of
// their own if they are not to wait for writers that wait.
func (m *RWMutex) line(k kind) string {
	if k == readKind && m.c.cfg.ReadersFirst {
		return keys.RWChannel(m.name) + ":readers"
	}
	return keys.RWChannel(m.name)
}

// reenter takes the lock by right of a hold that the owner has. It returns
// errGone if there is none.
func (m *RWMutex) reenter(ctx context.Context, a *attempt) (*Held, error) {
	if h := m.c.kinOf(m.name, a.owner, a.kind); h != nil {
		return h.reenter(ctx, a.lease, a.renewed)
	}
	switch {
	case a.kind == writeKind && m.c.kinOf(m.name, a.owner, readKind) != nil:
		return nil, fmt.Errorf("%w and cannot also write, which would wait for itself: %q", ErrUpgrade, m.name)
	case a.kind == readKind && m.c.kinOf(m.name, a.owner, writeKind) != nil:
		return a.try(ctx) // who writes may read
	}
	return nil, errGone
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
			if held == nil || held.h.seq != a.seq { // a re-entry: its script knows nothing of writers
				m.c.withdraw(m.name, a.writer)
			}
		}()
	}
	err = m.c.attend(ctx, m.name, m.line(a.kind), keys.RWChannel(m.name), errand{
		try: func(ctx context.Context) (int64, error) {
			var err error
			held, err = a.ask(ctx, a.try)
			return unknownLeft, err
		},
		again:  true,
		caller: a,
		reenter: func(ctx context.Context) (err error) {
			held, err = m.reenter(ctx, a)
			return err
		},
	}, last)
	return held, err
}

// withdraw tells readers that a writer waits no more.
func (c *Client) withdraw(name, writer string) {
	c.janitor.send(&debt{
		name: name, until: time.Now().Add(announcement(c.cfg)),
		command: command{script.RwWithdraw, 1, c.publishing([]any{keys.RWWriters(name), writer, keys.RWChannel(name)})},
	})
}

// announcement is how long a writer that waits keeps readers out before it must
// say so again, which it does each MaxPoll.
func announcement(cfg Config) time.Duration { return 2*cfg.MaxPoll + cfg.IOTimeout }

// rwRequest is the script that takes a read-write lock with its arguments, but
// for the fields that are owed.
func (a *attempt) rwRequest(f string) command {
	c, prefix := a.c, keys.Prefix(a.name)
	if a.kind == readKind {
		writer, wait := "", 1
		if h := c.kinOf(a.name, a.owner, writeKind); h != nil {
			writer = h.field()
		}
		if c.cfg.ReadersFirst {
			wait = 0
		}
		return command{script.RwRead, 3, []any{a.name, keys.RWReader(a.name, f), keys.RWWriters(a.name), f, ms(a.lease), writer, wait, prefix, keys.RWChannel(a.name), c.publish()}}
	}
	announce := int64(0)
	if a.writer != "" {
		announce = ms(announcement(c.cfg))
	}
	return command{script.RwWrite, 2, []any{a.name, keys.RWWriters(a.name), f, ms(a.lease), a.writer, announce, prefix, keys.RWChannel(a.name), c.publish()}}
}

// RWInfo is what Redis knows of a read-write lock.
type RWInfo struct {
	Writing bool // an owner writes, and perhaps reads too
	Holders []RWHolder
	// TTL is what is left of the longest lease in Redis; -1 if the key has no
	// TTL.
	TTL time.Duration
	// Foreign: the key is a string with a TTL, the lock of another library. It has
	// no Holders.
	Foreign bool
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
// whether there was one; see Mutex.ForceUnlock. A reader that comes while others
// are being removed keeps its own hold.
func (m *RWMutex) ForceUnlock(ctx context.Context) (bool, error) {
	lock := Mutex{c: m.c, name: m.name}
	return lock.force(ctx, "is no read-write lock", command{script.RwForce, 2, []any{m.name, keys.RWWriters(m.name), keys.RWChannel(m.name), m.c.publish(), keys.Prefix(m.name)}})
}
