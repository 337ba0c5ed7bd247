package pipe

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// conn is one connection of a Pipe, and the requests that wait for its
// answers, in the order in which they were written. The type turn says which
// goroutine reads.
type conn struct {
	// immutable
	pipe     *Pipe
	redis    redis.Conn // written by one goroutine at a time, read by the goroutine with the turn, closed by the one that fails it
	below    *resp.Conn // the connection below redis; nil of one that a Dialer has not made
	canBeLed bool       // callers can lead it
	batch    *resp.Batch

	hasAnswered   bool      // has answered a request; used by the goroutine with the turn
	lastLedAnswer time.Time // when a leader last read its answer; used by the goroutine with the turn

	mu           sync.Mutex // guards what follows; never held during I/O
	inflight     []*Request
	err          error       // why it died
	timer        *time.Timer // runs checkAge while requests are in flight; nil before the first
	isArmed      bool        // timer runs
	overdue      *Request    // was too old at the last check
	clock        Clock       // of the server
	proof        proof
	turn         turn      // who reads
	residentWake sync.Cond // on mu: it is the resident's turn, or the connection is dead
	soloStreak   int       // requests in a row that were alone on the connection when they were written
}

func newConn(p *Pipe, dialed Connection) *conn {
	c := &conn{
		pipe: p, redis: dialed.Conn, below: resp.Below(dialed.Conn), batch: resp.NewBatch(dialed.Conn), clock: dialed.Clock,
		proof: p.cfg.proofOf(),
	}
	c.residentWake.L = &c.mu
	c.canBeLed = c.below != nil && c.below.CanTry() && p.cfg.LeadAfter > 0
	return c
}

// checkReady reports whether requests can be written to the connection. Only one goroutine at a
// time may call it. A connection without a reader is checked first, and the resident reads
// from then on.
func (c *conn) checkReady() bool {
	c.mu.Lock()
	alive, look := c.err == nil, c.turn == nobody
	if look {
		c.giveTurnLocked(leader)
	}
	c.mu.Unlock()
	if alive && look {
		alive = c.checkQuiet()
		c.giveTurn(resident)
	}
	return alive
}

// isBusy reports whether requests wait for their answers, or the connection is dead.
func (c *conn) isBusy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inflight) > 0 || c.err != nil
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
	for _, r := range batch {
		r.isWritten.Store(false)
	}
	asksTime, asksProof, alive := c.register(batch, now)
	if !alive {
		return // register has failed them
	}
	if asksTime {
		if err := c.batch.Command("TIME"); err != nil {
			c.fail(err)
			return
		}
	}
	if asksProof {
		if err := askProof(c.batch, batch); err != nil {
			c.fail(err)
			return
		}
	}
	for _, r := range batch {
		if err := r.send(c.batch); err != nil {
			c.fail(err)
			return
		}
	}
	if err := c.batch.Flush(); err != nil {
		c.fail(err)
	}
}

