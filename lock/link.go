package lock

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// errTimeout is why a connection whose oldest request is too old is given up.
var errTimeout = errors.New("no answer within Config.IOTimeout")

// link is one long-lived pipelined connection to a server: any number of
// goroutines put requests into its queue, one goroutine writes them, and one
// per connection reads the answers. A connection that fails or falls silent
// fails its requests and is replaced at the next one.
type link struct {
	// immutable
	node    *node
	timeout time.Duration // Config.IOTimeout

	mu     sync.Mutex // guards what follows; never held during I/O
	work   sync.Cond  // on mu: queue is not empty, or closed
	queue  []*request // not yet written; swapped out whole by the writer
	closed error      // why it is closed; nil before
	live   *session   // the connection in use, or nil

	wg sync.WaitGroup // writer and readers
}

// newLink returns a link of n, whose dials end with n, and starts its writer.
func newLink(n *node, timeout time.Duration) *link {
	l := &link{node: n, timeout: timeout}
	l.work.L = &l.mu
	l.wg.Go(l.write)
	return l
}

// put queues r; its answer comes through r.finish, always.
func (l *link) put(r *request) {
	l.mu.Lock()
	if err := l.closed; err != nil {
		l.mu.Unlock()
		r.finish(nil, err)
		return
	}
	l.queue = append(l.queue, r)
	if len(l.queue) == 1 {
		l.work.Signal()
	}
	l.mu.Unlock()
}

// close fails all requests with why and returns when no goroutine of the link
// runs.
func (l *link) close(why error) {
	l.mu.Lock()
	l.closed = why
	queue, live := l.queue, l.live
	l.queue = nil
	l.work.Signal()
	l.mu.Unlock()
	for _, r := range queue {
		r.finish(nil, why)
	}
	if live != nil {
		live.fail(why)
	}
	l.wg.Wait()
}

// write is the writer's body.
func (l *link) write() {
	var spare []*request
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		for len(l.queue) == 0 && l.closed == nil {
			l.work.Wait()
		}
		if l.closed != nil {
			return
		}
		if l.live != nil && l.live.busy() {
			// There are other callers. Those that are about to put a request (a
			// read has just woken many, say) go first: one write for all of them
			// is much less work than a write each.
			l.mu.Unlock()
			runtime.Gosched()
			l.mu.Lock()
		}
		batch := l.queue
		l.queue = spare[:0]
		l.mu.Unlock()
		l.writeBatch(batch)
		clear(batch)
		spare = batch
		l.mu.Lock()
	}
}

func (l *link) writeBatch(batch []*request) {
	s, err := l.session()
	if err != nil {
		for _, r := range batch {
			r.finish(nil, err)
		}
		return
	}
	s.write(batch)
}

// write writes requests, which are answered in any case. One goroutine at a
// time may be in it.
func (s *session) write(batch []*request) {
	// One stamp for the batch, before any of its bytes: redigo flushes by
	// itself when its buffer is full.
	now := time.Now()
	for _, r := range batch {
		r.answer.stamp = now
	}
	if !s.expect(batch) {
		return // the connection died; expect has failed them
	}
	for _, r := range batch {
		if err := r.send(s.conn); err != nil {
			s.fail(err)
			return
		}
	}
	if err := s.conn.Flush(); err != nil {
		s.fail(err)
	}
}

// session returns the live connection, dialling one if there is none.
func (l *link) session() (*session, error) {
	l.mu.Lock()
	s := l.live
	l.mu.Unlock()
	if s != nil && s.alive() {
		return s, nil
	}
	ctx, cancel := context.WithTimeout(l.node.ctx, l.timeout)
	defer cancel()
	conn, epoch, err := l.node.connect(ctx)
	if err != nil {
		return nil, err
	}
	if err := l.node.greet(ctx, conn); err != nil {
		conn.Close()
		return nil, err
	}
	s = &session{link: l, conn: conn}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed != nil {
		conn.Close()
		return nil, l.closed
	}
	if l.node.epoch.Load() != epoch {
		conn.Close() // drop came before there was anything to drop
		return nil, errReplaced
	}
	l.live = s
	l.wg.Go(s.read)
	return s, nil
}

// drop gives the connection in use up.
func (l *link) drop(err error) {
	l.mu.Lock()
	live := l.live
	l.mu.Unlock()
	if live != nil {
		live.fail(err)
	}
}

