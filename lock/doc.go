// Package lock takes locks in Redis and keeps very many of them renewed. If a
// lock is lost, its holder is told before another can have it. The format in
// Redis is that of Redisson, so Go and Java processes can share locks.
//
//	client, err := lock.Open("redis://localhost:6379", lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//	ctx = held.Context(ctx) // ends when the lock is lost
//	err = held.Unlock(ctx)
//
// # Words
//
// A lock is a key in Redis with a TTL, the lease. The client renews it until
// Unlock, every third of the lease. If the process dies, the lock is free after
// at most a lease.
//
// A lock is held by an owner, not by a goroutine. Lock makes a new owner,
// unless its context carries one, as that of [Held.Context] does. The same
// owner may lock again (re-entry). A hold begins with an owner's first Lock and
// ends with its last Unlock. Each Lock returns a [Held], which is given back by
// one Unlock.
//
// A hold is trusted until a margin before its lease ends in Redis. Trust moves
// on with every renewal that Redis has confirmed.
//
// # What it promises
//
//   - No two owners hold a lock at the same time, as long as Redis keeps its
//     key.
//   - When trust ends, the holder is told at once, whatever the network does:
//     [Held.Done] is closed, the contexts of [Held.Context] end, [Held.Valid]
//     is false. Redis keeps the key for the margin longer.
//   - An error says whether Redis refused ([ErrNotAcquired], [ErrLost]) or did
//     not answer ([ErrUnknown]).
//   - A request that arrives late or twice does no harm; [Client] says when
//     this holds.
//
// # What it does not promise
//
// If Redis loses the key, another owner may have the lock before the holder is
// told. That can happen in a failover, because Redis replicates asynchronously,
// when memory is full, or when somebody deletes the key. And no lock service
// can stop a process that was paused while it lost its lock. Against both the
// resource that the lock protects should check [Held.Token], a number that
// rises from holder to holder. README.md lists what can happen and what helps.
//
// # The kinds of locks
//
// Here, in Redisson, in Redis:
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
// Use Mutex unless you need what another kind adds. [New] and [Open] are for
// one server; [NewTopology] is for a master behind Sentinels and for a Redis
// Cluster.
//
// # Misuse
//
// A Held or a MultiHeld that is nil, zero or, of a Held, a copy panics with a
// text that begins with "lock: this". The zero values of the other types, a nil
// Client and a nil context panic as nil pointers do. New and Open return an
// error for every setting that is out of range.
//
// # In a service
//
// [Client] says how to shut down and what a health check looks at. The examples
// show leader election, 50,000 locks without a goroutine for each, a shutdown
// on SIGTERM, fencing, and metrics. Package locktest is a Redis in the memory
// of a test. design.go says how the package works.
package lock
