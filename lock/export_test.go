package lock

import (
	"context"
	"slices"
	"time"
	"unsafe"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/internal/wait"
)

// Kept is how many things x keeps for the contexts that it gave out.
func (x *Held) Kept() int { return x.watched().Kept() }

// PassLimit is passLimit.
func PassLimit(n int, lease time.Duration, members int) time.Duration {
	return passLimit(wait.Random(nil), n, lease, members)
}

// Waiting is how many stand in the RedLock's line.
func (r *RedLock) Waiting() int { return r.line.Len() }

// GateLen is how many calls of its client wait.
func GateLen(m *Mutex) int { return m.c.table.Counts().Waiting }

// HoldTables makes whoever wants the client's table wait until free is called.
func HoldTables(c *Client) (free func()) { return c.table.Freeze() }

// PauseForgetting keeps lost holds in the client's tables until resume is called.
func PauseForgetting(c *Client) (resume func()) {
	c.lost.mu.Lock()
	defer c.lost.mu.Unlock()
	c.lost.running = true
	return func() { go c.lost.run() }
}

// PassAfter plays the last Unlock of held, which has looked who comes next before between
// runs and hands the lock over in memory after that. It reports whether it did.
func PassAfter(held *Held, between func()) (passed bool) {
	h, c := held.h, held.h.c
	n := h.succession()
	if n.token == 0 {
		panic("Redis is to be asked")
	}
	between()
	return c.pass(h, n)
}

// HoldSizes are the bytes of a hold, and of one in a run.
func HoldSizes() (hold_, inRun uintptr) { return unsafe.Sizeof(hold{}), unsafe.Sizeof(runHold{}) }

// Strangers is of how many names c knows of strangers.
func Strangers(c *Client) (n int) { return c.table.Counts().Strangers }

// Callers is how many owners' calls, and queues, the client has in mind.
func Callers(c *Client) int {
	n := c.table.Counts()
	return n.Owners + n.Queues
}

// MaxHoldEnd is when Config.MaxHold is over for what x has of a member.
func MaxHoldEnd(x *MultiHeld, member int) time.Time { return PartOf(x, member).h.lease.MaxHoldEnd() }

// PartOf is what x has of a member; it is another one once that was retaken.
func PartOf(x *MultiHeld, member int) *Held {
	for _, p := range x.present() {
		if p.Member == member {
			return p.Part.Held
		}
	}
	return nil
}

// RetakenFor is the lease that x would take a member again for; false if it would not.
func RetakenFor(x *MultiHeld, seat int) (time.Duration, bool) {
	t, ok := (&retake{x: x, lost: x.present()[seat]}).terms()
	return t.lease, ok
}

// BeginLoss loses x's hold, by a goroutine that comes no further than to say why.
func BeginLoss(x *Held) {
	h := x.h
	h.lease.Release()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.why, h.watching = NotOwner, nil
	h.set(lost, true)
}

// LoseOfOtherParts loses x if its parts are what a copy of them is, and reports whether it did.
func LoseOfOtherParts(x *MultiHeld) bool {
	return x.loseIf(slices.Clone(x.present()), x.parts[0].Part.h.lostToClose())
}

// NoTimer stops what tells x at its deadline, as a process does that is stopped.
func NoTimer(x *MultiHeld) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.timer != nil {
		x.timer.Stop()
	}
}

// AdmittedUntold reports whether a member that x had until now would be admitted
// if x had not been told yet of what has ended.
func AdmittedUntold(x *MultiHeld, got *Held) bool {
	untold := &MultiHeld{from: x.from, need: x.need, parts: x.present()}
	untold.watch.Init((*multiSubject)(untold))
	return untold.admit(0, part{Part: seated{got}})
}

// RetakesUntold reports whether a member of which x had the part until now would be asked
// again after such a loss, if x had not been told yet of what has ended.
func RetakesUntold(x *MultiHeld, why Reason) bool {
	untold := &MultiHeld{from: x.from, parts: x.present()}
	untold.retakeLocked(0, why)
	defer untold.endRetakesLocked()
	return len(untold.retakes) == 1
}

// AnsweredLate is the answer to a request of x's hold that comes before its caller,
// which has left it, has noted that.
func AnsweredLate(x *Held) {
	_ = x.h.enterRelease(context.Background())
	x.h.answeredLate(pipe.Answer{Reply: int64(1), Stamp: time.Now()})
}

// LoseWhilePassed plays the steps of a hand-over in memory between which the lease is
// lost: it is the next holder's already, whose hold the client's tables do not have yet.
func LoseWhilePassed(held *Held, lose func()) {
	h, c := held.h, held.h.c
	n := h.succession()
	if n.token == 0 {
		panic("only a script hands it over")
	}
	next, owner := n.attempt.newHold(h.run(), c.seqs.Add(1), n.token)
	next.first.h, next.first.renewed = next, true
	if !h.lease.Pass(&next.lease, owner) {
		panic("the lease does not go on")
	}
	lose()
	c.table.Deliver(h, n.Next, next)
}

// TableLocked reports whether a mutex is held of the tables of these clients, or of a RedLock's line.
func TableLocked(r *RedLock, of ...*Mutex) bool {
	return r.line.Locked() || slices.ContainsFunc(of, func(m *Mutex) bool { return m.c.table.Locked() })
}
