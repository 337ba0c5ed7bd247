// Package lock takes locks in Redis and keeps very many of them renewed. A
// holder learns that its lock is lost before another owner can take it. The
// format in Redis is that of Redisson, so Go and Java processes can share locks (P6).
//
//	client, err := lock.Open("redis://localhost:6379", lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//	ctx = held.Context(ctx) // ends when the lock is lost
//	err = held.Unlock(ctx)
//
// # Words
//
// A lock is a key in Redis with a TTL. The TTL is called the lease. Until
// Unlock, the client renews the lease whenever a third of it has passed (P5). If the
// process dies, the lock is free after at most one lease.
//
// A lock is held by an owner, not by a goroutine. Lock makes a new owner unless
// its context carries one. The contexts of [Held.Context] and [WithOwner] carry
// one. The same owner may lock again (re-entry). A hold begins with an owner's
// first Lock and ends with its last Unlock. Each Lock returns a [Held], which
// needs one Unlock.
//
// The client trusts a hold until shortly before the lease ends in Redis
// (Config.Margin). When trust ends, the client treats the lock as lost. Every
// renewal that Redis confirms moves the end of trust later.
//
// # What it promises
//
// A mark such as P1 leads to the row of PROMISES.md that names the proof.
//
//   - No two owners hold a lock at the same time, as long as Redis keeps its
//     key (P1).
//   - When trust ends, the holder is told at once, whatever the network does.
//     [Held.Done] is closed, the contexts of [Held.Context] end, and
//     [Held.Valid] returns false. Redis keeps the key for the margin longer (P2).
//   - An error says whether Redis refused ([ErrNotAcquired], [ErrLost]), did not
//     answer ([ErrUnknown]) or was not asked ([ErrNotSent]) (P3).
//   - A request that arrives late or twice does no harm (P4). [Client] lists the
//     exceptions.
//
// # What it does not promise
//
// If Redis loses the key, another owner may have the lock before the holder is
// told. Redis can lose a key in a failover (Redis replicates asynchronously),
// when its memory is full, or when somebody deletes the key. No lock service
// can stop a process that loses its lock while the process is paused. In both
// cases only the protected resource can help, by checking [Held.Token], a
// number that rises from holder to holder. SERVERS.md lists what can happen and
// what helps.
//
// # The kinds of locks
//
// The columns are the name here, the class in Redisson, and the format in Redis:
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
// The methods of a nil or zero Held or MultiHeld panic, and so do those of a
// copied Held. The text of the panic begins with "lock: this". The zero values
// of the other types, a nil Client and a nil context panic as nil pointers do.
// New and Open return an error for every setting that is out of range.
//
// # In a service
//
// [Client] says how to shut down and what a health check should ask. The
// examples show leader election, 50,000 locks without a goroutine for each, a
// shutdown on SIGTERM, fencing, and metrics. Package locktest has a Redis in
// memory for tests. The file design.go explains how the package works.
package lock
