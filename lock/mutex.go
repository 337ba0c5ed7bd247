package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/waitqueue"
)

// Mutex is one re-entrant lock on Redis, of any kind: a plain one, which has
// Redisson's RLock format, a hash {owner: count} under the lock's name
// (Client.Mutex); one whose waiters are served in order over all processes
// (Client.FairMutex); one with a counter of tokens of its own
// (Client.FencedMutex); or a half of a RWMutex. All methods are safe for concurrent
// use.
//
// It is held by an owner, which takes the place of Java's thread and travels in the
// context. Lock makes a fresh owner unless its context carries one, as those of
// Held.Context and WithOwner do. Calls with the same owner do not exclude each
// other: they re-enter.
type Mutex struct {
	c    *Client // immutable
	name string  // immutable
	kind kind    // immutable
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *Mutex) Name() string { return m.name }

// Lock takes the lock and keeps it renewed until Unlock; it waits while another
// owner holds it. ctx bounds only the waiting: its end later changes nothing.
// The release wakes it; if pub/sub fails or is not permitted, it is delayed by at
// most Config.MaxPoll. This is Redisson's lock().
//
// When ctx ends first, the error is ctx.Err() (errors.Is), and ErrNotAcquired
// if the last try said that another holds the lock, or ErrUnknown if its
// outcome was not known; a lock that a late answer brings is given back.
// A ctx whose deadline is over makes one try all the same, of at most
// Config.IOTimeout, unless others of this client wait: so Lock with a deadline of
// now takes a free lock, like Redisson's tryLock(0). A cancelled ctx makes none.
// Unknown outcomes are retried unless Config.FailFast. ErrClosed: the client is
// closing. An answer like NOPERM or WRONGTYPE is returned as it is.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true, wait: true})
}

// LockFor is Lock with a lease of d that is not renewed: after d the lock is
// lost (reason Expired) unless it was unlocked. d is whole milliseconds from
// 100 ms to 30 days. This is Redisson's lock(leaseTime).
func (m *Mutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d, wait: true})
}

// TryLock takes the lock and keeps it renewed if nobody else holds it, and
// otherwise returns a *HeldError, which is ErrNotAcquired, at once. An unknown
// outcome is ErrUnknown; if the lock was taken, it is given back. This is
// Redisson's tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, terms{lease: m.c.cfg.Lease, renewed: true})
}

// TryLockFor is TryLock with a lease of d that is not renewed, see LockFor.
func (m *Mutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, terms{lease: d})
}

// terms are what a caller asks for.
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
	return fmt.Errorf("lock: %q is held by the same owner as another sort of lock: use a name for one sort", name)
}

// acquire is all four ways to take the lock.
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
// lock: nobody tells when that is released.
const foreignPoll = 250 * time.Millisecond

// enter begins an acquisition, if nothing forbids it; the caller calls end when
// it is through.
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
