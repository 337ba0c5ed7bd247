// Package pipe carries script calls to a server: a request is completed exactly
// once, whatever becomes of its connection.
//
// It also says what follows from NOSCRIPT, ASK, MOVED, READONLY, TRYAGAIN and
// LATE, for everything that is sent to Redis. No other package knows these
// answers.
//
//	r := requests.New(key, script.Acquire, 2, late, args)
//	p.Put(r)
//	answer := requests.Await(ctx, r)
//
// A [Pipe] is one connection for any number of callers. A [Replicated] carries
// acquisitions that replicas must have too.
//
// # What it promises
//
//   - A request that was put gets exactly one [Answer]. Await returns it to the
//     caller. If the caller has left, the function late that was given to New
//     gets it.
//   - A caller may leave at any time. Await then returns the context's error,
//     which says nothing about the script. The connection stays in use.
//   - Answer.Stamp is not later than the first byte of the request. So what
//     Redis was told to keep for some time is kept at least that long after
//     Stamp. If Stamp is zero, no byte was written, and the script never runs.
//   - If the error is not a reply of Redis and Stamp is not zero, the outcome
//     is unknown: the script may have run, and may still run until Answer.Open.
//   - A request whose caller has left is not written, and not sent again.
//   - Requests of one Pipe are written in the order in which they were put,
//     except those that are sent again because they did not run.
//   - A connection of an earlier epoch than Config.Epoch's is not used.
//
// A request that may have run is never repeated.
//
// # How an answer is read
//
// VerdictOf says what follows from an answer, for commands, acquisitions with
// WAIT, renewal batches and pub/sub. This is what a Pipe and a Replicated do:
//
//	Final      a value, or an error reply: the caller gets it
//	Parted     TRYAGAIN, or a key that a script met has moved before the others: the
//	           caller gets the error
//	AsText     NOSCRIPT: nothing ran. The text is sent over the same Pipe, so that the
//	           server knows it. NOSCRIPT in answer to text is Final
//	Late       the call came after its limit, and nothing ran. It is sent again over the
//	           same Pipe with another limit, at most twice
//	Elsewhere  MOVED, ASK: nothing ran. Config.Redirect puts the request at the server
//	           that has the key, at most five times; after ASK it is sent with ASKING.
//	           Without Config.Redirect it is Final
//	Demoted    READONLY: the caller gets the error. The connection is closed, because
//	           the next dial may find the new master
//	Broken     no reply: the connection is closed, and its requests are unknown
//
// A script that concludes something from missing keys does not follow an ASK:
// the keys may not have arrived yet. If Redis refused to publish a script's
// message, Config.Unpublished is called.
//
// # Requests that expire
//
// After a client has closed a connection, the kernel still delivers what is in
// its buffers. So a script that takes or changes something gets a time limit
// (script.Script.Expires): the server's time at the write plus Config.Timeout.
// The server refuses a request that comes later.
//
// Each connection has a [Clock] for that. A limit is too early only if the
// server's clock was set. Requests to a server that does not tell its time have
// no limit.
//
// # States of a request
//
//	       Put          write            read
//	New ────────▶ queue ───────▶ inflight ────▶ answered ──▶ Await returns
//	                ▲               │  │
//	                └── not run ────┘  └ the connection fails, Close ──▶ answered: unknown
//
//	anywhere before answered, the caller leaves ──▶ abandoned: late gets the answer
//
// One compare-and-swap decides between the completion and a caller that leaves.
//
// # Replicas
//
// WAIT covers what its own connection has written, and delays everything behind
// it there. So these acquisitions use their own connections. A refusal is
// answered at once. Up to 128 requests that took something share one WAIT.
// Answer.Acks says how many replicas have it; if too few have it, the caller
// undoes it. If WAIT fails, Answer.Taken says that the lock was taken all the
// same.
//
// # Goroutines, locks and failure
//
// A Pipe has one goroutine that writes, and one per connection that reads. A
// Replicated has one per connection. Close fails what is left, and what is put
// later, and returns when all of them have ended. The context that was given to
// New must end before Close is called; otherwise a dial may delay Close.
//
// Pipe.mu guards the queue and which connection is in use, conn.mu what is in
// flight on it, Replicated.mu its queue and its connections. No lock is held
// during I/O, including closing, nor while late or a function of Config runs,
// nor together with another one.
//
// A connection whose oldest request is older than Config.Timeout is closed; it
// is checked twice, because this process may be the slow one. Its requests are
// completed at once, and the next request dials. The reader of a Pipe always
// reads, so a connection that is closed while it is idle is not used. An answer
// while nothing is in flight ends the connection.
package pipe