// register stamps requests that are about to be written. It records them, so that the
// reader or the goroutine that fails the connection completes each. asksTime says that the
// server must be asked for its time first, and asksProof that it must then be asked whether it is a
// replica. If alive is false, the connection is dead and the requests are completed.
func (c *conn) register(batch []*Request, now time.Time) (asksTime, asksProof, alive bool) {
	c.mu.Lock()
	err := c.err
	if err == nil {
		st := c.clock.stamp(now, c.pipe.cfg.Timeout)
		if asksTime = c.clock.Due(now); asksTime {
			c.clock.Asking(now)
			c.inflight = append(c.inflight, newQuestion(timeQuestion, now))
		}
		if asksProof = c.proof.isDue(c.pipe.cfg, now, batch); asksProof {
			c.inflight = append(c.inflight, newQuestion(proofQuestion, now))
		}
		for _, r := range batch {
			r.stamp(&st)
		}
		if len(batch) > 1 || len(c.inflight) > 0 {
			c.soloStreak = 0
		} else {
			c.soloStreak++
		}
		c.inflight = append(c.inflight, batch...)
		if c.turn == nobody { // a leader has ended since ready
			c.giveTurnLocked(resident)
		}
		c.armLocked(c.pipe.cfg.Timeout)
	}
	c.mu.Unlock()
	if err == nil {
		return asksTime, asksProof, true
	}
	for _, r := range batch {
		r.markNotRun()
		r.Fail(err)
	}
	return false, false, false
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
	waiting := c.inflight
	c.inflight = nil
	if c.timer != nil {
		c.timer.Stop()
	}
	c.giveTurnLocked(resident) // the resident then ends
	c.mu.Unlock()
	c.pipe.cfg.Failed(err)
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

// checkAge closes the connection if its oldest request is too old. It checks twice,
// because this process may be the slow one, and the answer may only wait to be read.
func (c *conn) checkAge() {
	c.mu.Lock()
	c.isArmed = false
	if c.err != nil || len(c.inflight) == 0 {
		c.overdue = nil
		if c.turn == nobody { // so that the end of an idle connection is seen
			c.giveTurnLocked(resident)
		}
		c.mu.Unlock()
		return
	}
	oldest := c.inflight[0]
	left := c.pipe.cfg.Timeout - time.Since(oldest.answer.Stamp)
	if left <= 0 && c.overdue == oldest {
		c.mu.Unlock()
		c.fail(ErrUnanswered)
		return
	}
	if left <= 0 {
		c.overdue, left = oldest, c.pipe.cfg.Timeout/16
	}
	c.armLocked(left)
	c.mu.Unlock()
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
	cfg := c.pipe.cfg
	reply, err := c.receive()
	if isBroken(err) {
		c.fail(err)
		return false
	}
	r, asked := c.popOldest()
	if r == nil { // all are answered: it died, or nothing was asked
		c.fail(fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply.Any(), err)))
		return false
	}
	if !c.hasAnswered {
		c.hasAnswered = true
		cfg.Answered()
	}
	if asked {
		return true
	}
	switch r.question {
	case proofQuestion:
		if err := cfg.proved(r.answer.Stamp, err); err != nil {
			c.fail(err)
			return false
		}
		return true
	case timeQuestion:
		if server, err := TimeOf(reply.Any(), err); err == nil {
			c.sample(r.answer.Stamp, server, 0)
		}
		return true
	}
	if server, late := Lateness(err); late && c.sample(r.answer.Stamp, server, LateUnit) {
		r.clockChanges++
	}
	switch cfg.judgeAnswer(r, err) {
	case AsText: // that also makes the server know it
		c.pipe.Put(r)
	case Late:
		if r.clockChanges == MaxLates {
			c.distrust()
		}
		c.pipe.Put(r)
	case Elsewhere:
	case Demoted:
		r.Fail(err)
		// The next dial may find the new master. The others have no answer of
		// their own.
		c.fail(fmt.Errorf("the connection was given up: %w", err))
		return false
	default:
		number, refusal, refused := unpublished(r.script, reply)
		if refused {
			cfg.Unpublished(refusal)
		}
		r.complete(number, err)
	}
	return true
}

// receive reads an answer. It waits without a limit.
func (c *conn) receive() (resp.Reply, error) {
	if c.below != nil {
		return c.below.Receive(c.redis)
	}
	return resp.ReceiveReply(c.redis, 0)
}

// sample records the server's time in an answer to a request that was sent at sent. It
// reports whether that contradicts the earlier estimate.
func (c *conn) sample(sent, server time.Time, unit time.Duration) bool {
	c.mu.Lock()
	off := c.clock.Sample(sent, time.Now(), server, unit)
	clock := c.clock
	c.mu.Unlock()
	c.pipe.cfg.Timed(clock, off)
	return off != 0
}

// distrust makes requests have no limit from now on, because the server's answers about
// its clock do not seem to hold for the next request.
func (c *conn) distrust() {
	c.mu.Lock()
	c.clock.Distrust()
	clock := c.clock
	c.mu.Unlock()
	c.pipe.cfg.Timed(clock, 0)
}

// popOldest removes and returns the oldest request, or nil if there is none. If the answer
// belongs to the ASKING before the request, asked is true and the request stays.
func (c *conn) popOldest() (r *Request, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight) == 0 {
		return nil, false
	}
	r = c.inflight[0]
	if r.asking && !r.askingAnswered {
		r.askingAnswered = true
		return r, true
	}
	c.inflight[0] = nil
	c.inflight = c.inflight[1:]
	if c.overdue == r {
		c.overdue = nil // r may be used again
	}
	if c.canBeLed && len(c.inflight) == 0 && c.turn == resident && c.soloStreak >= c.pipe.cfg.LeadAfter {
		c.giveTurnLocked(nobody)
	}
	return r, false
}
