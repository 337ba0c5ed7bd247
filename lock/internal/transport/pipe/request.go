package pipe

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// The states of a Request. The goroutine that completes it and a caller that leaves
// both try to end pending. The first one decides how the request ends.
const (
	pending   uint32 = iota // to answered by its completion; to abandoned by a caller that leaves
	answered                // the caller takes the answer
	abandoned               // its caller has left: onUnawaited is called with the answer
	posted                  // fire and forget: it is sent although no caller waits; onUnawaited is called with the answer
)

// Request is one script call to a server, with its answer. Put gives the Request to a
// connection, which completes it exactly once.
type Request struct {
	// immutable after New
	key         string // the name that the caller gave: it chooses the server and the connection
	onUnawaited func(Answer)

	state     atomic.Uint32
	isEncoded atomic.Bool   // the whole request is in the batch, so no writer reads it any more
	done      chan struct{} // of capacity 1: gets a token when answered

	// owned by the connection until it is completed
	script         *script.Script
	keys           int       // how many of args are keys
	args           resp.Args // without the time limit
	limit          int64     // of a script that expires; 0 is none
	asText         bool      // the server has forgotten the SHA
	needsAsking    bool      // ASKING is sent before it, because its slot is moving to this server
	askingAnswered bool      // the ASKING was answered
	hops           uint8     // redirections so far
	lates          uint8     // how often it reached the server after its limit and got another limit
	clockChanges   uint8     // how often LATE contradicted what was known of the server's clock
	answer         Answer

	postCount *atomic.Int32 // counts r until it is completed; nil if it is not counted

	callCount *atomic.Int32 // counts r until Await returns; nil if it is not counted; used by the caller

	notAfter time.Time    // see Within; zero without a limit
	question questionKind // of a connection's own question, which has no script
}

// questionKind says what a connection itself asks.
type questionKind uint8

const (
	noQuestion       questionKind = iota // a script call
	timeQuestion                         // TIME
	timeByScript                         // the time too, see Clock.AskByScript
	masterQuestion                       // whether the server is a replica, see masterCheck
	replicasQuestion                     // WAIT; Exchange.Next returns its answer like that of a script call
)

// timeScript answers as TIME does.
const timeScript = "return redis.pcall('time')"

// newQuestion returns a question of a connection itself, which is sent now. key is the key about which it
// asks, if it needs one. No caller waits for it.
func newQuestion(what questionKind, now time.Time, key string) *Request {
	q := &Request{question: what, key: key}
	q.Post()
	q.answer.Stamp = now
	return q
}

// Answer is the result of a Request.
type Answer struct {
	Reply resp.Reply
	Err   error
	Stamp time.Time // before the first byte was written; zero if none was, or Redis said that it ran nothing
	// MayRunUntil is the time until which a request with an unknown outcome may still be carried
	// out. It is zero if that time is not known, or nothing was written.
	MayRunUntil time.Time
	IsAbandoned bool // the caller left before the answer came; the function late of New gets the answer
	Taken       bool // the script took the lock, whatever Err says
	Acks        int  // the number of replicas that have what the script did; 0 if they were not asked
}

// Requests makes requests and uses their memory again. The zero Requests works. All
// methods are safe for concurrent use.
type Requests struct {
	pool sync.Pool // of *Request
}

// New returns a pending request for s. The first keys of args are keys. args is copied.
// key chooses the connection. If the answer comes when no caller waits for it, late gets
// it. late may be nil, and must not wait.
func (rs *Requests) New(key string, s *script.Script, keys int, late func(Answer), args resp.Args) *Request {
	r, _ := rs.pool.Get().(*Request)
	if r == nil {
		r = &Request{done: make(chan struct{}, 1)}
	}
	r.key, r.script, r.onUnawaited = key, s, late
	r.keys, r.args = keys, args.Into(r.args)
	return r
}

// Set makes r a call whose answer the user of an Exchange reads, so no caller waits for r. The first
// keys of args are keys. asking sends ASKING before it. r must not be in flight.
func (r *Request) Set(s *script.Script, asText, asking bool, keys int, args resp.Args) {
	r.script, r.asText, r.needsAsking, r.askingAnswered = s, asText, asking, false
	r.keys, r.args = keys, args
}

// Emptied returns empty arguments for Set, in the memory of r's present arguments. r must not be in
// flight.
func (r *Request) Emptied() resp.Args { return r.args.Emptied() }

