package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/hold"
)

// Held is one successful Lock or TryLock. A re-entry has a Held of its own.
// Each Held needs one Unlock. All methods are safe for concurrent use.
//
// No two owners hold a lock at the same time, as long as Redis keeps the key. A
// hold is trusted until shortly before Redis lets its key expire. At that
// moment Done is closed and the contexts of Context end.
//
// The client cannot stop what a holder does after the holder was told, or while
// the holder's process is paused. Only the protected resource can, by checking
// Token. Redis can lose the key: in a failover to a replica that did not have
// it, by eviction, by DEL, or if a clock is set forward. Then another owner may
// have the lock at once, and the holder is told at its next renewal. A hold of
// LockFor has no renewals; see Mutex.LockFor.
type Held hold.Held

// in returns x as package hold has it. It panics if no Lock has returned this very Held.
func (x *Held) in() *hold.Held { return (*hold.Held)(x).Used() }

// Name returns the lock's key in Redis, which begins with Config.KeyPrefix.
func (x *Held) Name() string { return x.in().Name() }

// Token returns the fencing token of the hold, a number that rises from one
// holder of the lock to the next (P7). A resource that remembers the highest token
// it has seen can refuse a holder that was paused beyond its lease. Re-entries
// have the same token.
//
// While Redis keeps its data, tokens depend on no clock. If Redis loses its
// data, tokens continue from the server's clock (P8). So tokens also rise after
// FLUSHALL, a restart without data, or a failover. There are two exceptions: the
// clock was set back, or the new master's clock is behind the old master's clock
// by more than the time between the two acquisitions. If a request has no time
// limit (see Client), this client's clock may be used.
func (x *Held) Token() int64 { return x.in().Token() }

// Permits returns the ids of a PermitSemaphore's permits. An id has 32
// hexadecimal digits, as in Redisson. Any process that knows an id may release
// the permit, by PermitSemaphore.Release or in Redisson. Permits returns nil for
// the Held of a lock.
func (x *Held) Permits() []string { return x.in().Permits() }

// Count returns how many Helds share this hold now, including this one.
func (x *Held) Count() int { return x.in().Count() }

// Valid reports whether the lock is held now. It returns false if the Held was
// unlocked, if the lock was lost, and if the clock has passed Deadline. Valid
// does no I/O and is exact whatever the network does: when it returns true, the
// server has not let the key expire. While Client.Close waits, Valid stays true,
// although Done is closed.
func (x *Held) Valid() bool { return x.in().Valid() }

// Deadline returns the end of trust as it is now. Every confirmed renewal moves
// it later. If renewals fail, the lock is lost at this time, before the key
// expires in Redis.
func (x *Held) Deadline() time.Time { return x.in().Deadline() }

// Done returns a channel that is closed when the lock is lost, when Unlock of
// this Held is called, or when the client begins to close. Err tells which. Done
// looks at the clock as Err does. To watch very many locks without a goroutine
// for each, use Hooks.Lost.
func (x *Held) Done() <-chan struct{} { return x.in().Done() }

// Err returns nil while the lock is held, a *LostError when the lock is lost or
// the client is closing, and ErrNotHeld after Unlock. Err looks at the clock. If
// trust has ended, the lock is lost with this call at the latest, however late
// the client's goroutines are. Whenever Err is not nil, Done is closed.
func (x *Held) Err() error { return x.in().Err() }

// Context returns a context that is derived from parent and carries the owner.
// A Lock with this context re-enters. The context ends when parent ends, when
// Unlock of this Held is called, and when the lock is lost. In the last two
// cases context.Cause is ErrNotHeld or a *LostError. Context may be called
// often, because the hold keeps one record for all parents that end together,
// and not one per call.
//
// The Err and Done of the returned context look at the clock as Held.Err does.
// A context that is derived from it (context.WithTimeout, errgroup) does not
// look at the clock. Such a context ends when somebody asks the Held or the
// returned context, or when the client's timer reaches the lock. After a pause
// of the whole process (SIGSTOP, a VM) that may be a moment later. So ask Valid
// before each piece of work.
func (x *Held) Context(parent context.Context) context.Context { return x.in().Context(parent) }

// Unlock gives this Held back. The last Unlock of a hold releases the lock and
// wakes a waiter (P10). Done and the contexts of this Held end first. Unlock works
// with a cancelled ctx, because ctx only carries values.
//
//   - nil: the lock is released. If other Helds share the hold, only this Held
//     is given back. A Mutex may pass to another caller of this client without
//     a request to Redis; then nil says that Redis confirmed the hold at most
//     100 ms ago.
//   - ErrNotHeld: this Held was unlocked before.
//   - ErrLost: the lock had been lost (P9). If the hold's field is still in Redis,
//     Unlock removes it, unless Close has ended: then the field stays until its
//     TTL has passed.
//   - ErrUnknown: Redis did not answer this request within
//     Config.UnlockTimeout, or did not answer an earlier request of the same
//     hold, for which Unlock waits. This Held counts as given back all the same.
//     If it is the last one of the hold, the lock is not renewed any more, and
//     the client keeps trying to release it until its TTL has passed. Unlock may
//     be called again.
func (x *Held) Unlock(ctx context.Context) error { return x.in().Unlock(ctx) }

// Extend makes the lock last for at least d from now: whole milliseconds from
// 100 ms to 30 days. It never shortens the lease. Use Extend for holds of
// LockFor; the client renews holds of Lock anyway. Extend repeats its request
// after an unknown outcome until ctx or the hold ends. *LostError: the lock is
// lost. ErrNotHeld: this Held was unlocked. If ctx has ended before, or ends
// while Extend waits for the answer to another request of this hold, nothing was
// sent, and the error is ctx.Err() and not ErrUnknown. While Extend runs, other
// calls wait for it that need a request of this hold: Guard and Lock until their
// contexts end, TryLock for Config.IOTimeout at most, and Unlock for
// Config.UnlockTimeout at most. If the lock is renewed, and d from now is beyond
// the end of Config.MaxHold, Extend returns an error and changes nothing.
func (x *Held) Extend(ctx context.Context, d time.Duration) error { return x.in().Extend(ctx, d) }

// Guard runs one Redis command if this hold has the lock in Redis at that
// moment. The check and the command are one script. The command is cmd with
// keys and then args. In a Cluster, the keys and the lock must share a slot.
//
// Guard returns the command's answer as redigo does. An integer above 2^53 is
// rounded, because Lua does so. *LostError: the hold was gone and nothing was
// run. ErrUnknown: the command may have run, or may still run while Redis has
// the hold, even after an Unlock whose outcome is unknown. ErrNotSent: there was
// no connection, and nothing was run. An error of the command itself is returned
// as it is. While Close waits for the holders, Guard works as before.
//
// The requests of one hold are sent one after the other. The next request is
// sent when the last one was answered. After ErrUnknown, the next request is
// sent when the last one cannot run any more, which is about Config.IOTimeout
// later, if the server tells its time. If ctx ends during this wait, or has ended
// before, nothing was run, and the error is ctx.Err() and not ErrUnknown.
//
// The answer may have 16 MiB and about a million elements. If a larger answer
// comes over a connection that this library has dialled (see Open), the client
// closes the connection and returns ErrUnknown.
//
// Guard protects writes to the Redis that has the lock. For other resources use
// Token.
func (x *Held) Guard(ctx context.Context, cmd string, keys []string, args ...any) (any, error) {
	return x.in().Guard(ctx, cmd, keys, args...)
}
