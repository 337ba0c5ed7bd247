package hold

import (
	"context"
	"time"
	"unsafe"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/renewal"
)

// FieldOf is the hash field of a hold.
var FieldOf = fieldOf

// Sizes are the bytes of a hold, and of one in a run.
func Sizes() (alone, inRun uintptr) { return unsafe.Sizeof(Hold{}), unsafe.Sizeof(runHold{}) }

// Callers returns how many owners with a call, and how many queues, the table of x's client has.
func Callers(x *Held) int {
	n := x.h.engine.Table.Counts()
	return n.Owners + n.Queues
}

// BeginLoss does the first steps of a loss of x's hold: the cause is set, but no Watch has ended yet.
func BeginLoss(x *Held) {
	h := x.h
	h.lease.Release()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setFlag(lost, true)
	h.endsLocked().lost = h.lostBecause(renewal.NotOwner, nil)
	h.takeWatchesLocked()
}

// BeginUnlock does the first step of an Unlock of x: x's Watch does not end with the hold any more. end
// does the next step and ends the Watch.
func BeginUnlock(x *Held) (end func()) {
	h := x.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlistLocked(x.watch)
	return func() { x.watch.End(h.engine.errors.NotHeld(h.name)) }
}

// NoteOpenUntil records that an earlier request of x's hold may be carried out until then.
func NoteOpenUntil(x *Held, until time.Time) { x.h.noteMayRunUntil(until) }

// EndLease ends the lease of x's hold, but calls no callback of the watchdog.
func EndLease(x *Held) { x.h.lease.Release() }

// Slept makes it look as if the machine was suspended for d while x was held, in a run.
func Slept(x *Held, d time.Duration) { x.h.run().wall -= int64(d) }

// BeginLastUnlock does the first step of the last Unlock of x: nobody can re-enter the hold any more.
func BeginLastUnlock(x *Held) { x.h.setFlag(leaving, true) }

// PassAfter does the steps of the last Unlock of x. It chooses the next holder, calls between, and
// hands the lock over in memory. It reports whether the hand-over succeeded.
func PassAfter(x *Held, between func()) (passed bool) {
	n := x.h.planHandOver()
	if n.token == 0 {
		panic("Redis is to be asked")
	}
	between()
	return x.h.engine.handOverInMemory(x.h, n)
}

// LoseWhilePassed does the steps of a hand-over in memory, and calls lose in the middle. Then the
// lease already belongs to the next hold, but the client's table does not have that hold yet.
func LoseWhilePassed(x *Held, lose func()) {
	h, k := x.h, x.h.engine
	n := h.planHandOver()
	if n.token == 0 {
		panic("only a script hands it over")
	}
	next, owner := n.attempt.newHold(h.run(), k.Seq(), n.token)
	next.first.begin(next, true)
	if !h.lease.Pass(&next.lease, owner) {
		panic("the lease does not go on")
	}
	lose()
	k.Table.Deliver(h, n.Next, next)
}

// AnsweredLate delivers the answer to a request of x's hold. The caller has left the request, but has
// not looked at its result yet.
func AnsweredLate(x *Held) {
	_ = x.h.enter(context.Background())
	x.h.answeredLate(pipe.Answer{Reply: resp.ReplyOf(int64(1)), Stamp: time.Now()})
}

// Lose ends x's hold as if its lease had ended for this reason.
func Lose(x *Held, why renewal.Reason) { x.h.Lost(why) }

// FreezeLosses keeps lost holds in the table of x's client until free is called.
func FreezeLosses(x *Held) (free func()) { return x.h.engine.FreezeLosses() }

// CloseEngine closes what x's client holds.
func CloseEngine(ctx context.Context, x *Held) (unanswered int) { return x.h.engine.Close(ctx) }

// TakeTurn makes it look as if another request of x's hold was not answered yet, until end is called.
func TakeTurn(x *Held) (end func()) {
	_ = x.h.enter(context.Background())
	return x.h.endTurn
}

// UnlockWithin is Unlock of x that ends with ctx.
func UnlockWithin(ctx context.Context, x *Held) error { return x.unlockWithin(ctx, nil) }
