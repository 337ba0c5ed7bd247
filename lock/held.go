package lock

import (
	"context"
	"errors"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wait"
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
type Held struct {
	h       *hold // immutable
	renewed bool  // it came from Lock, not LockFor, and wants renewal still; guarded by h.mu

	state atomic.Uint32
	watch *heldWatch // made by the first Done or Context; guarded by h.mu
}

// states of a Held
const (
	isHeld      uint32 = iota // to isUnlocking in Unlock
	isUnlocking               // to isUnlocked on a definite answer; on an unknown one to isHeld of a hold that is leaving, else to isOwed
	isUnlocked                // terminal
	isOwed                    // off the count, which Redis may not know; to isUnlocking in Unlock
)

// Name returns the lock's key in Redis.
func (x *Held) Name() string { return x.h.name }

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
func (x *Held) Token() int64 { return x.h.token }

// Permits returns the ids of a PermitSemaphore's permits as Redisson returns
// them: 32 hexadecimal digits each. Any process that knows them may release the
// permits, by PermitSemaphore.Release or in Redisson. It is nil for the Held of
// a lock.
func (x *Held) Permits() []string {
	if x.h.kind != permitKind {
		return nil
	}
	return x.h.permits().hex()
}

// Count returns how many Helds share this hold now, including this one.
func (x *Held) Count() int {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return int(x.h.count)
}

// Valid reports whether the lock is held now: it is not unlocked, not lost, and
// trusted by the clock. It asks nobody and is exact whatever the network does:
// when it returns true, the server has not let the key expire. While
// Client.Close waits it stays true, although Done is closed.
func (x *Held) Valid() bool { return x.state.Load() == isHeld && x.h.lease.Valid() }

// Deadline returns the end of trust as it is now. Every renewal moves it later.
// If renewal fails, the lock is lost at this time, before the key expires in
// Redis.
func (x *Held) Deadline() time.Time { return x.h.lease.Deadline() }

// Done returns a channel that is closed when the lock is lost, when Unlock of
// this Held is called, or when the client begins to close. Err tells which. Done
// looks at the clock as Err does. To watch very many locks use Hooks.Lost, so
// that they need no goroutines.
func (x *Held) Done() <-chan struct{} { return x.watched().Done() }

// Err returns nil while the lock is held, a *LostError when it is lost or the
// client is closing, and ErrNotHeld after Unlock. Err looks at the clock: if the
// trust has ended, the lock is lost with this call at the latest, however late
// the client's goroutines are. Whenever Err is not nil, Done is closed.
func (x *Held) Err() error {
	_ = x.h.Look()
	x.h.mu.Lock()
	err, w := x.errLocked(), x.watch
	x.h.mu.Unlock()
	if err != nil && w != nil {
		w.End(causeOf(err))
	}
	return err
}

func (x *Held) errLocked() error {
	switch {
	case x.state.Load() != isHeld:
		return notHeldError(x.h.name)
	case x.h.why != 0:
		return x.h.lostErrorLocked()
	case x.h.closing:
		return x.h.lostToClose()
	case x.h.is(leaving):
		return notHeldError(x.h.name) // its Unlock went unanswered
	}
	return nil
}

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
func (x *Held) Context(parent context.Context) context.Context {
	return x.watched().Context(parent)
}

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
func (x *Held) Unlock(ctx context.Context) error {
	owed := x.state.CompareAndSwap(isOwed, isUnlocking)
	if !owed && !x.state.CompareAndSwap(isHeld, isUnlocking) {
		return notHeldError(x.h.name)
	}
	ctx = x.h.c.unlocks.Bound(ctx)
	x.h.c.table.Begin(x.h.name, false)
	defer x.h.c.table.End(x.h.name)
	next, err := x.unlock(ctx, owed)
	x.state.Store(next)
	if errors.Is(err, ErrUnknown) {
		x.h.c.counts.unreleased.Add(1)
	}
	return err
}

// unlock returns the state that x is in then. It waits for the hold's turn, but
// x does not depend on it: if another request of the hold takes longer than ctx
// lasts, x is off the count all the same, and of the last one the client
// releases the field. What that request does when it arrives goes with the field.
func (x *Held) unlock(ctx context.Context, owed bool) (uint32, error) {
	h := x.h
	if !owed {
		x.end() // whoever works under its context stops before another can begin
	}
	busy := h.enterRelease(ctx)
	var last pipe.Answer
	if busy == nil {
		defer func() { h.leave(last) }()
	} else {
		busy = busyRelease(h.name, busy)
	}
	h.mu.Lock()
	cause, again := h.lostErrorLocked(), false
	if !owed {
		if cause != nil || h.count > 1 {
			h.count--
		} else {
			again = h.set(leaving, true)
		}
	}
	remaining, left := int(h.count), h.is(leaving)
	h.mu.Unlock()
	if !owed && (!left || cause != nil) {
		x.rest()
	}
	switch {
	case cause != nil:
		if !owed {
			h.orphan()
		}
		return isUnlocked, cause
	case owed && left:
		return isUnlocked, nil // who gives the rest back has given this back too
	case left:
		return x.unlockLast(ctx, again, busy)
	case busy != nil:
		return isOwed, busy
	}
	// It is off the count whatever Redis answers: scripts set the count, so the
	// next one of this hold makes it right.
	var next uint32
	var err error
	next, last, err = x.unlockOne(ctx, remaining)
	return next, err
}

func busyRelease(name string, err error) error {
	return &UnknownError{Op: "release", Name: name, Err: &busyError{err}}
}

// given takes the last one of a hold off the count.
func (x *Held) given(err error) error {
	x.h.mu.Lock()
	x.h.count--
	x.h.mu.Unlock()
	x.rest()
	return err
}

func (x *Held) unlockOne(ctx context.Context, remaining int) (next uint32, last pipe.Answer, err error) {
	h := x.h
	// An open request may set another count, so this one waits. The turn is its own
	// meanwhile; a release of the whole hold would have to wait for no more than that.
	if err := wait.Pause(ctx, nil, h.openFor()); err != nil {
		return isOwed, pipe.Answer{}, busyRelease(h.name, err)
	}
	// The remaining holds keep what they have: no script lowers a TTL, so asking for
	// the least lease is enough.
	cmd := h.kind.rules().reenter(h, int32(remaining), MinLease)
	a, _, err := h.resend(ctx, "release", func() pipe.Answer { return h.send(ctx, cmd) })
	n, ok := a.Reply.(int64)
	switch {
	case err != nil:
		return isOwed, a, err
	case !ok:
		return isOwed, a, badReply("release", h.name, a.Reply)
	case n == 0 && !h.is(leaving):
		return isUnlocked, a, h.lostByLease(NotOwner)
	}
	return isUnlocked, a, nil
}

// unlockLast is the rest of unlock for the last one of a hold. busy says why no
// script of the hold may be sent, nil that one may. again: an earlier call has
// ended unknown.
func (x *Held) unlockLast(ctx context.Context, again bool, busy error) (uint32, error) {
	h := x.h
	c := h.c
	var n succession
	if !again && busy == nil {
		if n = h.succession(); n.token > 0 && c.pass(h, n) {
			return isUnlocked, x.released(ctx)
		}
	}
	if !again && !h.lease.Release() { // its trust ended just now
		h.orphan()
		return isUnlocked, x.given(h.lostByLease(TrustEnded))
	}
	var r returned
	err := busy
	if busy == nil {
		r, err = c.handOverOrRelease(ctx, h, n)
	} else {
		c.table.Forget(h)
	}
	switch {
	case err != nil:
		if !again {
			h.orphan()
			h.tellReleased(ctx, err)
		}
		return isHeld, err
	case r.gone && !again && !r.resent, r.gone && !time.Now().Before(h.lease.Deadline()):
		// The field was not there and no request of ours can have removed
		// it, or so late that its TTL may have.
		lost := &LostError{Name: h.name, Reason: NotOwner, Token: h.token}
		h.lose(lost)
		return isUnlocked, x.given(lost)
	}
	return isUnlocked, x.released(ctx)
}

// released is given of the last one of a hold that ended as it should.
func (x *Held) released(ctx context.Context) error {
	x.h.tellReleased(ctx, nil)
	return x.given(nil)
}

// notice makes the client notice if x is forgotten: if the collector finds that
// nobody has it any more, and it was not unlocked.
func (x *Held) notice() {
	runtime.AddCleanup(x, forgotten, forgettable{x.watched(), x.renewed})
}

// forgettable is what is left of a Held that was collected.
type forgettable struct {
	watch   *heldWatch
	renewed bool
}

// forgotten ends the renewal that a Held asked for. Its lock is lost when the
// lease ends: only time tells that nothing works under it any more.
func forgotten(x forgettable) {
	h := x.watch.hold
	h.mu.Lock()
	drop := x.renewed && !x.watch.rested && h.why == 0 && !h.is(leaving)
	if drop {
		x.watch.rested = true
		h.renewing--
	}
	h.mu.Unlock()
	if !drop {
		return
	}
	h.c.cfg.Logger.Warn("lock: a Held was dropped without Unlock; its lock is not renewed any more: unlock every Held", "name", h.name)
	h.settle()
}
