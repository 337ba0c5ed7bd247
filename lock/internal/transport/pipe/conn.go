package pipe

import (
	"sync"
	"time"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// conn is one connection of a Pipe. The type turn says which goroutine reads it.
type conn struct {
	*Exchange // its mu also guards the last group of fields

	// immutable
	pipe     *Pipe
	canBeLed bool // callers can lead it

	lastLedAnswer time.Time // when a leader last read its answer; used by the goroutine with the turn

	// guarded by Exchange.mu
	err          error       // why the connection died; nil while it lives
	timer        *time.Timer // runs checkAge while requests are in flight; nil before the first
	isArmed      bool        // timer runs
	turn         turn        // who reads
	residentWake sync.Cond   // on mu: it is the resident's turn, or the connection is dead
	soloStreak   int         // requests in a row that were alone on the connection when they were written
}

func newConn(p *Pipe, dialed Connection) *conn {
	c := &conn{Exchange: NewExchange(p.cfg, dialed), pipe: p}
	c.residentWake.L = &c.mu
	c.canBeLed = c.below != nil && c.below.CanTry() && p.cfg.LeadAfter > 0
	return c
}

// checkReady reports whether requests can be written to the connection. Only one goroutine at a
// time may call it. A connection without a reader is checked first, and the resident reads
// from then on. One that is old is closed.
func (c *conn) checkReady() bool {
	if c.IsOld() {
		c.fail(ErrReplaced)
		return false
	}
	if !c.claimTurn() {
		return !c.isDead()
	}
	defer c.giveTurn(resident)
	return c.checkQuiet()
}

// isBusy reports whether requests wait for their answers, or the connection is dead.
func (c *conn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inflight.waiting()) > 0 || c.err != nil
}

func (c *conn) isDead() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// write writes requests. They are completed in any case. Only one goroutine at a
// time may call it.
func (c *conn) write(batch []*Request) {
	// One stamp for the batch, before any of its bytes. A connection of a program's own pool writes
	// some bytes already when redigo's buffer is full.
	now := time.Now()
	if all := c.register(batch, now); all != nil {
		if err := c.send(all); err != nil {
			c.fail(err)
		}
	}
}

// register stamps requests that are about to be written. It records them, so that the
// reader or the goroutine that fails the connection completes each. It returns all that must be
// written. If the connection is dead, that is nothing, and the requests are completed.
func (c *conn) register(batch []*Request, now time.Time) (all []*Request) {
	replaced := c.IsReplaced() // Drop is about to come
	c.mu.Lock()
	err := c.err
	if err == nil && replaced {
		err = ErrReplaced
	}
	if err == nil {
		if all = c.registerLocked(batch, now); len(c.inflight.waiting()) > 1 {
			c.soloStreak = 0
		} else {
			c.soloStreak++
		}
		if c.turn == noReader { // a leader has given up its turn since checkReady
			c.giveTurnLocked(resident)
		}
		c.armLocked(c.cfg.Timeout)
	}
	c.mu.Unlock()
	if err == nil {
		return all
	}
	for _, r := range batch {
		r.markNotRun()
		r.Fail(err)
	}
	return nil
}

// fail completes all requests that wait on the connection, and closes it. The close may
// take long. It unblocks a writer or reader that is stuck in I/O.
func (c *conn) fail(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	waiting := c.inflight.waiting()
	c.inflight = flight{}
	if c.timer != nil {
		c.timer.Stop()
	}
	c.giveTurnLocked(resident) // the resident then ends
	c.mu.Unlock()
	c.cfg.Failed(err)
	for _, r := range waiting {
		r.Fail(err)
	}
	c.redis.Close()
}

// armLocked makes checkAge run after d, unless it will run anyway.
func (c *conn) armLocked(d time.Duration) {
	switch {
	case c.isArmed:
	case c.timer == nil:
		c.timer = time.AfterFunc(d, c.checkAge)
	default:
		c.timer.Reset(d)
	}
	c.isArmed = true
}

// checkAge closes the connection if its oldest request is too old, see lookAtAgeLocked.
func (c *conn) checkAge() {
	c.mu.Lock()
	c.isArmed = false
	if c.err != nil || len(c.inflight.waiting()) == 0 {
		if c.turn == noReader { // the resident sees the end of an idle connection
			c.giveTurnLocked(resident)
		}
		c.mu.Unlock()
		return
	}
	next, isOver := c.lookAtAgeLocked()
	if !isOver {
		c.armLocked(next)
	}
	c.mu.Unlock()
	if isOver {
		c.fail(ErrUnanswered)
	}
}

// read is the body of the connection's resident reader.
func (c *conn) read() {
	for c.awaitTurn() {
		if !c.readOne() {
			return
		}
	}
}

// readOne reads an answer and acts on it. It returns false if it has failed the connection.
func (c *conn) readOne() bool {
	reply, err := resp.ReceiveReply(c.redis, c.below)
	if isBroken(err) {
		c.fail(err)
		return false
	}
	r, ofAsking := c.popOldest()
	isOwn, failure := c.handleQuestion(r, ofAsking, reply, err)
	if failure != nil {
		c.fail(failure)
		return false
	}
	if isOwn {
		return true
	}
	switch c.judge(r, err) {
	case AsText, Late: // over this Pipe, so that its server knows the text from then on
		c.pipe.Put(r)
	case Elsewhere:
	case Demoted:
		r.Fail(err)
		// The next dial may find the new master. The other requests in flight get no
		// answer any more.
		c.fail(givenUp(err))
		return false
	default:
		number, refusal, refused := splitPublishRefusal(r.script, reply)
		if refused {
			c.cfg.Unpublished(refusal)
		}
		r.complete(number, err)
	}
	return true
}

// popOldest is popLocked, and ends the resident's turn if callers can lead from now on: nothing is
// in flight any more, and the last requests were alone.
func (c *conn) popOldest() (r *Request, ofAsking bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r, ofAsking = c.popLocked(); ofAsking || r == nil {
		return r, ofAsking
	}
	if c.canBeLed && len(c.inflight.waiting()) == 0 && c.turn == resident && c.soloStreak >= c.cfg.LeadAfter {
		c.giveTurnLocked(noReader)
	}
	return r, false
}
