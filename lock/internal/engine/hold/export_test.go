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

// Callers is how many owners' calls, and queues, the client of x has in mind.
func Callers(x *Held) int {
	n := x.h.k.Table.Counts()
	return n.Owners + n.Queues
}

// BeginLoss loses x's hold, by a goroutine that comes no further than to say why.
func BeginLoss(x *Held) {
	h := x.h
	h.lease.Release()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.setFlag(lost, true)
	h.endsLocked().lost = h.lostBecause(renewal.NotOwner, nil)
	h.takeWatchesLocked()
}

// BeginUnlock plays an Unlock of x that comes no further than to say that x's watch does not end
// with the hold. end is the next step.
func BeginUnlock(x *Held) (end func()) {
	h := x.h
	h.mu.Lock()
	defer h.mu.Unlock()
	h.unlistLocked(x.watch)
	return func() { x.watch.End(h.k.errors.NotHeld(h.name)) }
}

// EndLease ends the lease of x's hold, as a watchdog that has told nobody yet.
func EndLease(x *Held) { x.h.lease.Release() }

// Slept plays that the machine was suspended for d while x was held, in a run.
func Slept(x *Held, d time.Duration) { x.h.run().wall -= int64(d) }

// PassAfter plays the last Unlock of x, which has looked who comes next before between
// runs and hands the lock over in memory after that. It reports whether it did.
func PassAfter(x *Held, between func()) (passed bool) {
	n := x.h.succession()
	if n.token == 0 {
		panic("Redis is to be asked")
	}
	between()
	return x.h.k.pass(x.h, n)
}

// LoseWhilePassed plays the steps of a hand-over in memory between which the lease is
// lost: it is the next holder's already, whose hold the client's tables do not have yet.
func LoseWhilePassed(x *Held, lose func()) {
	h, k := x.h, x.h.k
	n := h.succession()
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

// AnsweredLate is the answer to a request of x's hold that comes before its caller,
// which has left it, has noted that.
func AnsweredLate(x *Held) {
	_ = x.h.enter(context.Background())
	x.h.answeredLate(pipe.Answer{Reply: resp.ReplyOf(int64(1)), Stamp: time.Now()})
}
