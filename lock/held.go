package lock

import (
	"context"
	"time"

	"github.com/wheellock/wheellock/lock/internal/hold"
)

// Held is one successful Lock or TryLock. A re-entry has a Held of its own.
// Each Held is given back by one Unlock. All methods are safe for concurrent
// use.
//
// No two owners hold a lock at the same time, as long as Redis keeps the key. A
// hold is trusted until shortly before Redis lets its key expire. At that
// moment Done is closed and the contexts of Context end.
//
// This cannot stop what a holder does after it was told, or while its process
// is paused. Only the protected resource can, by checking Token. If Redis loses
// the key (a failover to a replica that did not have it, eviction, DEL, a clock
// that is set forward), another owner may have the lock at once; the holder is
// told at its next renewal.
type Held hold.Held

// in is x for this package. It panics if Lock has not returned this very Held.
func (x *Held) in() *hold.Held { return (*hold.Held)(x).Used() }

// Name returns the lock's key in Redis.
func (x *Held) Name() string { return x.in().Name() }

// Token returns the fencing token of the hold, a number that rises from one
// holder of the lock to the next. A resource that remembers the highest token
// it has seen can refuse a holder that was paused beyond its lease. Re-entries
// have the same token.
//
// While Redis keeps its data, no clock matters. If Redis loses them, tokens
// continue from the server's clock. So they rise over FLUSHALL, a restart
// without data and a failover, unless that clock was set back, or the new
// master's clock is behind the old one's by more than the time between the two
// acquisitions. If the user has no right to TIME, this client's clock is used.
func (x *Held) Token() int64 { return x.in().Token() }

// Permits returns the ids of a PermitSemaphore's permits as Redisson returns
// them: 32 hexadecimal digits each. Any process that knows them may release the
// permits, by PermitSemaphore.Release or in Redisson. It is nil for the Held of
// a lock.
func (x *Held) Permits() []string { return x.in().Permits() }

// Count returns how many Helds share this hold now, including this one.
func (x *Held) Count() int { return x.in().Count() }

// Valid reports whether the lock is held now: it is not unlocked, not lost, and
// trusted by the clock. It asks nobody and is exact whatever the network does:
// when it returns true, the server has not let the key expire. While
// Client.Close waits it stays true, although Done is closed.
func (x *Held) Valid() bool { return x.in().Valid() }

// Deadline returns the end of trust as it is now. Every renewal moves it later.
// If renewal fails, the lock is lost at this time, before the key expires in
// Redis.
func (x *Held) Deadline() time.Time { return x.in().Deadline() }

// Done returns a channel that is closed when the lock is lost, when Unlock of
// this Held is called, or when the client begins to close. Err tells which. Done
// looks at the clock as Err does. To watch very many locks use Hooks.Lost, so
// that they need no goroutines.
func (x *Held) Done() <-chan struct{} { return x.in().Done() }

// Err returns nil while the lock is held, a *LostError when it is lost or the
// client is closing, and ErrNotHeld after Unlock. Err looks at the clock: if the
// trust has ended, the lock is lost with this call at the latest, however late
// the client's goroutines are. Whenever Err is not nil, Done is closed.
func (x *Held) Err() error { return x.in().Err() }

// Context returns a context derived from parent that carries the owner, so Lock
// with it re-enters. It ends when parent ends, when Unlock of this Held is
// called, and when the lock is lost; context.Cause is then a *LostError. It may
// be called often: the hold keeps one record for all parents that end together,
// not one per call.
//
// The Err and Done of the returned context look at the clock as Held.Err does.
// A context that is derived from it (context.WithTimeout, errgroup) does not: it
// ends when somebody asks the Held or this context, or when the client's timer
// comes to the lock. After a pause of the whole process (SIGSTOP, a VM) that may
// be a moment later. So ask Valid before each piece of work.
func (x *Held) Context(parent context.Context) context.Context { return x.in().Context(parent) }

// Unlock gives this Held back. The last Unlock of a hold releases the lock and
// wakes a waiter. Done and the contexts of this Held end first. It works under
// a cancelled ctx: ctx only carries values.
//
//   - nil: the lock is released, or, if other Helds share the hold, this Held
//     is given back. A Mutex may be handed to another caller of this client
//     without asking Redis; then nil says that Redis confirmed the hold at most
//     100 ms ago.
//   - ErrNotHeld: this Held was unlocked before.
//   - ErrLost: the lock had been lost. If its field is still in Redis, it is
//     removed.
//   - ErrUnknown: Redis did not answer within Config.UnlockTimeout, to this
//     request or to an earlier one of the same hold, for which Unlock waits.
//     This Held counts as given back all the same, and after the last one the
//     lock is not renewed any more. The client goes on trying to release the
//     lock until its TTL has passed. Unlock may be called again.
func (x *Held) Unlock(ctx context.Context) error { return x.in().Unlock(ctx) }

// Extend makes the lock last for at least d from now: whole milliseconds from
// 100 ms to 30 days. It never shortens the lease. It is for holds of LockFor;
// those of Lock are renewed anyway. An unknown outcome is tried again until ctx
// or the hold ends. *LostError: the lock is lost. ErrNotHeld: it was unlocked.
// If ctx ends while another request of this hold is not answered, nothing was
// sent, and the error is ctx.Err() and not ErrUnknown.
func (x *Held) Extend(ctx context.Context, d time.Duration) error { return x.in().Extend(ctx, d) }

// Guard runs one Redis command if this hold has the lock in Redis at that
// moment. The check and the command are one script: cmd with keys and then
// args. In a Cluster, the keys and the lock must share a slot.
//
// Guard returns the command's answer as redigo does; an integer above 2^53 is
// rounded, because Lua does so. *LostError: the hold was gone and nothing was
// run. ErrUnknown: the command may have run, or may run yet while Redis has the
// hold, so after an Unlock whose outcome is unknown, too. An error of the
// command itself is returned as it is.
//
// The calls with one hold are sent one after the other. The next one is sent
// when the last one was answered or, after ErrUnknown, when it cannot run any
// more (about Config.IOTimeout later, if the server tells its time). If ctx
// ends during this wait, nothing was run, and the error is ctx.Err() and not
// ErrUnknown.
//
// The answer may have 16 MiB and about a million elements. A larger one ends the connection,
// and is ErrUnknown, where the library dials itself (see Open).
//
// Guard protects writes to the Redis that has the lock. For other resources use
// Token.
func (x *Held) Guard(ctx context.Context, cmd string, keys []string, args ...any) (any, error) {
	return x.in().Guard(ctx, cmd, keys, args...)
}
