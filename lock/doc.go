// Package lock is a Redis lock engine in Redisson's wire format: a lock is renewed
// until it is unlocked, and if it is lost its holder is told before another can
// have it. Go and Java processes share locks on one Redis.
//
//	client, err := lock.Open("redis://localhost:6379", lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//	ctx = held.Context(ctx) // ends when the lock is lost
//	...
//	err = held.Unlock(ctx)
//
// A lock is held by an owner, which takes the place of Java's thread. Lock makes a
// fresh owner unless its context carries one, as those of Held.Context and WithOwner
// do. Calls with the same owner do not exclude each other: they re-enter.
//
// # What there is
//
//	Client.Mutex            RLock                        hash {owner: count}
//	Client.FencedMutex      RFencedLock                  and a counter of tokens
//	Client.FairMutex        RFairLock                    and a queue
//	Client.RWMutex          RReadWriteLock               hash with a mode, a key per reader
//	Client.PermitSemaphore  RPermitExpirableSemaphore    counter, sorted set of deadlines
//	Client.Semaphore        RSemaphore                   counter
//	Client.CountDownLatch   RCountDownLatch              counter
//	NewMultiLock            RedissonMultiLock            several locks as one
//	NewRedLock              RedissonRedLock              a majority of independent masters
//
// New and Open make a Client of one server, NewTopology of a Sentinel's master or a
// Cluster (packages sentinel and cluster).
//
// # What it promises
//
//   - No two owners hold a lock at the same time, as long as Redis keeps the key.
//     A hold is trusted until shortly before Redis would let its key expire
//     (package renewal); at that moment Held.Done and Held.Context end.
//   - Any request may be lost, repeated or late. Every acquisition has a hash field
//     of its own, <client uuid>:<owner>:<seq>, that is never used again. Scripts
//     set counts instead of adding to them, and none lowers a TTL.
//   - Errors tell "Redis said no" (ErrNotAcquired, ErrNotHeld, ErrLost) from "it is
//     not known" (ErrUnknown).
//   - Fencing tokens rise from holder to holder; after a failover, or when Redis was
//     emptied, if the clocks of the clients differ by less than the time between two
//     acquisitions.
//   - A waiter is woken by the release. If pub/sub fails or is not permitted, it is
//     delayed by at most Config.MaxPoll.
//   - A server that hangs costs only the locks that live on it.
//   - When Close returns, no goroutine of the client runs.
//
// # What it does not promise
//
// It cannot protect what a holder does after it was told, or while its process
// stands still. Only the resource can, by checking Held.Token. If Redis loses the
// key (a failover to a replica that did not have it, eviction, DEL, a clock that
// is set forward), another may have the lock at once; the holder is told at its
// next renewal.
//
// Permits and fair queues have times of day in their format. Another may get a permit
// before its holder is told if some client's clock is ahead of the holder's by more than
// Config.Margin. A waiter of a FairMutex may lose its place to a Java process whose clock
// is 8 s ahead.
//
// # States of a hold
//
//	         acquired, in time                     last Unlock
//	attempt ───────────────────▶ held ───────────────────────────▶ leaving
//	   │                         │  ▲ │                              │ answered
//	   │ unknown, or too late    │  └─┘ re-entry, partial Unlock     ▼
//	   ▼                         │ not the owner, trust ended,     released
//	owed: the client releases    ▼ MaxHold, expired, closed
//	the field until its TTL      lost
//	is over
//
// # Waiting
//
// The waiters of one client for one lock stand in a queue, and only the first talks to
// Redis. It tries, listens to the lock's channel, tries once more when the subscription
// is confirmed, and then sleeps until a message, the end of the holder's lease, or
// MaxPoll; for a Mutex 6 x MaxPoll, as long as pings show that the subscription loses
// nothing. Package waitqueue decides who is next, and when.
//
// When the client that unlocks has waiters itself, one script releases the lock and
// acquires it for the first of them. After some of these hand-overs, or 100 ms, it is
// really released, and the client lets other clients have their turn first. The
// waiters of a FairMutex each have a place in Redis instead.
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
// # Failure
//
// A connection whose oldest request is older than Config.IOTimeout is closed. Its
// requests are unknown then, and the next request dials. Lock goes on with a new
// field; the old field is owed, and the next acquire script removes it. A caller
// that leaves early breaks no connection: a lock that a late answer brings is given
// back. What semaphores and latches are asked is remembered by Redis for 30 s, so a
// repeated request gets the first answer.
//
// # Cost
//
// Lock and Unlock are one script and one round trip each, pipelined with those of
// other goroutines. A held lock takes some 300 bytes. A client of one server has
// about ten goroutines and five connections once it is used.
package lock
