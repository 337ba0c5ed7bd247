package lock

// This file explains how package lock works, for developers who change it. The
// promises are in doc.go, at Held and at Client.
//
// # Packages
//
// The packages of lock/internal do one thing each, and do not import package lock. They stand in
// five folders.
//
// engine is what a lock is:
//
//	hold       one acquisition, from its first script to its last
//	locktable  the holds and the waiting calls of a client, by name
//	waitqueue  which of a client's callers tries next, and when; without I/O
//	orphans    gives back what no caller is responsible for
//	quorum     several members as one lock: votes, a quorum, members that come back, waiting
//	watch      channels and contexts that end together
//	owner      who holds a lock, and how a context carries the owner
//
// transport brings requests to servers and answers back:
//
//	network    what the engine sees of the servers: scripts, messages, renewals
//	servers    the servers of a client, and which of them has a key
//	pipe       the connections for scripts
//	renewer    the renewals of many holds in one call
//	pubsub     the connection for messages
//	resp       requests and replies as they go over a connection
//	dialing    opening a connection within a limit
//	endpoint   what a URL says
//
// format is what Redis and Redisson read:
//
//	keys       names of keys and channels
//	wire       the calls of scripts that go to Redis, and the answers
//
// support knows no locks:
//
//	work       work for which its callers must not wait, and the names of goroutines in profiles
//	wait       pauses, deadlines that many calls share, and the source of randomness
//	record     every record of the log in one table, with its bound
//	diagnosis  what Client.Check asks, what an answer or a setting means, and what to do
//
// proof is only for tests:
//
//	twin       a model of the scripts, with which tests compare them
//	simulation runs the product under a scheduler
//
// Package lock itself has the types that users see: each object in the file of
// its name, Client and its Config, errors, hooks and counts. Held is a type of
// package hold. errormaker.go makes the exported errors for the internal packages.
//
// # Words
//
//	hold      one acquisition of a lock or of permits; several Helds may share a hold
//	engine    the state that the holds of a client share (hold.Engine)
//	attempt   one outermost acquisition that has not ended yet
//	try       to send Redis the script that takes a lock, once
//	run       a sequence of holds that are handed over in memory, under one field in Redis
//	orphan    a field, or a call, for which no caller is responsible any more
//	owed      of a field: the next acquire scripts must remove it
//	line      the callers of one client that wait for one lock; only the first one tries
//	probe     a try, in package waitqueue; a Probe decides when the next one is due
//	stranger  a client of Redisson that waits for a lock
//	lane      the renewals of one server
//	confirm   to ask Redis about a hold without extending it
//	look      to compare a hold with the clock
//
// # Waiting
//
// The waiters of one client for one lock stand in a queue, and only the first
// of them sends requests to Redis. It tries, listens to the lock's channel, and
// tries once more when the subscription is confirmed. Then it sleeps until a
// message, the end of the holder's lease, or MaxPoll. For a Mutex it sleeps up
// to 6 x MaxPoll, as long as pings show that the subscription loses no message,
// and requests show that the server has not become a replica (package pubsub).
// Package waitqueue decides which caller is next, and when.
//
// Calls that wait for a Mutex of their own client do not ask Redis. While there
// are such calls, the client asks about its hold once every MaxPoll, by a renewal
// that shares a batch with others. The client also asks after ForceUnlock, after
// a call that failed because of its own hold, and if Redis gives the client a
// lock that it already has (package locktable).
//
// When a client unlocks and has waiters itself, the first of them gets the
// lock. A Mutex is handed over in memory, for 100 ms after a script that
// reserved tokens for the hand-overs (package hold). Other locks, and a Mutex
// later, are handed over by one script that releases and acquires. After 16 to 64
// of these hand-overs, or 100 ms, the script releases the lock if other clients
// wait, and the client lets them have their turn first (P12). The waiters of a FairMutex
// have places in Redis instead. Their signs of life share requests: one request
// per lock is under way at a time, for up to 128 waiters.
//
// # Strangers
//
// A stranger is a client of Redisson that waits for a Mutex. It receives the
// message of a release when our clients do, but a JVM takes milliseconds to try,
// and would always come too late. A refusal shows when a stranger has the lock,
// because the stranger's field has one colon. While strangers are near, our
// clients and the strangers take turns of equal number and length. After a
// release of ours, no client of ours tries for 5 ms. After a release of a
// stranger it is our turn, but the stranger's next thread may be faster. Then we
// take as many turns in a row as the strangers had. A client that had its turn
// tries a little later than our other clients. A stranger counts as near for a
// second after it was seen, and for a minute if no pause was in vain. Others may
// take what is left to strangers: clients of an earlier version, or of a third
// library. The TTL of the next holder tells that, if all have the same lease. If
// strangers get less than two thirds, nothing is left to them any more, except at
// the releases at which all clients pause together, see below. Package locktable
// keeps this state for at most 64 names in a shard. Package waitqueue has the rule
// (Strangers).
//
// A stranger that never gets the lock is never seen. So at the beginning of each
// half second, by the server's clock, all clients that wait pause at one release.
// They pause together, because a client that does not pause would take the lock.
// Then clients that defer to others also ask which client has the lock. A waiter also
// pauses after a hold of 250 ms. A client without waiters pauses four times a
// second if others received the message of its release. A client that receives
// no messages pauses only for its own releases.
//
// # Goroutines and locks
//
// These goroutines live as long as the client: two for each connection, those
// that renew, the wheel's, and one that follows the Topology. Other goroutines
// end with their task: to release what a caller left behind, to take lost holds
// out of the tables, to call Hooks.Lost or Hooks.Renewed, to write the log, or to
// ask a member of a RedLock. No lock and no waiter has a goroutine of its own.
// Profiles show the task of a goroutine under the label "wheellock".
//
// Holds and waiters are in a table of 64 shards, by the names of their locks.
// shard.mu guards the content of a shard, hold.mu guards one hold, and watch.mu
// guards the channels and contexts of a Held. No mutex is held during I/O or
// while a hook runs. No mutex is taken while another one is held, with four
// exceptions. Under shard.mu, the client reads the state of a lease, and the
// messages of a channel. Under the mutex of a RedLock's line, it reads which
// members an owner has. Under the mutex of a connection's queue, it reads whether
// requests are in flight (package pipe). The scripts of one hold are sent one after
// the other.
//
// # What is counted and told
//
// Every call that takes a lock or permits calls telling.recordCall once, with its
// outcome. Every loss calls Hold.Lost. Counters are atomic adds. A shard sums how
// long its holds last whenever their number changes, because an instant in each
// hold would make the hold 16 bytes larger. Two flags of the hold make sure that
// Acquired is called before Lost.
//
// # Failure
//
// Every acquisition has a hash field of its own, <client id>:<owner>:<seq>. Only
// a hand-over in memory uses the field again. Scripts set counts instead of
// adding to them, and no script lowers a TTL below the lease of a hold. Package pipe
// says how requests expire. While a request whose outcome is unknown may still be
// carried out, only the release of its hold is sent (package hold).
//
// The client closes a connection whose oldest request is older than
// Config.IOTimeout. The outcome of the connection's requests is then unknown, and
// the next request dials. Lock tries again with a new field. The next acquire
// script removes the old field. A waiter of a FairMutex keeps its field and its
// place (package hold). A caller that stops waiting breaks no connection.
// If a late answer brings the lock, the client releases it. Redis remembers the
// results of semaphores' and latches' requests for 30 s, so a repeated request
// gets the first answer. No such request is carried out later than 20 s after its
// first byte was sent.
//
// # Cost
//
// Lock and Unlock are one script and one round trip each, pipelined with those
// of other goroutines. While one or two are under way, the caller sends and receives
// by itself (package pipe). A held lock takes about 300 bytes. A client of one
// server has about ten goroutines and five connections once it is used.
