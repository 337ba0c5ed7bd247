package pipe

import "time"

// A caller that is alone leads. It writes its request and reads the answer itself. So no other
// goroutine must be woken, which is most of the time of a lone request. A connection therefore has
// two readers, and turn says which one reads:
//
//	            LeadAfter requests in a row were alone, and nothing is in flight
//	resident ─────────────────────────────────────────────────────────────────▶ noReader
//	   ▲ ▲                                                                       │  ▲
//	   │ └── a request is written without leading; no request for Timeout ───────┤  │
//	   │                                                                         │  │
//	   │    no answer in time;    requests of others are in flight       a caller│  │its answer came,
//	   └───────────────────────────────────── leader ◀────────────── is to write┘  │nothing is in flight
//	                                             └──────────────────────────────────┘
//
// While a request is in flight the turn is never noReader. A leader leads one request, for at
// most leadTime, and gives the turn only to the resident.
type turn uint8

const (
	resident turn = iota // the connection's own goroutine, the resident, reads or is about to read
	noReader             // nothing is in flight, and nobody reads
	leader               // a caller, the leader, writes or reads; or checkReady looks at the connection
)

// leadTime is the longest time that a caller leads. A leader notices the end of its context up to
// leadTime late.
const leadTime = 5 * time.Millisecond

// writeNow writes r at once and leaves the reading to the resident, so that the writer need not be
// woken. It returns false if it did not use r: another goroutine writes, or the connection has no
// reader.
func (p *Pipe) writeNow(r *Request) bool {
	c := p.beginWrite()
	if c == nil {
		return false
	}
	defer p.endWrite()
	now := time.Now()
	if r.isExpired(now) || !c.isReadByResident(now) {
		return false
	}
	c.write([]*Request{r})
	return true
}

// maxInFlightForWrite is how many requests may be in flight for a caller to write one itself. A server that reads
// nothing would block a caller that writes more than the sockets keep.
const maxInFlightForWrite = 32

// maxCallerWrite is the most bytes of arguments that a caller writes itself. A caller that waits in a write
// does not see the end of its context, and maxInFlightForWrite requests of this length fit into the
// sockets.
const maxCallerWrite = 4 << 10

// isReadByResident reports whether the resident reads the connection, and soon gets to the next answer.
func (c *conn) isReadByResident(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil && c.turn == resident && len(c.inflight.waiting()) < maxInFlightForWrite && !c.isOldLocked(now)
}

// lead writes r and reads the answer, or leaves the reading to the resident after leadTime. The caller
// waits for the answer next. lead returns false if it did not use r: no connection can be led, or another
// goroutine uses it.
func (p *Pipe) lead(r *Request) bool {
	if p.leadable.Load() == nil {
		return false
	}
	c := p.beginWrite()
	if c == nil {
		return false
	}
	now := time.Now()
	if r.isExpired(now) || !c.claimTurn() || !c.isFresh(now) && !c.checkQuiet() {
		p.endWrite()
		return false
	}
	c.write([]*Request{r})
	p.endWrite()
	c.readAsLeader()
	return true
}

// beginWrite returns the connection to which the caller may write until endWrite. It returns nil if
// there is none, or if another goroutine writes or waits to write.
func (p *Pipe) beginWrite() *conn {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live == nil || len(p.queue) > 0 || p.isWriterBusy || p.isCallerWriting {
		return nil
	}
	p.isCallerWriting = true
	return p.live
}

func (p *Pipe) endWrite() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.isCallerWriting = false
	if len(p.queue) > 0 || p.dialsEarly {
		p.work.Signal()
	}
}

// claimTurn gives the turn to a caller that will write, if no goroutine has it.
func (c *conn) claimTurn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil || c.turn != noReader {
		return false
	}
	c.giveTurnLocked(leader)
	return true
}

// freshFor is how long a connection is not checked before a write after a leader has read an answer.
// Bytes that come without a request within that time are as hard to notice as bytes that come just
// after a check.
const freshFor = time.Millisecond

// isFresh reports whether checkQuiet need not be called.
func (c *conn) isFresh(now time.Time) bool {
	return now.Sub(c.lastLedAnswer) < freshFor && c.below.Settled()
}

// checkQuiet reports whether the server has sent nothing while no request is in flight. If it has sent
// bytes, they would count as the answer to the next request, so the connection has failed. The
// caller has the turn, and no goroutine writes.
func (c *conn) checkQuiet() bool {
	if c.below.Quiet() {
		return true
	}
	if c.below.Answered() {
		c.readOne() // its error then has the text of what was sent
	}
	c.fail(errUnasked)
	return false
}

// readAsLeader reads the answer to the request of the leader, and gives up the turn.
func (c *conn) readAsLeader() {
	if !c.below.AwaitAnswer(leadTime) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.soloStreak = 0 // the server is slow or gone, so callers do not lead again soon
		c.giveTurnLocked(resident)
		return
	}
	c.readOne()
	c.lastLedAnswer = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight.waiting()) > 0 {
		c.giveTurnLocked(resident)
	} else {
		c.giveTurnLocked(noReader)
	}
}

func (c *conn) giveTurn(to turn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.giveTurnLocked(to)
}

// giveTurnLocked gives the turn to to. If the connection is dead, the resident gets the turn and ends.
func (c *conn) giveTurnLocked(to turn) {
	if c.err != nil {
		to = resident
	}
	c.turn = to
	if to == noReader {
		c.pipe.leadable.Store(c)
		return
	}
	c.pipe.leadable.CompareAndSwap(c, nil)
	if to == resident {
		c.residentWake.Signal()
	}
}

// awaitTurn returns true when it is the resident's turn, and false if the connection is dead.
func (c *conn) awaitTurn() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.turn != resident && c.err == nil {
		c.residentWake.Wait()
	}
	return c.err == nil
}
