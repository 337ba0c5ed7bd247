// Package cluster lets a lock.Client use a Redis Cluster.
//
//	nodes, err := cluster.Open("redis-cluster://user:password@10.0.0.1:6379,10.0.0.2:6379", cluster.Options{})
//	client, err := lock.NewTopology(nodes, lock.Config{})
//
// A lock lives on the master that has the slot of its name. Each master has its
// own connections, renewal and subscriber. So a master that hangs or dies
// affects only its own locks, and their holders are told before these locks end.
//
// # Names
//
// The hash tag of a name, {tag}, decides its slot. Names with the same tag
// share a slot. A name with only one of the two braces, or with the empty tag
// {}, is refused, because Redisson's derived keys and channels would be in
// another slot. The token counter of a slot is wheellock_token:{n} behind
// lock.Config.KeyPrefix, where n is the smallest number whose decimal text is
// in that slot. A prefix with a hash tag puts all its locks into one slot, and
// their counter is the prefix and wheellock_token.
//
// # What a failover does to locks
//
// Redis replicates asynchronously, so the replica that becomes the master may
// not have the latest changes. After a failover another client can therefore
// take a lock that is still held. The old holder is told that the lock is lost.
// With min-replicas-to-write 1 a master without replicas refuses new locks and
// renewals. Scripts of servers before Redis 6.2 ignore that setting. Use
// lock.Config.Replicas there. Fencing tokens (Held.Token) still rise after a
// failover and protect the resource.
//
// # While a slot moves
//
// Locks of Mutex and FencedMutex are taken, renewed and released as always.
// Requests with one key follow ASK, and renewals are sent one by one. To take a
// lock, a script needs its key and the token counter of its slot. While these
// are on different nodes, the client takes the lock first and then asks for the
// token. So tokens still rise from holder to holder (P28). Held.Guard with keys on
// different nodes returns lock.ErrUnknown until the keys are together.
//
// Other objects have several keys. Their holds are renewed too, but a hold of
// an RWMutex reader only while its two keys are together. Such objects cannot
// be taken, released or counted before the slot has arrived. A call that waits
// tries again after pauses that grow to a second. TryLock and ForceUnlock return
// lock.ErrUnknown, name the move and leave nothing behind (P29). Unlock returns the
// same error after lock.Config.UnlockTimeout. The client then releases the hold
// when the slot has arrived, or the hold ends with its lease. Move such slots in
// less time than a lease and than this timeout.
//
// # Which master has a slot
//
// While a client is in use, it asks some nodes for the slot table every sixth
// of its lease, or every 5 s if that is less. It asks at once when a connection
// fails or a node answers MOVED. If the answers differ, the latest configuration
// counts for each slot. CLUSTER NODES tells which one that is. Without the right
// to it, the client uses what most nodes say. Only CLUSTER SLOTS is required.
//
// Holds follow their slot to its new master, and the client checks them there
// at once.
//
// # Pub/sub
//
// A release is published with SPUBLISH on a master of version 7 or newer, of
// Redis or Valkey, and with PUBLISH on others. Redisson 3.22 and newer use only
// SPUBLISH on a Cluster of version 7. Options.PubSub sets one way for all
// masters.
//
// The choice is made per master. So a master that cannot be reached does not
// affect the others, and in a Cluster of several versions all clients agree. A
// new connection for commands asks for the version (INFO) and tests the right to
// SPUBLISH with an empty message to a channel without subscribers. An upgrade
// takes effect at once, because the command is chosen when a script is sent.
//
// After the first connection and after a change, waiters listen in both ways
// and poll every MaxPoll. They do so for 2 x lock.Config.MaxPoll, because other
// clients may learn of the change later. If a slot moves, its waiters listen at
// the new master as soon as it is known. Until then, the messages of keys that
// have moved already reach nobody, if they are sent with SPUBLISH. A waiter learns
// that its key has moved at its next try, and then tries every MaxPoll. A change is
// logged, and lock.Stats.PubSub shows the choice.
//
// If a master does not tell its version, or refuses SPUBLISH, the client uses
// PUBLISH, listens in both ways and logs a warning. Clients with those rights
// listen only for SPUBLISH, so give all clients the same rights or set
// Options.PubSub. Clients that do not agree find releases only by polling, at the
// end of the lease that they have seen, and after up to 6 x MaxPoll.
//
// The channel of a CountDownLatch is redisson_countdownlatch__channel__{name}. If
// the name has a hash tag and channels are sharded, it is
// redisson_countdownlatch__channel__:name, which is in the slot of the latch.
// Redisson does the same.
//
// # Goroutines and locks
//
// A Topology owns no goroutine and no connection. A Client runs Follow in a
// goroutine. To read the slot table, it asks up to three nodes at once, each in
// a goroutine, and waits for them. All end with Client.Close. Topology.mu guards
// the names of the nodes and is not held during I/O.
//
// # Cost
//
// A script call takes only keys of one slot, so a batch of renewals is a
// pipeline of calls, still in one round trip. Locks that share a hash tag are
// renewed in one call. With 50,000 locks on three masters a renewal cost 4.5 µs
// of CPU in the client and 10.4 µs in Redis, against 2.6 µs and 5.1 µs on one
// server (Redis 7.0, 2 cores shared by all).
//
// A client has two connections for commands, two for renewal and one for pub/sub
// to each master whose locks it uses.
package cluster
