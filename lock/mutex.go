package lock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

// Mutex is one re-entrant lock in Redis. All methods are safe for concurrent
// use. A Mutex is of one of these kinds:
//
//   - A plain lock in Redisson's RLock format, which is a hash {owner: count}
//     under the lock's name (Client.Mutex).
//   - A lock that serves its waiters in order over all processes
//     (Client.FairMutex).
//   - A lock with its own counter of tokens (Client.FencedMutex).
//   - The Reader or the Writer of a RWMutex.
//
// A Mutex is held by an owner, which takes the place of Java's thread and
// travels in the context. Lock makes a new owner unless its context carries
// one, as the contexts of Held.Context and WithOwner do. Calls with the same
// owner do not exclude each other. They re-enter.
type Mutex struct {
	c    *Client   // immutable
	name string    // immutable
	kind hold.Kind // immutable
}

// Mutex returns the re-entrant lock of that name, Redisson's RLock. It does no
// I/O and keeps nothing, so it may be called for every use. If the name is bad,
// the first call that uses it returns an error. A bad name is empty, is longer
// than 64 KiB with Config.KeyPrefix, or is the key of another lock or of a
// counter of tokens. Only a name that has a brace or ends in wheellock_token can
// be such a key.
func (c *Client) Mutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name)}
}

// Name returns the lock's key in Redis: Config.KeyPrefix and the name.
func (m *Mutex) Name() string { return m.name }

// Lock takes the lock and keeps it renewed until Unlock. While another owner
// holds the lock, Lock waits. ctx limits only the waiting. Its end has no effect
// on a lock that was taken. This is Redisson's lock().
//
// A release wakes the waiter. If pub/sub fails or is not permitted, the waiter
// is delayed by at most Config.MaxPoll.
//
// If ctx ends first, the error is ctx.Err() (errors.Is). The error is also
// ErrNotAcquired if the last try that had ended by then found another owner,
// ErrUnknown if that try was not answered, or ErrNotSent if no try was sent because
// there was no connection to Redis. If a try is still under way and a late answer
// brings the lock, the client releases it again. If the deadline of ctx has already passed, Lock still makes one try,
// which takes at most Config.IOTimeout, unless others of this client wait. So
// Lock with a deadline of now takes a free lock, like Redisson's tryLock(0). With
// a cancelled ctx, Lock makes no try.
//
// After an unknown outcome, or without a connection, Lock tries again unless
// Config.FailFast is set.
// ErrClosed: the client is closing. An error that Redis answers, such as NOPERM
// or WRONGTYPE, is returned at once.
func (m *Mutex) Lock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, hold.Terms{Renewed: true, Wait: true})
}

// LockFor is Lock with a lease of d that is not renewed. After d the lock is
// lost (reason Expired) unless it was unlocked. d is whole milliseconds from
// 100 ms to 30 days. This is Redisson's lock(leaseTime).
//
// No renewal asks Redis whether the lock is still there. If another client's
// ForceUnlock, or DEL, deletes the key, the holder is told by the next Extend,
// Guard, re-entry or Unlock of this hold, within MaxPoll while others of this
// client wait for a Mutex, or else when d is over. Until then Held.Valid is true,
// although another owner may have the lock. If that matters, use Lock, or let
// the resource check Held.Token.
func (m *Mutex) LockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, hold.Terms{Lease: d, Wait: true})
}

// TryLock takes the lock and keeps it renewed if no other owner holds it.
// Otherwise it returns a *HeldError at once, which is ErrNotAcquired. If a
// Redisson client waits for the lock and this client has just released it, the
// try comes up to 5 ms later, so that Java can have its turn. ErrUnknown: Redis
// did not answer. If Redis took the lock, the client releases it again.
// ErrNotSent: there is no connection to Redis, or the last attempt to make one
// failed less than Config.IOTimeout/2 ago. A re-entry waits while another request
// of its hold is not answered. This wait and the re-entry's own request take
// Config.IOTimeout together at most. If nothing was sent by then, the error says
// so, and is neither of the two. This is Redisson's tryLock().
func (m *Mutex) TryLock(ctx context.Context) (*Held, error) {
	return m.acquire(ctx, hold.Terms{Renewed: true})
}

// TryLockFor is TryLock with a lease of d that is not renewed; see LockFor.
func (m *Mutex) TryLockFor(ctx context.Context, d time.Duration) (*Held, error) {
	return m.acquire(ctx, hold.Terms{Lease: d})
}

// acquire is the common part of all functions that take the lock.
func (m *Mutex) acquire(ctx context.Context, t hold.Terms) (*Held, error) {
	return m.c.take(ctx, hold.Wanted{Kind: m.kind, Name: m.name, Terms: t})
}

