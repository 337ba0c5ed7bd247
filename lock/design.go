package lock

// How package lock works: for those who change it. What it promises is in
// doc.go, at Held and at Client.
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
// The waiters of one client for one lock stand in a queue, and only the first
// of them sends requests to Redis. It tries, listens to the lock's channel, and
// tries once more when the subscription is confirmed. Then it sleeps until a
// message, the end of the holder's lease, or MaxPoll. For a Mutex it sleeps up
// to 6 x MaxPoll, as long as pings show that the subscription loses nothing.
// Package waitqueue decides who is next, and when.
//
// When a client unlocks and has waiters itself, the first of them gets the
// lock. A Mutex is handed over in memory, for 100 ms after a script that
// reserved tokens for that (run.go). Other locks, and a Mutex later, are handed
// over by one script that releases and acquires. After 16 to 64 of these
// hand-overs, or 100 ms, the script releases the lock if other clients wait,
// and the client lets them have their turn first. The waiters of a FairMutex
// each have a place in Redis instead.
//
// # Goroutines and locks
//
// These goroutines live as long as the client: two for each connection, those
// that renew, the wheel's, and one that follows the Topology. Others end with
// their task: they release what a caller left, take lost holds out of the
// tables, call Hooks.Lost, or ask a member of a RedLock. No lock and no waiter
// has a goroutine of its own.
//
// Holds and waiters are in tables in 64 shards, by the names of their locks.
// shard.mu guards the tables of a shard, hold.mu one hold, watch.mu what a Held
// gave out. No mutex is held during I/O or while a hook runs. No mutex is taken
// while another one is held, with two exceptions under shard.mu: reading the
// state of a lease, and reading what was heard of a channel. The scripts of one
// hold are sent one after the other.
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
// Every acquisition has a hash field of its own, <client uuid>:<owner>:<seq>.
// Only those to whom it is handed in memory use it again. Scripts set counts
// instead of adding to them, and no script lowers a TTL. Package pipe says how
// requests expire. While a request that ended unknown may still be carried out,
// only the release of its hold is sent (turn.go).
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
