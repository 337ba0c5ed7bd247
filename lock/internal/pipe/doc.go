// Package pipe carries script calls to a server: a request is completed exactly
// once, whatever becomes of its connection.
//
// It also says, for all that is sent to Redis, what follows from NOSCRIPT, ASK, MOVED,
// READONLY, TRYAGAIN and LATE. They are understood here and nowhere else.
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
//   - A request that was put gets exactly one [Answer]. Its caller has it from
//     Await, or, if the caller has left, the function late that New got.
//   - A caller may leave at any time. Await then returns the context's error, which
//     says nothing about the script. No connection is lost by it.
//   - Answer.Stamp is not later than the first byte of the request. So what Redis was
//     told to keep for a while is kept at least that long after Stamp. If Stamp is
//     zero, no byte was written, and the script is never run.
//   - If the error is no reply of Redis and Stamp is not zero, the outcome is unknown:
//     the script may have been run, and may still be until Answer.Open.
//   - What its caller has left is not written any more, nor sent again.
//   - Requests of one Pipe are written in the order in which they were put, except
//     those that are sent again because they were not run.
//   - A connection of an earlier epoch than Config.Epoch's is not used.
//
// It does not repeat what may have been run.
//
// # How an answer is read
//
// VerdictOf says what follows from an answer. Commands, acquisitions with WAIT,
// renewal batches and pub/sub all go by it. What a Pipe and a Replicated do:
//
//	Final      a value, or an error reply: it is the caller's
//	Parted     TRYAGAIN, or a key that a script met has gone ahead of the others: the
//	           error is the caller's
//	AsText     NOSCRIPT: nothing was run. The text goes over the same Pipe, which
//	           makes the server know it. NOSCRIPT in answer to text is Final
//	Late       the call came after its limit, and nothing was run. It gets another one,
//	           twice at most, and goes over the same Pipe
//	Elsewhere  MOVED, ASK: nothing was run. Config.Redirect puts the request at the
//	           server that has the key, at most five times; behind ASK it is sent
//	           with ASKING. Without Config.Redirect it is Final
//	Demoted    READONLY: the error is the caller's. The connection is given up,
//	           because the next dial may find the new master
//	Broken     no reply: the connection is given up, and its requests are unknown
//
// A script that concludes something from keys that it does not find does not follow
// an ASK: they may not have arrived yet. If Redis refused to publish a script's message,
// Config.Unpublished is told.
//
// # Requests that expire
//
// A connection that a client has closed goes on delivering what is in the kernel's
// buffers. So a script that takes or
// changes something gets a time limit (script.Script.Expires): what the server's clock
// will show Config.Timeout after the write. The server refuses what comes later.
//
// Each connection has a [Clock] for that, which is asked anew once a minute, with the
// next write, and learns from each LATE. No limit is too early, unless the server's
// clock was set. If that seems to happen twice in a row, several servers answer at one
// address: the connection's requests have no limit from then on. Nor have those to a
// server that does not tell its time. After a clock was set back, limits are too far
// away, by as much, until it is asked again.
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
// The completion and a caller that leaves race for one compare-and-swap.
//
// # Replicas
//
// WAIT covers what its own connection has written, and holds up everything behind it
// there. So these acquisitions use connections of their own. A refusal is answered at
// once. Up to 128 requests that took something share one WAIT. Answer.Acks says how many replicas have it; the caller undoes what too
// few have. If WAIT fails, Answer.Taken says that the lock was taken nevertheless.
//
// # Goroutines and locks
//
// A Pipe has a goroutine that writes, and one per connection that reads; a Replicated
// has one for each of its connections. Close fails what is left, and what is put
// later, and returns when all of them have ended. The context that New got must end
// before Close is called; otherwise a dial may delay it.
//
// Pipe.mu guards the queue and says which connection is in use, conn.mu what is in
// flight on it, Replicated.mu its queue and its connections. None is held during I/O,
// closing included, nor while a function of Config or late runs, and none nests in
// another.
//
// # Failure
//
// A connection whose oldest request is older than Config.Timeout is given up. It is
// looked at twice before, because this process may be the slow one. The reader of a
// Pipe always reads, so a connection that is closed while it is idle is not used. An
// answer while nothing is in flight ends the connection. When a connection fails, its
// requests are completed at once, and the next request dials.
package pipe
