package pipe

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/lock/script"
)

// The states of a Request. The goroutine that completes it and a caller that leaves
// race for the way out of pending; the one that loses leaves the other in charge.
const (
	pending   uint32 = iota // to answered by its completion; to abandoned by a caller that leaves
	answered                // the caller takes the answer
	abandoned               // nobody waits any more: late is called with the answer
	posted                  // nobody waited from the beginning, so it is still wanted: as abandoned
)

// Request is one script call on its way to a server and back. Put gives it to a
// connection, which completes it exactly once.
type Request struct {
	// immutable after New
	key    string // the name that the caller gave: it chooses the server and the connection
	script *script.Script
	late   func(Answer)

	state atomic.Uint32
	sent  atomic.Bool   // no writer looks at it any more
	done  chan struct{} // of capacity 1: gets a token when answered

	// owned by the connection until it is completed
	wire   []any // SHA or text, number of keys, keys, ARGV
	asText bool  // the server has forgotten the SHA
	asking bool  // ASKING comes first: the key is on the server that its slot is just being moved to
	asked  bool  // the ASKING was answered
	hops   uint8 // redirections so far
	lates  uint8 // times that it came too late
	odd    uint8 // of those, when the server's clock was not what it had been
	answer Answer

	last     time.Time // see Within; zero without a limit
	asksTime bool      // of a connection: it is TIME and not a script
}

// Answer is what became of a Request.
type Answer struct {
	Reply any
	Err   error
	Stamp time.Time // before the first byte was written; zero if none was, or Redis said that it ran nothing
	// Open is until when a request of which nothing is known may still be carried out;
	// zero if that is not known, or nothing was written.
	Open  time.Time
	Left  bool // the caller left before the answer came, which late gets
	Taken bool // the script took the lock, whatever Err says
	Acks  int  // so many replicas have what the script did; 0 if they were not asked
}

// Requests makes requests, and uses them again. Its zero value is ready. All
// methods are safe for concurrent use.
type Requests struct {
	pool sync.Pool // of *Request
}

// New returns a pending request for s. Of args, which are copied, the first are so
// many keys. key chooses the connection. If the answer comes when nobody waits for
// it, late gets it; late may be nil, and must not wait.
func (rs *Requests) New(key string, s *script.Script, keys int, late func(Answer), args []any) *Request {
	r, _ := rs.pool.Get().(*Request)
	if r == nil {
		r = &Request{done: make(chan struct{}, 1)}
	}
	r.key, r.script, r.late = key, s, late
	r.wire = append(append(r.wire[:0], s.SHAArg(), keys), args...)
	if s.Expires() {
		r.wire = append(r.wire, noLimit)
	}
	return r
}

// noLimit is the argument of a request that may be carried out whenever it arrives.
var noLimit any = 0

// Within makes r, which was not put yet, be carried out by that time or not at all, as
// far as the server's clock is known.
func (r *Request) Within(last time.Time) { r.last = last }

// stamps are what the requests of one write have in common.
type stamps struct {
	now     time.Time
	clock   *Clock
	timeout time.Duration
	limit   any // noLimit if the server's clock is not known
	open    time.Time
}

func (c *Clock) stamp(now time.Time, timeout time.Duration) stamps {
	st := stamps{now: now, clock: c, timeout: timeout, limit: noLimit}
	if limit, open := c.Limit(now, timeout); limit != 0 {
		st.limit, st.open = limit, open
	}
	return st
}

// stamp notes that r is about to be written, and until when it may be carried out.
func (r *Request) stamp(st *stamps) {
	r.answer.Stamp = st.now
	if !r.script.Expires() {
		return
	}
	limit, open := st.limit, st.open
	if left := r.last.Sub(st.now); !r.last.IsZero() && left < st.timeout && !open.IsZero() {
		limit, open = boxed(st.clock.Limit(st.now, left))
	}
	r.wire[len(r.wire)-1], r.answer.Open = limit, open
}

func boxed(limit int64, open time.Time) (any, time.Time) { return limit, open }

// notRun notes that nothing of r was carried out, and that nothing will be unless it is
// written again.
func (r *Request) notRun() { r.answer.Stamp, r.answer.Open = time.Time{}, time.Time{} }

// over reports whether it is too late for r.
func (r *Request) over(now time.Time) bool { return !r.last.IsZero() && !now.Before(r.last) }

// Await returns the answer of r, which was put. If ctx ends first it leaves r, and
// returns ctx's error alone. Either way r is not to be used any more.
func (rs *Requests) Await(ctx context.Context, r *Request) Answer {
	if left := ctx.Done(); left == nil {
		<-r.done // a select of one costs twice as much
	} else {
		select {
		case <-r.done:
		case <-left:
			if r.Leave() {
				return Answer{Err: ctx.Err(), Left: true}
			}
			<-r.done
		}
	}
	a := r.answer
	rs.recycle(r)
	return a
}

// recycle keeps r, whose caller has the answer, for another call. It does so
// only after an answer of Redis, and once r was written whole: a server that has too
// many clients refuses before it has read anything.
func (rs *Requests) recycle(r *Request) {
	if broken(r.answer.Err) || !r.sent.Load() {
		return // a writer may still look at it
	}
	clear(r.wire) // these are names of locks
	*r = Request{wire: r.wire[:0], done: r.done}
	rs.pool.Put(r)
}

// Key is the name that chooses the server and the connection.
func (r *Request) Key() string { return r.key }

// Acquires reports whether r takes something for a hold.
func (r *Request) Acquires() bool { return r.script.Acquires() }

// Leave says that nobody waits for r, so that late gets its answer. It returns false
// if r was answered before.
func (r *Request) Leave() bool { return r.state.CompareAndSwap(pending, abandoned) }

// Post says that nobody waits for r, which was not put yet, and that it is wanted all
// the same: it is sent until it was carried out or its connection failed.
func (r *Request) Post() { r.state.Store(posted) }

// left reports whether its caller has left r.
func (r *Request) left() bool { return r.state.Load() == abandoned }

// Fail completes r, which no connection has.
func (r *Request) Fail(err error) { r.complete(nil, err) }

// complete hands the answer to whoever waits, or to late if nobody does.
func (r *Request) complete(reply any, err error) {
	r.answer.Reply, r.answer.Err = reply, err
	if !broken(err) {
		r.answer.Open = time.Time{} // it was carried out, or will not be
	}
	if r.state.CompareAndSwap(pending, answered) {
		r.done <- struct{}{}
	} else if r.late != nil {
		r.late(r.answer)
	}
}

// send writes the request into conn's buffer.
func (r *Request) send(conn redis.Conn) error {
	if r.asking {
		if err := conn.Send("ASKING"); err != nil {
			return err
		}
	}
	command := "EVALSHA"
	if r.asText {
		command, r.wire[0] = "EVAL", r.script.Text()
	}
	if err := conn.Send(command, r.wire...); err != nil {
		return err
	}
	r.sent.Store(true)
	return nil
}
