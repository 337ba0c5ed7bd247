package hold

import "github.com/wheellock/wheellock/lock/internal/locktable"

// succession says which attempt gets a hold next.
type succession struct {
	locktable.Following[*Hold]
	attempt *attempt // what the waiter wants: its terms and its owner do not change
	token   int64    // of a hand-over in memory; 0: Redis is to be asked
	more    int64    // tokens to reserve for those who get it after that
}

// succession tells the queue that the last Unlock of h is about to end h, and decides which
// attempt gets h next. It is called once for a hold, so only one goroutine uses a run at a time.
func (h *Hold) succession() succession {
	n := succession{Following: h.k.Table.Leaving(h)}
	if n.Next == nil {
		return n
	}
	n.attempt = &n.For.(*mutexAcquire).attempt
	if !kinds[h.kind].handedOver || !n.attempt.Renewed {
		return n
	}
	n.more = n.Ahead
	r := h.run()
	if r == nil || n.Over || r.left == 0 || r.over(h.k.Table) || h.has(unsure) || h.longestLease() > 0 {
		return n
	}
	r.left--
	r.token++
	n.token = r.token
	return n
}

// pass hands h over in memory. If the lease has ended or is not renewed, pass changes nothing
// and returns false.
func (k *Keeper) pass(h *Hold, n succession) bool {
	next, leased := n.attempt.newHold(h.run(), k.seqs.Add(1), n.token)
	next.first.begin(next, true)
	next.setFlag(asked, h.has(asked))
	if !h.lease.Pass(&next.lease, leased) {
		return false
	}
	k.Table.Deliver(h, n.Next, next)
	return true
}