// Within makes r be carried out by last or not at all, as far as the server's clock is
// known. Call it before Put.
func (r *Request) Within(last time.Time) { r.notAfter = last }

// stamp records that r is about to be written, and until when it may be carried out by the server's
// clock.
func (r *Request) stamp(now time.Time, clock *Clock, timeout time.Duration) {
	r.isEncoded.Store(false)
	r.answer.Stamp = now
	if !r.script.Expires() {
		return
	}
	if !r.notAfter.IsZero() {
		timeout = min(timeout, wait.Left(r.notAfter, now))
	}
	r.limit, r.answer.MayRunUntil = clock.Limit(now, timeout)
}

// markNotRun records that r was not carried out, and will not be unless it is written again.
func (r *Request) markNotRun() { r.answer.Stamp, r.answer.MayRunUntil = time.Time{}, time.Time{} }

// isExpired reports whether it is too late for r.
func (r *Request) isExpired(now time.Time) bool {
	return !r.notAfter.IsZero() && wait.Left(r.notAfter, now) <= 0
}

// Await returns the answer of r, which was put. If ctx ends first, Await leaves r and
// returns only ctx's error. In both cases r must not be used any more.
func (rs *Requests) Await(ctx context.Context, r *Request) Answer {
	if r.callCount != nil {
		defer r.callCount.Add(-1)
	}
	if ended := ctx.Done(); ended == nil {
		<-r.done // a select with one case costs twice as much
	} else {
		select {
		case <-r.done:
		case <-ended:
			if r.Abandon() {
				return Answer{Err: wait.Ended(ctx), IsAbandoned: true}
			}
			<-r.done
		}
	}
	a := r.answer
	rs.recycle(r)
	return a
}

// recycle keeps r for another call, when its caller has the answer. It does so only after
// an answer of Redis, and only if r was written completely, because a server that has too
// many clients refuses before it has read the request.
func (rs *Requests) recycle(r *Request) {
	if isBroken(r.answer.Err) || !r.isEncoded.Load() {
		return // a writer may still use r
	}
	*r = Request{args: r.args, done: r.done}
	rs.pool.Put(r)
}

// Acquires reports whether r takes a lock or permits for a hold.
func (r *Request) Acquires() bool { return r.script.Acquires() }

// Abandon says that no caller waits for r, so late gets its answer. It returns false if r
// was answered before.
func (r *Request) Abandon() bool { return r.state.CompareAndSwap(pending, abandoned) }

// Post says that no caller waits for r, but that r is still needed. It is sent until it is
// carried out or its connection fails. Call Post before Put.
func (r *Request) Post() { r.state.Store(posted) }

// isAbandoned reports whether the caller of r has left.
func (r *Request) isAbandoned() bool { return r.state.Load() == abandoned }

// Fail completes r with err and without an answer. Only the connection that has r may call it, or
// a caller that finds no connection for r.
func (r *Request) Fail(err error) { r.complete(resp.Reply{}, err) }

// complete gives the answer to the caller, or to onUnawaited if no caller waits.
func (r *Request) complete(reply resp.Reply, err error) {
	r.answer.Reply, r.answer.Err = reply, err
	if r.postCount != nil {
		r.postCount.Add(-1)
	}
	if !isBroken(err) {
		r.answer.MayRunUntil = time.Time{} // the outcome is known
	}
	if r.state.CompareAndSwap(pending, answered) {
		r.done <- struct{}{}
	} else if r.onUnawaited != nil {
		r.onUnawaited(r.answer)
	}
}

// addTo adds the request, or the question, to the batch that is written next.
func (r *Request) addTo(to *resp.Batch, cfg *Config) error {
	switch r.question {
	case timeQuestion:
		return to.Command("TIME")
	case timeByScript:
		return to.Command("EVAL", timeScript, "1", r.key)
	case masterQuestion: // it removes a field that nothing has, from a key that users may write
		return to.Command("HDEL", r.key, "")
	case replicasQuestion:
		return to.Command("WAIT", strconv.Itoa(cfg.Replicas), strconv.FormatInt(cfg.ReplicaTimeout.Milliseconds(), 10))
	}
	if r.needsAsking {
		if err := to.Command("ASKING"); err != nil {
			return err
		}
	}
	err := to.Script(r.script, r.asText, r.keys, r.args, r.limit)
	if err == nil {
		r.isEncoded.Store(true)
	}
	return err
}
