// Package pipe carries script calls to a server: a request is completed exactly
// once, whatever becomes of its connection. NOSCRIPT, ASK, MOVED and READONLY are
// understood here and nowhere else.
//
//	r := requests.New(key, script.Acquire, 2, late, args)
//	p.Put(r)
//	answer := requests.Await(ctx, r)
//
// A [Pipe] is one connection for any number of callers. A [Replicated] carries
// acquisitions that replicas must have too. Both dial when they need a
// connection.
//
// # What it promises
//
//   - A request that was put gets exactly one [Answer]. Its caller has it from
//     Await, or, if the caller has left, the function late that New got.
//   - A caller may leave at any time. That breaks no connection and holds up nobody:
//     the answer is still read. Await then returns the context's error, which says
//     nothing of the script.
//   - Answer.Stamp is not later than the first byte of the request, so what Redis was
//     told to keep for a while is kept at least that long after it. If it is zero,
//     no byte was written, and the script is never run.
//   - An error that is no reply of Redis says that it is not known whether the script
//     was run, or still will be, unless Stamp is zero.
//   - Requests of one Pipe are written in the order in which they were put, except
//     those that are sent again because they were not run.
//   - A connection of an earlier epoch than Config.Epoch's is not used.
//
// It does not repeat what may have been run. It knows nothing of locks, owners,
// leases and nodes.
//
// # How an answer is read
//
// VerdictOf says what follows from an answer, for whoever sends something to Redis:
//
//	Final      a value, or an error reply: it is the caller's
//	AsText     NOSCRIPT: nothing was run. The text goes over the same Pipe, which
//	           makes the server know it
//	Elsewhere  MOVED, ASK: nothing was run. Config.Redirect puts the request at the
//	           server that has the key, at most five times; behind ASK it is sent
//	           with ASKING
//	Demoted    READONLY: the error is the caller's. The connection is given up,
//	           because the next dial may find the new master
//	Broken     no reply: the connection is given up, and its requests are unknown
//
// A script that concludes something from keys that it does not find does not follow
// an ASK: they may not have arrived yet. If Redis refused to publish the message of
// a script, Config.Unpublished is told, and the caller gets the number that the
// script answers otherwise.
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
// The completion and a caller that leaves race for one compare-and-swap. A request
// that Redis answered is used again; one that failed is not, because a writer may
// still read it.
//
// # Replicas
//
// WAIT asks for what its own connection has written, and everything behind it on the
// connection waits too. So acquisitions that replicas must have do not share a
// connection with others. Refusals are told at once. Those that took something wait
// together for one WAIT, and are told how many replicas have it (Answer.Acks); the
// caller undoes what too few have. If WAIT fails, Answer.Taken says that the lock
// was taken nevertheless. At most 128 share a WAIT; a caller that has left before
// its request was written is not served.
//
// # Goroutines and locks
//
// A Pipe has a goroutine that writes, and one per connection that reads; a Replicated
// has one for each of its connections. Close fails what is left, and what is put
// later, and returns when all of them have ended. The context that New got must have
// ended before, so that no dial holds it up.
//
// Pipe.mu guards the queue and says which connection is in use, conn.mu what is in
// flight on it, Replicated.mu its queue and its connections. None is held during I/O,
// closing included, nor while a function of Config or late runs, and none nests in
// another.
//
// # Failure
//
// A connection whose oldest request is older than Config.Timeout is given up, at
// the second look, because it may be this process that was slow. A dial may take as
// long. The reader of a Pipe always reads, so a
// connection that is closed while it is idle is noticed, and not used. An answer
// that nobody asked for ends the connection. Requests on a connection that fails
// are completed at once; the next one dials.
//
// # Cost
//
// Requests are written in batches, one write for all that are queued, and answers
// cost no goroutine switch but the caller's. A request that is used again allocates
// nothing.
package pipe
