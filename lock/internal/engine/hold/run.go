package hold

import (
	"time"

	"github.com/wheellock/wheellock/lock/internal/engine/locktable"
	"github.com/wheellock/wheellock/lock/internal/engine/owner"
	"github.com/wheellock/wheellock/lock/internal/engine/waitqueue"
	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/renewer"
)

// A client that holds a Mutex hands it over to its own next waiter without asking Redis.
// The field in Redis stays and belongs to the run. Guards, renewals and the release use
// that field. In memory every holder has a hold of its own, with an owner, Helds, a token
// and a MaxHold.
//
// A hand-over in memory has three conditions. Redis has confirmed a script of the run at
// most handOverFor ago. That script has reserved the tokens. And the hold that ends has no
// request that may still be carried out, and none that asked for a longer lease. Otherwise,
// and at the end of a run, a script hands over or releases.

// handOverFor is how long after such a script holds are handed over without a script.
const handOverFor = 100 * time.Millisecond

// run is a field in Redis that holds of this client have one after the other.
type run struct {
	// immutable
	owner owner.Owner // of the hold that took the field
	seq   uint64
	until waitqueue.Instant // it is not handed over in memory after that
	wall  int64             // nor after that by the wall clock, Unix ns, which goes on in a suspended machine

	// used only by the goroutine that ends the hold that has the field now; the next hold takes them over
	token int64 // the last one given out
	left  int64 // how many more are reserved

	past locktable.Past // guarded by the table
}

// runHold is a hold of a run. Other holds are smaller without the pointer.
type runHold struct {
	Hold
	run *run // immutable; a hold that was handed over has a run, even if no tokens are reserved
}

var _ renewer.Owner = (*runHold)(nil)

// AppendFieldTail implements renewer.Owner.
func (h *runHold) AppendFieldTail(b []byte) []byte { return h.run.appendTail(b) }

// run returns the run that h belongs to, or nil. It returns nil for a hold whose lease has
// not begun.
func (h *Hold) run() *run {
	if r, ok := h.lease.Owner().(*runHold); ok {
		return r.run
	}
	return nil
}

// appendTail appends the part of the field that follows the client's id.
func (r *run) appendTail(b []byte) []byte {
	return appendTail(b, Mutex, r.owner, r.seq)
}

// newRun returns the run of a field that an owner took by a script that was sent at stamp.
func (k *Engine) newRun(as owner.Owner, seq uint64, stamp time.Time, o wire.Outcome) *run {
	return &run{
		owner: as, seq: seq, token: o.Token, left: o.Reserved,
		until: k.Table.Instant(stamp).Add(handOverFor), wall: stamp.Add(handOverFor).UnixNano(),
	}
}

// over reports whether the run must no longer be handed over in memory.
func (r *run) over(t *locktable.Table[*Hold]) bool {
	now := time.Now()
	return t.Instant(now) > r.until || now.UnixNano() > r.wall
}

// succession says which attempt gets a hold next.
type succession struct {
	locktable.Following[*Hold]
	attempt *attempt // what the waiter wants: its terms and its owner do not change
	token   int64    // of a hand-over in memory; 0: Redis is to be asked
	more    int64    // tokens to reserve for later holders
}

// planHandOver tells the queue that the last Unlock of h is about to end h, and decides which
// attempt gets h next. It is called once for a hold, so only one goroutine uses a run at a time.
func (h *Hold) planHandOver() succession {
	n := succession{Following: h.engine.Table.Leaving(h)}
	if n.Next == nil {
		return n
	}
	// Redis, which is then asked to hand it over, knows better than an earlier doubt. A later one is for the next hold.
	isDoubtful := h.setFlag(doubtful, false)
	n.attempt = &n.For.(*mutexAcquire).attempt
	if !kinds[h.kind].handedOver || !n.attempt.Renewed {
		return n
	}
	n.more = n.Ahead
	r := h.run()
	if r == nil || n.Over || isDoubtful || r.left == 0 || r.over(h.engine.Table) || h.has(unsure) || h.longestLease() > 0 {
		return n
	}
	r.left--
	r.token++
	n.token = r.token
	return n
}

// handOverInMemory hands h over without a request. If the lease has ended or is not renewed, it changes
// nothing and returns false.
func (k *Engine) handOverInMemory(h *Hold, n succession) bool {
	next, leased := n.attempt.newHold(h.run(), k.seqs.Add(1), n.token)
	next.first.begin(next, true)
	next.setFlag(needsAsking, h.has(needsAsking))
	if !h.lease.Pass(&next.lease, leased) {
		return false
	}
	k.Table.Deliver(h, n.Next, next)
	return true
}
