package pipe

import (
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/internal/resp"
)

// conn is one connection of a Pipe, and the requests that wait for its
// answers in the order in which they were written. Its reader always reads, so
// that a connection that is closed while nothing is on its way is not used
// again.
type conn struct {
	// immutable
	pipe  *Pipe
	redis redis.Conn // written by the Pipe's writer, read by the reader, closed by whoever fails it

	mu       sync.Mutex // guards what follows; never held during I/O
	inflight []*Request
	err      error       // why it died
	timer    *time.Timer // runs checkAge while requests are in flight; nil before the first
	armed    bool        // timer runs
	slow     *Request    // was too old at the last check
	clock    Clock       // of the server
}

func (c *conn) alive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err == nil
}

// busy reports whether requests wait for their answers, or the connection is dead.
func (c *conn) busy() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.inflight) > 0 || c.err != nil
}

// write writes requests, which are completed in any case. One goroutine at a
// time may be in it.
func (c *conn) write(batch []*Request) {
	// One stamp for the batch, before any of its bytes: redigo flushes by
	// itself when its buffer is full.
	now := time.Now()
	for _, r := range batch {
		r.sent.Store(false)
	}
	ask, alive := c.expect(batch, now)
	if !alive {
		return // expect has failed them
	}
	if ask {
		if err := c.redis.Send("TIME"); err != nil {
			c.fail(err)
			return
		}
	}
	for _, r := range batch {
		if err := r.send(c.redis); err != nil {
			c.fail(err)
			return
		}
	}
	if err := c.redis.Flush(); err != nil {
		c.fail(err)
	}
}

// expect notes requests that are about to be written, so that the reader, and
// whoever fails the connection, completes each; and stamps them. ask says that the
// server is to be asked for its time before them. If alive is false the connection is
// dead, and the requests are completed.
func (c *conn) expect(batch []*Request, now time.Time) (ask, alive bool) {
	c.mu.Lock()
	err := c.err
	if err == nil {
		st := c.clock.stamp(now, c.pipe.cfg.Timeout)
		if ask = c.clock.Due(now); ask {
			c.clock.Asking(now)
			q := &Request{asksTime: true}
			q.Post()
			q.answer.Stamp = now
			c.inflight = append(c.inflight, q)
		}
		for _, r := range batch {
			r.stamp(&st)
		}
		c.inflight = append(c.inflight, batch...)
		c.armLocked(c.pipe.cfg.Timeout)
	}
	c.mu.Unlock()
	if err == nil {
		return ask, true
	}
	for _, r := range batch {
		r.notRun()
		r.complete(nil, err)
	}
	return false, false
}

// fail completes all that wait on the connection and closes it, which may take
// long. Closing unblocks a writer or reader that is stuck in I/O.
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
	c.mu.Unlock()
	c.pipe.cfg.Failed(err)
	for _, r := range waiting {
		r.complete(nil, err)
	}
	c.redis.Close()
}

// armLocked makes checkAge run after d, unless it is to run anyway.
func (c *conn) armLocked(d time.Duration) {
	switch {
	case c.armed:
	case c.timer == nil:
		c.timer = time.AfterFunc(d, c.checkAge)
	default:
		c.timer.Reset(d)
	}
	c.armed = true
}

// checkAge gives the connection up if its oldest request is too old. It checks
// twice: if it is we who were slow, the answer may only wait to be read.
func (c *conn) checkAge() {
	c.mu.Lock()
	c.armed = false
	if c.err != nil || len(c.inflight) == 0 {
		c.slow = nil
		c.mu.Unlock()
		return
	}
	oldest := c.inflight[0]
	left := c.pipe.cfg.Timeout - time.Since(oldest.answer.Stamp)
	if left <= 0 && c.slow == oldest {
		c.mu.Unlock()
		c.fail(errTimeout)
		return
	}
	if left <= 0 {
		c.slow, left = oldest, c.pipe.cfg.Timeout/16
	}
	c.armLocked(left)
	c.mu.Unlock()
}

// read is the body of the connection's reader.
func (c *conn) read() {
	cfg := c.pipe.cfg
	for {
		reply, err := resp.Receive(c.redis, 0)
		if broken(err) {
			c.fail(err)
			return
		}
		r, asked := c.pop()
		if r == nil { // all are answered: it died, or nothing was asked
			c.fail(fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply, err)))
			return
		}
		if asked {
			continue
		}
		if r.asksTime {
			if server, err := TimeOf(reply, err); err == nil {
				c.sample(r.answer.Stamp, server)
			}
			continue
		}
		if server, late := Lateness(err); late && c.sample(r.answer.Stamp, server) {
			r.odd++
		}
		switch cfg.judge(r, err) {
		case AsText: // that also makes the server know it
			c.pipe.Put(r)
		case Late:
			if r.odd == MaxLates {
				c.distrust()
			}
			c.pipe.Put(r)
		case Elsewhere:
		case Demoted:
			r.complete(nil, err)
			// The next dial may find the new master. The others have no answer of
			// their own.
			c.fail(fmt.Errorf("the connection was given up: %w", err))
			return
		default:
			number, refusal, refused := unpublished(r.script, reply)
			if refused {
				cfg.Unpublished(refusal)
			}
			r.complete(number, err)
		}
	}
}

// sample notes what the server's clock showed in answer to what was sent then. It
// reports whether that was not possible by what was known.
func (c *conn) sample(sent, server time.Time) bool {
	c.mu.Lock()
	off := c.clock.Sample(sent, time.Now(), server)
	clock := c.clock
	c.mu.Unlock()
	c.pipe.cfg.Timed(clock, off)
	return off != 0
}

// distrust makes requests go without a limit from now on: nothing that the server
// says of its clock seems to be true of the next request.
func (c *conn) distrust() {
	c.mu.Lock()
	c.clock.Distrust()
	clock := c.clock
	c.mu.Unlock()
	c.pipe.cfg.Timed(clock, 0)
}

// pop removes and returns the oldest request; nil if there is none. If what was
// answered is the ASKING before it, asked is true and it stays.
func (c *conn) pop() (r *Request, asked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.inflight) == 0 {
		return nil, false
	}
	r = c.inflight[0]
	if r.asking && !r.asked {
		r.asked = true
		return r, true
	}
	c.inflight[0] = nil
	c.inflight = c.inflight[1:]
	if c.slow == r {
		c.slow = nil // r may be used again
	}
	return r, false
}
