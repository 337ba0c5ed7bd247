// Package pipe carries script calls to a server. A request is completed exactly
// once, even if its connection fails.
//
// It also says what follows from NOSCRIPT, ASK, MOVED, READONLY, TRYAGAIN and
// LATE. No other package knows these answers.
//
//	r := requests.New(key, script.Acquire, 2, late, args)
//	p.Put(r)
//	answer := requests.Await(ctx, r)
//
// A [Pipe] is one connection for any number of callers. A [Group] has the Pipes of a
// server. Group.Send is Put for a caller that calls Await next. A caller that is alone
// then writes the request and reads the answer itself. A [Replicated] carries
// acquisitions that replicas must also have.
//
// A request has a name, its key, which chooses the server and its usual connection. A
// request that is posted is fire and forget: no caller waits for it.
//
// # What it promises
//
//   - A request that was put gets exactly one [Answer]. Await returns it to the
//     caller. If the caller has left, the function late of New gets it.
//   - A caller may leave at any time. Await then returns the context's error,
//     which says nothing about the script. The connection stays in use. Send may
//     keep a caller for 5 ms more.
//   - Answer.Stamp is not later than the first byte of the request. So what
//     Redis was told to keep for some time is kept at least that long after
//     Stamp. If Stamp is zero, no byte was written, and the script never runs.
//   - If the error is not a reply of Redis and Stamp is not zero, the outcome
//     is unknown. The script may have run, and may still run until Answer.MayRunUntil.
//   - A request that may have run is never repeated.
//   - A request whose caller has left is not written, and not sent again.
//   - Requests of one name may arrive in any order, because they use several
//     connections. But none overtakes a request that was posted to the Group before,
//     unless one of them is sent again because it did not run.
//   - A connection of an epoch before Config.Epoch is not used.
//
// # One exchange
//
// An [Exchange] is a connection with its requests in flight. It writes them with their time
// limits, asks the questions of the connection itself (TIME, is it a replica), and says to which
// request an answer belongs and what follows from it. The connections of a Pipe, of a Replicated
// and of package renewer have one each. They differ in who reads, and in what they do with an
// answer.
//
// # How an answer is read
//
// VerdictOf says what follows from an answer, for commands, acquisitions with
// WAIT, renewal batches and pub/sub. A Pipe and a Replicated do this:
//
//	Final      a value, or an error reply: the caller gets it
//	Parted     TRYAGAIN: nothing ran. Or one key of a script has moved to another
//	           server before the other keys. The caller gets the error
//	AsText     NOSCRIPT: nothing ran. The text is sent over the same Pipe, so that the
//	           server knows it. NOSCRIPT in answer to text is Final
//	Late       the call came after its limit, and nothing ran. It is sent again over the
//	           same Pipe with another limit, at most twice
//	Elsewhere  MOVED, ASK: nothing ran. Config.Redirect puts the request at the server
//	           that has the key, at most five times; after ASK it is sent with ASKING.
//	           Without Config.Redirect ASK is Final, and MOVED is Demoted
//	Demoted    READONLY: the caller gets the error. The connection is closed, because
//	           the next dial may find the new master
//	Broken     no reply: the connection is closed, and its requests are unknown
//
// A replica refuses only writes. It answers a try for a lock that is held, because that
// only reads. A connection therefore asks from time to time whether its server is a replica, and is
// closed if so, or if it cannot be known for long because the server's disk fails (mastercheck.go).
// Requests behind that question are unknown.
//
// A script that also uses keys which its call does not name does not follow an
// ASK, because those keys may not have arrived yet (script.Script.Concludes). Its
// caller gets the ASK.
//
// # Requests that expire
//
// After a client has closed a connection, the kernel still delivers the bytes in
// its buffers. So a script that takes or changes something gets a time limit
// (script.Script.Expires): the server's time at the write plus Config.Timeout.
// The server refuses a request that comes later. Each connection has a [Clock]
// for that. A limit is too early only if the server's clock was set. Requests to
// a server that does not tell its time have no limit. After ten minutes without a request a
// connection is replaced, because its Clock may be wrong by then.
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
// WAIT covers the writes of its own connection, and delays everything behind
// it there. So these acquisitions have their own connections. A refusal is
// answered at once. Up to 128 requests that took something share one WAIT.
// Answer.Acks says how many replicas have the acquisition. If too few have it,
// the caller undoes it. If WAIT fails, Answer.Taken still says that the lock was
// taken.
//
// # A caller alone
//
// A lone request spends most of its time on waking the writer, the reader and
// the caller. The reader of a connection is called its resident. After
// Config.LeadAfter requests in a row that were alone, the resident stops and a
// caller of Send leads. The leader writes its request and waits for the answer for
// 5 ms. If the answer is not complete then, or other requests are in flight at the
// end, the resident continues. So requests in flight always have a reader.
//
// Before a write, a connection without a reader is checked, unless the last answer
// came within a millisecond. If bytes have come, the connection has failed. As a rule
// the resident reads again within Config.Timeout after the last request, and sees the
// end of an idle connection. It does not if the timer runs just while a leader ends. The
// check before the next write then sees that end. Only a connection of package resp over
// a socket can be led. A long request is always written by the writer, because a write
// that waits does not heed the context of its caller. See lead.go.
//
// # Some callers
//
// A Group chooses by the most calls that were under way at once not long ago:
//
//	1         the caller leads the connection of its name, as above
//	2         each caller leads a connection, whichever is idle
//	3 to 12   callers write to the connection of their name, and the resident reads
//	more      the writer of that connection writes many requests at once
//
// So requests of one name may use several connections. While a posted request is
// under way they do not, because they could overtake it.
//
// # Goroutines, locks and failure
//
// A Pipe has one goroutine that writes, and one per connection that reads. A
// Replicated has two per connection, one for each. Close fails all requests that
// are left or put later, and returns when all goroutines have ended. The context
// given to New must end before Close is called, or a dial may delay Close.
//
// Pipe.mu guards the queue and which connection is in use. Exchange.mu guards what
// is in flight and who reads, and Replicated.mu its queue and its connections. No lock is held
// during I/O, including closing, nor while late or a function of Config runs, except that
// Exchange.mu is held while Config.Dials runs. No lock is taken under another one, except
// that Pipe.mu is held while the connection is asked whether it is busy or dead, under Exchange.mu.
//
// A connection whose oldest request is older than Config.Timeout is closed. WAIT may
// take Config.ReplicaTimeout more. The age is checked again after Timeout/16, because
// this process may be the slow one. All requests of the connection are then completed,
// and the next request dials. A connection that was closed while it was idle is not
// used (P35). An answer while nothing is in flight ends the connection.
package pipe
