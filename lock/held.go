package lock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/renewal"
)

// Held is one successful Lock or TryLock; a re-entry has a Held of its own. It
// is given back by one Unlock. All methods are safe for concurrent use.
//
// No two owners hold a lock at the same time, as long as Redis keeps the key. A hold
// is trusted until shortly before Redis would let its key expire (package renewal);
// at that moment Done and Context end.
//
// That cannot protect what a holder does after it was told, or while its process
// stands still. Only the resource can, by checking Token. If Redis loses the key (a
// failover to a replica that did not have it, eviction, DEL, a clock that is set
// forward), another may have the lock at once; the holder is told at its next
// renewal.
type Held struct {
	h       *hold // immutable
	renewed bool  // it came from Lock, not LockFor, and wants renewal still; guarded by h.mu

	state atomic.Uint32
	watch *watch // made by the first Done or Context; guarded by h.mu
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

// Token returns the fencing token of the hold. It rises from one holder of the
// lock to the next. A resource that remembers the highest token it has seen can
// refuse a holder that was paused past its lease. Re-entries share it.
//
// While Redis keeps its data, no clock plays a part. If it loses them, tokens go
// on from the server's clock: they rise over FLUSHALL, an empty restart and a
// failover, unless that clock was set back, or the new master's is behind the old
// one's by more than the time between the two acquisitions. Where the user may
// not ask for TIME, this client's clock takes its place.
func (x *Held) Token() int64 { return x.h.token }

// Count returns how many Helds share this hold now, this one included.
func (x *Held) Count() int {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return int(x.h.count)
}

// Valid reports whether the lock is held now: not unlocked, not lost, and
// trusted by the clock. It is exact whatever the network does: when it is
// true, the server has not let the key expire. While Client.Close waits it stays
// true, although Done is closed.
func (x *Held) Valid() bool { return x.state.Load() == isHeld && x.h.lease.Valid() }

// Deadline returns the end of trust as it stands now. The watchdog moves it
// later; if it cannot, the lock is lost at this time, before the server's own
// expiry.
func (x *Held) Deadline() time.Time { return x.h.lease.Deadline() }

// Done returns a channel that is closed when the lock is lost, when Unlock of
// this Held is called, or when the client begins to close. Err says which. For
// very many locks there is Hooks.Lost, so that none needs a goroutine.
func (x *Held) Done() <-chan struct{} { return x.watched().done }

// Err returns nil while the lock is held, a *LostError when it is lost or the
// client is closing, and ErrNotHeld after Unlock.
func (x *Held) Err() error {
	x.h.mu.Lock()
	defer x.h.mu.Unlock()
	return x.errLocked()
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

// Context returns a context derived from parent that carries the owner, so
// that Lock with it re-enters. It ends with parent, when Unlock of this Held is
// called, and when the lock is lost; context.Cause then is a *LostError. It may
// be called as often as is useful: the hold keeps one thing for all parents that
// end together, not one for each call.
func (x *Held) Context(parent context.Context) context.Context {
	o := x.h.owner
	if x.h.kind == permitKind {
		o = owner{}
	}
	return x.watched().context(parent, o)
}

// Unlock gives this Held back; the last one of a hold releases the lock and
// wakes a waiter. The Held's Done and contexts end first. It works under a
// cancelled ctx: ctx only carries values.
//
// nil means released; of one that was not the last, given back, whatever becomes of
// the others. A Mutex that is handed to another caller of this client may be handed
// on without Redis: then nil says that Redis knew the hold at most 100 ms ago.
// ErrNotHeld: this Held was unlocked before. ErrLost: the
// lock had been lost; the field is removed from Redis if it is still there.
// ErrUnknown: Redis did not answer within Config.UnlockTimeout, this request or
// another one of the same hold, which Unlock waits for. The Held is off the count
// all the same, and the lock is not renewed any more if this was the last one.
// Unlock may be called again, and the client goes on trying to release the lock
// until its TTL is over.
func (x *Held) Unlock(ctx context.Context) error {
	owed := x.state.CompareAndSwap(isOwed, isUnlocking)
	if !owed && !x.state.CompareAndSwap(isHeld, isUnlocking) {
		return notHeldError(x.h.name)
	}
	ctx = x.h.shard.c.patience.bound(ctx)
	x.h.shard.begin(false)
	defer x.h.shard.end()
	next, err := x.unlock(ctx, owed)
	x.state.Store(next)
	if errors.Is(err, ErrUnknown) {
		x.h.shard.c.counts.unreleased.Add(1)
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
	if err := pause(ctx, nil, h.openFor()); err != nil {
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
		return isUnlocked, a, h.lostByLease(renewal.NotOwner)
	}
	return isUnlocked, a, nil
}

// unlockLast is the rest of unlock for the last one of a hold. busy says why no
// script of the hold may be sent, nil that one may. again: an earlier call has
// ended unknown.
func (x *Held) unlockLast(ctx context.Context, again bool, busy error) (uint32, error) {
	h := x.h
	c := h.shard.c
	var n succession
	if !again && busy == nil {
		if n = c.tables.leaving(h); n.token > 0 && c.pass(h, n) {
			return isUnlocked, x.released(ctx)
		}
	}
	if !again && !h.lease.Release() { // its trust ended just now
		h.orphan()
		return isUnlocked, x.given(h.lostByLease(renewal.TrustEnded))
	}
	var r returned
	err := busy
	if busy == nil {
		r, err = c.handOverOrRelease(ctx, h, n)
	} else {
		c.tables.forget(h)
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