// session is one connection of a link, and the requests that wait for its
// answers in the order in which they were written. Its reader always reads, so
// that a connection that is closed while nothing is on its way is not used
// again.
type session struct {
	link *link
	conn redis.Conn

	mu       sync.Mutex // guards what follows; never held during I/O
	inflight []*request
	err      error       // why it died
	timer    *time.Timer // runs look while requests are in flight; nil before the first
	armed    bool        // timer runs
	suspect  *request    // was too old at the last look
}

func (s *session) alive() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err == nil
}

// busy reports whether requests wait for their answers, or the session is dead.
func (s *session) busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.inflight) > 0 || s.err != nil
}

// expect notes requests that are about to be written, so that the reader, and
// whoever fails the session, answers each. It returns false if the session is
// dead; the requests are answered then.
func (s *session) expect(batch []*request) bool {
	s.mu.Lock()
	err := s.err
	if err == nil {
		s.inflight = append(s.inflight, batch...)
		s.armLocked(s.link.timeout)
	}
	s.mu.Unlock()
	if err == nil {
		return true
	}
	for _, r := range batch {
		r.answer.stamp = time.Time{}
		r.finish(nil, err)
	}
	return false
}

// fail closes the connection and answers all that wait on it. Closing unblocks
// a writer or reader that is stuck in I/O.
func (s *session) fail(err error) {
	s.mu.Lock()
	if s.err != nil {
		s.mu.Unlock()
		return
	}
	s.err = err
	waiting := s.inflight
	s.inflight = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	s.mu.Unlock()
	s.conn.Close()
	s.link.node.suspect(err)
	for _, r := range waiting {
		r.finish(nil, err)
	}
}

// armLocked makes look run after d, unless it is to run anyway.
func (s *session) armLocked(d time.Duration) {
	switch {
	case s.armed:
	case s.timer == nil:
		s.timer = time.AfterFunc(d, s.look)
	default:
		s.timer.Reset(d)
	}
	s.armed = true
}

// look gives the connection up if its oldest request is too old. It looks
// twice: if it is we who were slow, the answer may only wait to be read.
func (s *session) look() {
	s.mu.Lock()
	s.armed = false
	if s.err != nil || len(s.inflight) == 0 {
		s.suspect = nil
		s.mu.Unlock()
		return
	}
	oldest := s.inflight[0]
	left := s.link.timeout - time.Since(oldest.answer.stamp)
	if left <= 0 && s.suspect == oldest {
		s.mu.Unlock()
		s.fail(errTimeout)
		return
	}
	if left <= 0 {
		s.suspect, left = oldest, s.link.timeout/16
	}
	s.armLocked(left)
	s.mu.Unlock()
}

// read is the body of the session's reader.
func (s *session) read() {
	for {
		reply, err := redis.ReceiveWithTimeout(s.conn, 0)
		answered := err == nil
		if _, ok := err.(redis.Error); ok {
			answered = true
		}
		if !answered {
			s.fail(err)
			return
		}
		r, asked := s.pop()
		switch {
		case r == nil: // all are answered: it died, or nothing was asked
			s.fail(fmt.Errorf("unexpected answer %.100q", fmt.Sprint(reply, err)))
			return
		case asked:
			continue
		case noScript(err) && !r.eval:
			// It did not run, so it may be sent again, now as text; that
			// also makes the server know it.
			r.eval, r.asked = true, false
			s.link.put(r)
			continue
		}
		if err != nil && s.link.node.redirect(r, err) {
			continue
		}
		r.finish(reply, err)
		if reply, ok := err.(redis.Error); ok && hasWord(string(reply), "READONLY") {
			// A demoted master: the next dial may find the new one. The others
			// have no answer of their own.
			s.fail(fmt.Errorf("the connection was given up: %w", err))
			return
		}
	}
}

// pop removes and returns the oldest request; nil if there is none. If what was
// answered is the ASKING before it, asked is true and it stays.
func (s *session) pop() (r *request, asked bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.inflight) == 0 {
		return nil, false
	}
	r = s.inflight[0]
	if r.asking && !r.asked {
		r.asked = true
		return r, true
	}
	s.inflight[0] = nil
	s.inflight = s.inflight[1:]
	if s.suspect == r {
		s.suspect = nil // r may be used again
	}
	return r, false
}
