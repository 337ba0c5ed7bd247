package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/hold"
	"github.com/wheellock/wheellock/lock/internal/keys"
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
	c    *Client   // immutable
	name string    // immutable
	kind hold.Kind // immutable
}

// Mutex returns the re-entrant lock of that name, Redisson's RLock. It does no
// I/O and keeps nothing, so it may be called for every use. The first call that
// uses a bad name returns an error: an empty name, one of more than 64 KiB with
// Config.KeyPrefix, or one that is a key of another lock or a counter of
// tokens. Only a name with a brace, or one that ends in wheellock_token, can be
// that.
func (c *Client) Mutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name)}
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
	return face(m.acquire(ctx, hold.Terms{Lease: m.c.cfg.Lease, Renewed: true, Wait: true}))
}

// LockFor is Lock with a lease of d that is not renewed. After d the lock is
// lost (reason Expired) unless it was unlocked. d is whole milliseconds from
// 100 ms to 30 days. This is Redisson's lock(leaseTime).
func (m *Mutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return face(m.acquire(ctx, hold.Terms{Lease: d, Wait: true}))
}

// TryLock takes the lock and keeps it renewed if no other owner holds it.
// Otherwise it returns a *HeldError at once, which is ErrNotAcquired. Where a
// Redisson client waits for the lock and this client has just released it, the
// try comes up to 5 ms later, so that Java can have its turn.
// ErrUnknown: Redis did not answer; a lock that was taken is released again.
// This is Redisson's tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	return face(m.acquire(ctx, hold.Terms{Lease: m.c.cfg.Lease, Renewed: true}))
}

// TryLockFor is TryLock with a lease of d that is not renewed, see LockFor.
func (m *Mutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return face(m.acquire(ctx, hold.Terms{Lease: d}))
}

// acquire is the common part of all four functions that take the lock.
func (m *Mutex) acquire(ctx context.Context, t hold.Terms) (*hold.Held, error) {
	began := m.c.table.Now()
	held, err := m.enter(ctx, t, began)
	return m.c.telling.ended(ctx, m.name, m.c.table.Now()-began, held, err)
}

// enter takes the lock by the rules of its kind.
func (m *Mutex) enter(ctx context.Context, t hold.Terms, began waitqueue.Instant) (*hold.Held, error) {
	if t.Wait && overdue(ctx) {
		t.Wait = false
		return once(ctx, m.c.cfg.IOTimeout, m.name, func(ctx context.Context) (*hold.Held, error) { return m.enter(ctx, t, began) })
	}
	c := m.c
	if err := c.admit(ctx, m.name, hold.CheckLease(m.name, t.Lease)); err != nil {
		return nil, err
	}
	defer c.table.End(m.name)
	o, err := c.ownerOf(ctx)
	if err != nil {
		return nil, err
	}
	return c.holds.Take(ctx, hold.Wanted{Kind: m.kind, Name: m.name, Owner: o, Shared: carriesOwner(ctx), Terms: t, Began: began})
}

// FairMutex returns a Mutex that serves its waiters in the order in which they
// came, over all processes. It has the format of Redisson's RFairLock: besides
// the lock's hash there are a list of the waiters and a sorted set of times
// until which each may stay in the list. FairMutex does no I/O and keeps
// nothing; the first call that uses a bad name returns an error.
//
// It is slower than a plain Mutex under contention, because it is never handed
// on inside a process. A plain Mutex is fair enough for most uses.
//
// Each waiter has a place in Redis and gives a sign of life every 2 s, or every
// Config.MaxPoll if that is less. The sign says when the next one is due. If
// the first waiter is one of this package and gives no sign for three of its
// periods, it is passed over. So a waiter that has died costs some seconds, and
// a live waiter whose process was paused for that long goes to the end. A
// waiter that leaves gives up its place at once. A queue whose waiters have all
// died ends by itself. TryLock takes the lock only if nobody waits. ForceUnlock
// leaves the queue, and its first waiter gets its turn.
//
// The times in the queue are times of day, by the server's clock. Java
// processes, and clients whose user has no right to TIME, use their own clocks.
// One that is 8 s ahead considers a live waiter dead, and that waiter goes to
// the end. A waiter of Redisson is waited for as Redisson does, for up to 300 s
// after its turn came. Redisson waits 10 s and an IOTimeout for a waiter of
// ours that gives no sign, once it looks. A Java waiter behind a dead one may
// sleep until the holder's lease ends as it was when the waiter last asked,
// because a release may wake only waiters ahead of it.
func (c *Client) FairMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: hold.Fair}
}

// FencedMutex returns a Mutex whose fencing tokens come from Redisson's
// counter, so holders in Go and in Java get tokens of one sequence. It has the
// format of RFencedLock: besides the lock's hash there is a counter
// redisson_lock_token:{name}. Its Lock is Redisson's lockAndGetToken().
// FencedMutex does no I/O and keeps nothing; the first call that uses a bad
// name returns an error.
//
// The token rises by at least one at each acquisition and stays the same at a
// re-entry. A request that was sent twice leaves a gap. The counter has no TTL,
// because tokens must go on rising even if the lock is unused for a long time.
// Unlike those of a plain Mutex, the tokens start again if Redis loses its
// data. ForceUnlock leaves the counter as it is.
func (c *Client) FencedMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: hold.Fenced}
}

// Token returns the token of the last acquisition of a FencedMutex, whoever
// made it, or 0 if there was none. Other kinds have no counter of their own and
// return an error; use Held.Token for them. This is Redisson's getToken.
func (m *Mutex) Token(ctx context.Context) (int64, error) {
	if err := m.c.checkName(m.name); err != nil {
		return 0, err
	}
	if m.kind != hold.Fenced {
		return 0, fmt.Errorf("lock: token of %q: only a lock of Client.FencedMutex has a counter of its own; the token of a hold is Held.Token", m.name)
	}
	n, err := m.c.readCount(ctx, "token", m.name, keys.FencedCounter(m.name))
	return n, err
}

// Do runs f while it holds the lock. It locks, calls f with the Held and with a
// context that carries the owner and ends when the lock is lost, and unlocks,
// also when f panics. It joins the errors of f and of Unlock. If the error is
// ErrLost, f may have run without the lock.
//
// If f works in steps, let it ask Held.Valid before each one: after a pause of
// the whole process, Valid is exact at once, and a context that was derived from
// f's context may not have ended yet, see Held.Context.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, held *Held) error) error {
	if err := checkDo(ctx, m.name); err != nil {
		return err
	}
	held, err := m.Lock(ctx)
	return do(ctx, held, err, f)
}

// do is Do once the lock is held, or could not be.
func do(ctx context.Context, held *Held, failed error, f func(context.Context, *Held) error) (err error) {
	if failed != nil {
		return failed
	}
	defer func() { err = andUnlock(err, held.Unlock(ctx)) }()
	return f(held.Context(ctx), held)
}

// andUnlock joins the error of the function of a Do with that of Unlock, unless both report the
// same loss: the function may return what has ended its context.
func andUnlock(err, unlock error) error {
	var told, lost *LostError
	if unlock == nil || errors.As(err, &told) && errors.As(unlock, &lost) && told.Name == lost.Name {
		return err
	}
	return errors.Join(err, unlock)
}

// checkDo refuses a Do whose function would find its context ended.
func checkDo(ctx context.Context, name string) error {
	if ctx.Err() != nil {
		return newWaitError(ctx, name, nil)
	}
	return nil
}
