package lock

// How package lock works: for those who change it. What it promises is in
// doc.go, at Held and at Client.
//
// # Packages
//
// Those of lock/internal do one thing each, and import nothing of lock:
//
//	keys       names of keys and channels
//	owner      who holds a lock, and how a context carries that
//	wire       what goes to Redis in a call of a script, and what comes back
//	sender     sends calls to the servers of their keys
//	orphans    gives back what nobody answers for
//	hold       one acquisition, from its first script to its last
//	locktable  the holds and the waiting calls of a client, by name
//	waitqueue  who of a client's callers is next, and when; without I/O
//	several    when members are one lock: votes, a quorum, who may come back, how calls wait
//	watch      channels and contexts that end together
//	backlog    work that its callers must not wait for
//	wait       pauses, deadlines that many calls share, and the source of randomness
//	role       the names of goroutines in profiles
//	carrier    the renewals of many holds in one call
//	servers    the servers of a client, and pipe, pubsub, dialing and resp their connections
//	diagnosis  what Client.Check asks, what an answer or a setting means, and what to do
//
// What is left in lock is what users hold: each object in the file of its name, Client and its
// Config, errors, hooks and counts. Held is package hold's, and errormaker.go makes the errors that
// users know for the packages below.
//
// # Words
//
//	hold      what a client has of a lock, or permits; several Helds may share it
//	keeper    what the holds of a client share
//	attempt   one outermost acquisition on its way
//	try       to send Redis the script that takes a lock, once
//	run       holds that are handed on in memory, under one field in Redis
//	orphan    a field, or a call, that nobody answers for
//	owed      of a field: named to attempts, whose scripts remove it
//	line      the callers of one client that wait for one lock; the first one tries
//	probe     when the first of a line tries again
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
// to 6 x MaxPoll, as long as pings show that the subscription loses nothing.
// Package waitqueue decides who is next, and when.
//
// Calls that wait for a Mutex of their own client do not ask Redis. While there
// are any, the client asks about its hold once in every MaxPoll, by a renewal
// that shares a batch with others. It also asks after ForceUnlock, after a call
// that its own hold stood in the way of, and if Redis gives it a lock that it
// already has (package locktable).
//
// When a client unlocks and has waiters itself, the first of them gets the
// lock. A Mutex is handed over in memory, for 100 ms after a script that
// reserved tokens for that (package hold). Other locks, and a Mutex later, are handed
// over by one script that releases and acquires. After 16 to 64 of these
// hand-overs, or 100 ms, the script releases the lock if other clients wait,
// and the client lets them have their turn first. The waiters of a FairMutex
// each have a place in Redis instead.
//
// # Strangers
//
// A stranger is a client of Redisson that waits for a Mutex. It hears of a
// release when we do, but a JVM takes milliseconds to try, and would always come
// too late. A refusal says when a stranger has the lock: its field has one colon.
// While strangers are near, this library and they have turns of equal number and
// length. After a release of ours nobody of us tries for 5 ms. A release of
// theirs is ours, but their next thread may be faster; then we have as many turns
// in a row as they had. A client that had its turn tries a little later than
// others of ours. A stranger counts as near for a second after it was seen, and
// for a minute if no pause was in vain. Package locktable keeps what is known, of
// at most 64 names in a shard. Package waitqueue has the rule (Strangers).
//
// A stranger that never gets the lock is never seen. So at the beginning of each
// half second, by the server's clock, all clients that wait pause at one release.
// They do so together, because one that does not pause would take the lock.
// Clients that defer to others look who has it then, too. A waiter also pauses
// after a hold of 250 ms, and a client without waiters four times a second if
// others were told of its release. If a client hears no messages, it pauses for
// its own releases alone.
//
// # Goroutines and locks
//
// These goroutines live as long as the client: two for each connection, those
// that renew, the wheel's, and one that follows the Topology. Others end with
// their task: they release what a caller left, take lost holds out of the
// tables, call Hooks.Lost, or ask a member of a RedLock. No lock and no waiter
// has a goroutine of its own. Profiles show what a goroutine is for, under the
// label "wheellock".
//
// Holds and waiters are in a table of 64 shards, by the names of their locks.
// shard.mu guards what is in a shard, hold.mu one hold, watch.mu what a Held
// gave out. No mutex is held during I/O or while a hook runs. No mutex is taken
// while another one is held, with three exceptions. Under shard.mu the state of
// a lease is read, and what was heard of a channel. Under the mutex of a
// RedLock's line it is read which members an owner has. The scripts of one hold
// are sent one after the other.
//
// # What is counted and told
//
// Every call that takes a lock or permits passes telling.ended once, with its outcome,
// and every loss Hold.Lost. Counters are atomic adds. How long holds last is a sum that
// a shard keeps when their number changes, because an instant in each hold would make it
// 16 bytes larger. Two marks of the hold keep Acquired before Lost.
//
// # Failure
//
// Every acquisition has a hash field of its own, <client uuid>:<owner>:<seq>.
// Only those to whom it is handed in memory use it again. Scripts set counts
// instead of adding to them, and no script lowers a TTL. Package pipe says how
// requests expire. While a request that ended unknown may still be carried out,
// only the release of its hold is sent (package hold).
//
// A connection whose oldest request is older than Config.IOTimeout is closed.
// Its requests are then unknown, and the next request dials. Lock goes on with
// a new field. The next acquire script removes the old field. A caller that
// leaves early breaks no connection: a lock that a late answer brings is
// released. Redis remembers the requests of semaphores and latches for 30 s, so
// a repeated request gets the first answer. None is carried out later than 20 s
// after its first byte.
//
// # Cost
//
// Lock and Unlock are one script and one round trip each, pipelined with those
// of other goroutines. A held lock takes about 300 bytes. A client of one
// server has about ten goroutines and five connections once it is used.
