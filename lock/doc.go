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
//   - Any request may be lost, and sent again, or late. One that takes or changes
//     something is refused by the server if it arrives later than its caller could
//     have waited.
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
// A late request is carried out after all while a server's clock is being set back,
// after a failover to a server whose clock is behind, and where the user may not ask
// for TIME. It may leave a lock that nobody holds until its lease is over.
//
// Permits and fair queues have times of day in their format. They are the server's;
// those of Java processes, and of clients without TIME, are their own. Another may get
// a permit before its holder is told if such a clock is ahead by more than Config.Margin,
// and a waiter of a FairMutex may lose its place if it is 8 s ahead.
package lock
