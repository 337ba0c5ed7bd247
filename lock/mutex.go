package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Mutex is one re-entrant lock in Redis. It is of one of these kinds: a plain
// one in Redisson's RLock format, a hash {owner: count} under the lock's name
// (Client.Mutex); one that serves its waiters in order over all processes
// (Client.FairMutex); one with its own counter of tokens (Client.FencedMutex);
// or the reader or the writer of a RWMutex. All methods are safe for concurrent
// use.
//
// A Mutex is held by an owner, which takes the place of Java's thread and
// travels in the context. Lock makes a new owner unless its context carries
// one, as those of Held.Context and WithOwner do. Calls with the same owner do
// not exclude each other: they re-enter.
type Mutex struct {
	c    *Client // immutable
	name string  // immutable
	kind kind    // immutable
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *Mutex) Name() string { return m.name }

// Lock takes the lock and keeps it renewed until Unlock. While another owner
// holds the lock, it waits. ctx limits only the waiting; its end has no effect
// on a lock that was taken. This is Redisson's lock().
//
// A release wakes the waiter. If pub/sub fails or is not permitted, the waiter
// is delayed by at most Config.MaxPoll.
//
// If ctx ends first, the error is ctx.Err() (errors.Is). It is also
// ErrNotAcquired if the last try found another owner, or ErrUnknown if that try
// was not answered; a lock that a late answer brings is released again. A ctx
// whose deadline has passed makes one try all the same, of at most
// Config.IOTimeout, unless others of this client wait. So Lock with a deadline
// of now takes a free lock, like Redisson's tryLock(0). A cancelled ctx makes
// no try.
//
// Unknown outcomes are tried again unless Config.FailFast is set. ErrClosed:
// the client is closing. A refusal by Redis, like NOPERM or WRONGTYPE, is
// returned at once.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true, wait: true})
}

// LockFor is Lock with a lease of d that is not renewed. After d the lock is
// lost (reason Expired) unless it was unlocked. d is whole milliseconds from
// 100 ms to 30 days. This is Redisson's lock(leaseTime).
func (m *Mutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d, wait: true})
}

// TryLock takes the lock and keeps it renewed if no other owner holds it.
// Otherwise it returns a *HeldError at once, which is ErrNotAcquired.
// ErrUnknown: Redis did not answer; a lock that was taken is released again.
// This is Redisson's tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryLockFor is TryLock with a lease of d that is not renewed, see LockFor.
func (m *Mutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d})
}

// terms are what the caller of a lock function asks for.
type terms struct {
	lease   time.Duration
	renewed bool
	wait    bool
	fewer   bool // of permits: fewer will do
	polite  bool // of a RedLock: a try that passes nobody who waits

	maxHoldEnd time.Time // when Config.MaxHold is over; zero: so long after the acquisition
}

// errGone: the hold that was to be re-entered is no more.
var errGone = errors.New("lock: bug: the hold is gone")

func errOtherKind(name string) error {
	return fmt.Errorf("lock: %q is held by the same owner as another kind of lock: use a name for one kind only", name)
}

// acquire is the common part of all four functions that take the lock.
func (m *Mutex) acquire(ctx context.Context, t terms) (*Held, error) {
	began := m.c.tables.now()
	held, err := m.enter(ctx, t, began)
	return m.c.observe(ctx, m.name, began, held, err)
}

// enter takes the lock by the rules of its kind.
func (m *Mutex) enter(ctx context.Context, t terms, began waitqueue.Instant) (*Held, error) {
	if t.wait && overdue(ctx) {
		t.wait = false
		return once(ctx, m.c.cfg.IOTimeout, m.name, func(ctx context.Context) (*Held, error) { return m.enter(ctx, t, began) })
	}
	a, err := m.c.enter(ctx, m.name, m.kind, t)
	if err != nil {
		return nil, err
	}
	a.began = began
	defer a.shard.end()
	return m.rules().take(ctx, m, a)
}

// foreignPoll is how long a waiter sleeps at most while another library has the
// lock. Such a library publishes no release.
const foreignPoll = 250 * time.Millisecond

// enter begins an acquisition, unless something forbids it. The caller calls
// end when the acquisition is over.
func (c *Client) enter(ctx context.Context, name string, k kind, t terms) (*attempt, error) {
	if err := errors.Join(c.checkName(name), checkLease(name, t.lease)); err != nil {
		return nil, err
	}
	if ctx.Err() != nil {
		return nil, newWaitError(ctx, name, nil)
	}
	o, err := c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	s := c.tables.shard(name)
	if !s.begin(true) {
		return nil, closedError(name)
	}
	return &attempt{c: c, shard: s, name: name, kind: k, owner: o, shared: carriesOwner(ctx), terms: t, seq: c.seqs.Add(1)}, nil
}