// FairMutex returns a Mutex that serves its waiters in the order in which they
// came, over all processes. It has the format of Redisson's RFairLock. Besides
// the lock's hash there are a list of the waiters, and a sorted set with the time
// until which each waiter may stay in the list. FairMutex does no I/O and keeps
// nothing. The first call that uses a bad name returns an error.
//
// A fair lock is slower than a plain Mutex under contention, because the client
// never hands it over in memory. A plain Mutex is fair enough for most uses.
//
// Each waiter has a place in Redis and gives a sign of life every 2 s, or every
// Config.MaxPoll if that is less. The waiters of one client give their signs
// together, up to 128 in a request. The sign says when the next one is due. If
// the first waiter is one of this package and gives no sign for three of its
// periods, the lock skips it. So a waiter that has died costs some seconds (P13). A
// live waiter whose process was paused for that long goes to the end of the
// queue. A waiter that stops waiting gives up its place at once. A queue whose
// waiters have all died ends by itself. TryLock takes the lock only if nobody
// waits. ForceUnlock keeps the queue, and the first waiter gets its turn.
//
// Waiters keep their places over a stall of Redis of up to four of their periods,
// 8 s by default, and over a cut of the network of up to three that cuts off all of
// them (P14). A waiter that alone is cut off counts as dead after three periods. After
// a longer stall or cut the queue may have expired, and waiters come into the order
// in which they ask again.
//
// Waiting costs Redis about 10 us for each sign of life: 3 % of a core with 5,000
// waiters, and 5 to 7 % with 10,000. After a stall of Redis of 1.5 s, 10,000
// waiters go on within half a second, or with the next sign of life if the message
// of a release is lost. More than 10,000 waiters of one lock were not tried. While
// a Redisson client waits for the same lock, each waiter also sends a request of
// its own, and some of these make Redis walk along the queue. So the limit is lower
// there: 10,000 waiters with such requests took 27 % of a core.
//
// The times in the queue are times of day by the server's clock. Java processes,
// and clients whose user has no right to TIME, use their own clocks. If such a
// clock is 8 s ahead, its process takes a live waiter for dead, and that waiter
// goes to the end of the queue. For a waiter of Redisson, this package waits as
// Redisson does, up to 300 s after the waiter's turn came. Redisson skips a
// waiter of this package that has given no sign for 10 s and an IOTimeout, as
// soon as Redisson looks. A Java waiter behind a dead waiter may sleep until the
// end of the lease that the holder had when the Java waiter last asked. The
// reason is that a release may wake only waiters ahead of it.
func (c *Client) FairMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: hold.Fair}
}

// FencedMutex returns a Mutex whose fencing tokens come from Redisson's
// counter, so holders in Go and in Java get tokens of one sequence. It has the
// format of RFencedLock. Besides the lock's hash there is a counter
// redisson_lock_token:{name}. The Lock of this Mutex is Redisson's
// lockAndGetToken(). FencedMutex does no I/O and keeps nothing. The first call
// that uses a bad name returns an error.
//
// The token rises by at least one at each acquisition and stays the same at a
// re-entry. A request that was sent twice leaves a gap. The counter has no TTL,
// because tokens must keep rising even if the lock is unused for a long time. If
// Redis loses its data, these tokens start again, unlike the tokens of a plain
// Mutex. ForceUnlock leaves the counter as it is.
func (c *Client) FencedMutex(name string) *Mutex {
	return &Mutex{c: c, name: c.key(name), kind: hold.Fenced}
}

// Token returns the token of the last acquisition of a FencedMutex by any
// process, or 0 if there was none. Other kinds have no counter of their own and
// return an error. Use Held.Token for them. This is Redisson's getToken.
func (m *Mutex) Token(ctx context.Context) (int64, error) {
	if err := m.c.checkName(m.name); err != nil {
		return 0, err
	}
	if m.kind != hold.Fenced {
		return 0, fmt.Errorf("lock: token of %q: only a lock of Client.FencedMutex has a counter of its own: use Held.Token for the token of a hold", m.name)
	}
	return m.c.readCount(ctx, "token", m.name, keys.FencedCounter(m.name))
}

// Do runs f while it holds the lock. It calls Lock, calls f, and calls Unlock,
// even if f panics. f gets the Held and a context that carries the owner and
// ends when the lock is lost. Do joins the errors of f and of Unlock. If the
// error is ErrLost, f may have run without the lock.
//
// If f works in steps, let it ask Held.Valid before each one. After a pause of
// the whole process, Valid is exact at once, but a context that was derived from
// f's context may not have ended yet; see Held.Context.
func (m *Mutex) Do(ctx context.Context, f func(ctx context.Context, held *Held) error) error {
	return do(ctx, m.name, m.Lock, f)
}

// do is Do of any lock. It refuses a context that has ended, because f could do nothing.
func do[H interface {
	Context(parent context.Context) context.Context
	Unlock(ctx context.Context) error
}](ctx context.Context, name string, lock func(context.Context) (H, error), f func(context.Context, H) error) (err error) {
	if wait.Ended(ctx) != nil {
		return newWaitError(ctx, name, nil)
	}
	held, err := lock(ctx)
	if err != nil {
		return err
	}
	defer func() { err = andUnlock(err, held.Unlock(ctx)) }()
	return f(held.Context(ctx), held)
}

// andUnlock joins the error of the function of a Do with the error of Unlock. If both report the same
// loss and Unlock reports nothing else, as when the function returns the cause of its context, andUnlock
// returns only the first.
func andUnlock(err, unlock error) error {
	var told *LostError
	if lost := onlyLoss(unlock); unlock == nil || lost != nil && errors.As(err, &told) && told.Name == lost.Name {
		return err
	}
	return errors.Join(err, unlock)
}

// onlyLoss returns the loss that an Unlock reports, or nil if it reports none, or more than one loss.
func onlyLoss(unlock error) *LostError {
	if e, ok := unlock.(*multiUnlockError); ok && len(e.lost) == 1 && len(e.open) == 0 {
		unlock = e.lost[0]
	}
	lost, _ := unlock.(*LostError)
	return lost
}
