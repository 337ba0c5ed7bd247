package lock

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/carrier"
	"github.com/wheellock/wheellock/lock/internal/locktable"
	"github.com/wheellock/wheellock/lock/internal/owner"
	"github.com/wheellock/wheellock/lock/internal/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/wire"
)

// A client that holds a Mutex hands it to its own next waiter without asking Redis.
// The field in Redis stays, and is the run's: what is asked of it, a guard, a renewal or
// the release, is asked by it. In memory every holder has a hold of its own, with an
// owner, Helds, a token and a MaxHold.
//
// Nothing of it is done on trust alone. Redis has said yes to a script of the run at
// most handOverFor ago; that script has reserved the tokens; and the hold that ends has
// no request that may still be carried out, and none that asked for a longer lease.
// Otherwise, and at the end of a run, a script hands over or releases.

// handOverFor is for how long after such a script holds are handed over without one.
const handOverFor = 100 * time.Millisecond

// run is a field in Redis that holds of this client have one after the other.
type run struct {
	// immutable
	owner owner.Owner // of the hold that took the field
	seq   uint64
	until waitqueue.Instant // it is not handed over in memory after that

	// of the goroutine that ends the hold which has the field now; the next one gets them with the hold
	token int64 // the last one given out
	left  int64 // how many more are reserved

	past locktable.Past // guarded by the table
}

// runHold is a hold of a run. Others are as small as they can be.
type runHold struct {
	hold
	run *run // immutable; one that was handed over has it, though it may have reserved nothing
}

var _ carrier.Owner = (*runHold)(nil)

// AppendField implements carrier.Owner.
func (h *runHold) AppendField(b []byte) []byte { return h.run.appendTail(b) }

// run returns the run that h belongs to, or nil. Of a hold whose lease has not begun
// it is nil.
func (h *hold) run() *run {
	if r, ok := h.lease.Owner().(*runHold); ok {
		return r.run
	}
	return nil
}

// appendTail appends what comes after the client's id in the field.
func (r *run) appendTail(b []byte) []byte {
	return (&hold{owner: r.owner, seq: r.seq}).appendOwnTail(b)
}

// newHold returns the hold that a gets, of r or, if that is nil, of no run, and what its
// lease belongs to. a may be trying meanwhile, so seq is not its own.
func (a *attempt) newHold(r *run, seq uint64, token int64) (h *hold, o carrier.Owner) {
	if r == nil {
		h = &hold{}
		o = h
	} else {
		x := &runHold{run: r}
		h, o = &x.hold, x
	}
	h.c, h.name, h.kind = a.c, a.name, a.kind
	h.owner, h.seq, h.token, h.count = a.owner, seq, token, 1
	if a.renewed {
		h.renewing = 1
	}
	h.lengthen(a.lease)
	return h, o
}

// newRun returns the run of a field of that owner, whose script was stamped so.
func (c *keeper) newRun(o owner.Owner, seq uint64, stamp time.Time, g wire.Granted) *run {
	return &run{owner: o, seq: seq, until: c.table.Instant(stamp).Add(handOverFor), token: g.Token, left: g.More}
}

// succession is what comes after a hold.
type succession struct {
	locktable.Following[*hold]
	attempt *attempt // what the waiter wants: its terms and its owner do not change
	token   int64    // of a hand-over in memory; 0: Redis is to be asked
	more    int64    // tokens to reserve for those who get it after that
}

// succession tells the queue that the last Unlock of h is about to end it, and works out
// how h goes on. It is called once for a hold, so a run is one goroutine's at a time.
func (h *hold) succession() succession {
	n := succession{Following: h.c.table.Leaving(h)}
	if n.Next == nil {
		return n
	}
	n.attempt = n.For.(*attempt)
	if h.kind != mutexKind || !n.attempt.renewed {
		return n
	}
	n.more = n.Ahead
	r := h.run()
	if r == nil || n.Over || r.left == 0 || h.c.table.Now() > r.until || h.is(unsure|longer) {
		return n
	}
	r.left--
	r.token++
	n.token = r.token
	return n
}

// pass hands h over in memory. It returns false, and has changed nothing, if the lease
// does not go on: it has ended, or is not renewed.
func (c *keeper) pass(h *hold, n succession) bool {
	next, leased := n.attempt.newHold(h.run(), c.seqs.Add(1), n.token)
	next.first.h, next.first.renewed = next, true
	next.set(asked, h.is(asked))
	if !h.lease.Pass(&next.lease, leased) {
		return false
	}
	c.table.Deliver(h, n.Next, next)
	return true
}
