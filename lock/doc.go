// Package lock is a Redis lock engine in Redisson's wire format: a lock is renewed
// until it is unlocked, and if it is lost its holder is told before another can
// have it.
//
//	client, err := lock.Open("redis://localhost:6379", lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//	ctx = held.Context(ctx) // ends when the lock is lost
//	err = held.Unlock(ctx)
//
// Go and Java processes share locks on one Redis. Here, in Redisson, in Redis:
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
// No two owners hold a lock at the same time, as long as Redis keeps the key. What
// that rests on, what else is promised and what is not stands at [Held] and [Client].
package lock
