package lock

import (
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// request states. The reader and a caller that leaves race for the way out of
// pending; who loses leaves the other in charge.
const (
	pending   uint32 = iota // to answered by the reader; to abandoned by a caller that leaves
	answered                // the caller takes reply and err
	abandoned               // nobody waits: late is called with the answer
)

// request is one script call on its way through a link.
type request struct {
	script *script.Script
	args   []any // keys, then ARGV; the end of wire
	wire   []any // SHA or text, number of keys, args
	late   func(answer)

	state atomic.Uint32
	done  chan struct{} // of capacity 1: gets a token when answered

	// owned by the link until answered
	eval   bool  // send the text: the server has forgotten the SHA
	asking bool  // send ASKING before: the key is on the server that its slot is just being moved to
	asked  bool  // the ASKING was answered
	hops   uint8 // redirections so far
	answer answer
}

// newRequest returns a pending request. args are copied.
func (c *Client) newRequest(s *script.Script, keys int, late func(answer), args []any) *request {
	r, _ := c.requests.Get().(*request)
	if r == nil {
		r = &request{done: make(chan struct{}, 1)}
	}
	r.script, r.late = s, late
	r.wire = append(append(r.wire[:0], s.SHA(), keys), args...)
	r.args = r.wire[2:]
	return r
}

// recycle keeps r, whose caller has the answer, for another call. It does so
// only after an answer of Redis: then r was written whole, and the link has let
// go of it.
func (c *Client) recycle(r *request) {
	if _, replied := r.answer.err.(redis.Error); r.answer.err != nil && !replied {
		return // a writer may still look at it
	}
	clear(r.wire) // these are names of locks
	*r = request{wire: r.wire[:0], done: r.done}
	c.requests.Put(r)
}

// answer is what became of a request.
type answer struct {
	reply any
	err   error
	stamp time.Time // before the first byte was written; zero if none was
	taken bool      // the script took the lock, whatever err says
	acks  int       // so many replicas have what the script did; 0 if they were not asked
}

// finish hands the answer to who waits, or to late if nobody does.
func (r *request) finish(reply any, err error) {
	r.answer.reply, r.answer.err = reply, err
	if r.state.CompareAndSwap(pending, answered) {
		r.done <- struct{}{}
	} else if r.late != nil {
		r.late(r.answer)
	}
}

// send writes the request into conn's buffer.
func (r *request) send(conn redis.Conn) error {
	if r.asking {
		if err := conn.Send("ASKING"); err != nil {
			return err
		}
	}
	if r.eval {
		r.wire[0] = r.script.Text()
		return conn.Send("EVAL", r.wire...)
	}
	return conn.Send("EVALSHA", r.wire...)
}

// noScript reports whether the server did not run the script because it does
// not know its SHA.
func noScript(err error) bool {
	reply, ok := err.(redis.Error)
	return ok && hasWord(string(reply), "NOSCRIPT")
}
