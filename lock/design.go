package lock

// How it works: for those who change this package. What it promises is said at Held and
// Client.
//
// # States of a hold
//
//	         acquired, in time                     last Unlock
//	attempt ───────────────────▶ held ───────────────────────────▶ leaving
//	   │                         │  ▲ │                              │ answered
//	   │ unknown, or too late    │  └─┘ re-entry, partial Unlock     ▼
//	   ▼                         │ not the owner, trust ended,     released
//	owed: the client releases    ▼ MaxHold, expired, closed
//	the field, again when its    lost
//	acquisition has expired
//
// # Waiting
//
// The waiters of one client for one lock stand in a queue, and only the first talks to
// Redis. It tries, listens to the lock's channel, tries once more when the subscription
// is confirmed, and then sleeps until a message, the end of the holder's lease, or
// MaxPoll; for a Mutex 6 x MaxPoll, as long as pings show that the subscription loses
// nothing. Package waitqueue decides who is next, and when.
//
// When the client that unlocks has waiters itself, the lock goes to the first of them:
// a Mutex in memory, for 100 ms after a script that reserved tokens for that (run.go),
// others and later by one script that releases and acquires. After 16 to 64 of these
// hand-overs, or 100 ms, the script releases the lock if other clients wait, and the
// client lets them have their turn first. The waiters of a FairMutex each have a place
// in Redis instead.
//
// # Goroutines and locks
//
// Two goroutines for each connection, those that renew, the wheel's, and one that
// follows the Topology live as long as the client. Others end with what they do: they
// give back what a caller left, take lost holds out of the tables, call Hooks.Lost, or
// ask a member of a RedLock. No lock and no waiter has one of its own.
//
// Holds and waiters are in tables in 64 shards, by the names of their locks. shard.mu
// guards those of a shard, hold.mu one hold, watch.mu what a Held gave out. No mutex is
// held during I/O or while a hook runs, and none is taken under another, except that
// under shard.mu the state of a lease is read, and what was heard of a channel. The
// scripts of one hold are sent one after the other.
//
// # What is counted and told
//
// Every call that takes a lock or permits passes Client.observe once, with its outcome,
// and every loss hold.lose. Counters are atomic adds. How long holds last is a sum that
// a shard keeps when their number changes, because an instant in each hold would make it
// 16 bytes larger. Two marks of the hold keep Acquired before Lost.
//
// # Failure
//
// Every acquisition has a hash field of its own, <client uuid>:<owner>:<seq>, that is
// never used again but by those whom it is handed to in memory. Scripts set counts
// instead of adding to them, and none lowers a TTL.
// Package pipe says how requests expire. While one that ended unknown may still be
// carried out, no other script of its hold is sent but the release (turn.go).
//
// A connection whose oldest request is older than Config.IOTimeout is closed. Its
// requests are unknown then, and the next request dials. Lock goes on with a new
// field; the old field is owed, and the next acquire script removes it. A caller
// that leaves early breaks no connection: a lock that a late answer brings is given
// back. What semaphores and latches are asked is remembered by Redis for 30 s, so a
// repeated request gets the first answer; none is carried out later than 20 s after its
// first byte.
//
// # Cost
//
// Lock and Unlock are one script and one round trip each, pipelined with those of
// other goroutines. A held lock takes some 300 bytes. A client of one server has
// about ten goroutines and five connections once it is used.
