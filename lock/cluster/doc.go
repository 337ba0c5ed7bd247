// Package cluster lets a lock.Client work on a Redis Cluster.
//
//	nodes, err := cluster.New(&redisc.Cluster{
//		StartupNodes: []string{"10.0.0.1:6379", "10.0.0.2:6379"},
//		DialOptions:  []redis.DialOption{redis.DialPassword("...")},
//	}, cluster.Options{})
//	client, err := lock.NewTopology(nodes, lock.Config{})
//
// A lock lives on the master that has the slot of its name. Each master has
// connections, a renewal lane and a subscriber of its own, so one that hangs or
// dies costs its own locks alone, and their holders are told before those end.
// While a client lives, some nodes are asked for the slot table each sixth of
// its lease, at most 5 s, and at once when a connection fails or a node says
// MOVED. Of several answers the one of the latest configuration counts for each
// slot; without the right to CLUSTER NODES, which tells that, what most say.
// CLUSTER SLOTS is all that is needed. Holds follow their slot to its new master and are looked up there at
// once: after a failover, what the replica had not got is told as lost.
//
// # Slots on the move
//
// While a slot moves, locks in it are taken, renewed and released as ever: what
// has one key follows ASK, renewals of several keys are sent one by one. Taking
// a lock needs its key and the token counter of its slot, and no script reaches
// both while they are apart; then the lock is taken first and its token minted
// next, by its holder alone, so tokens rise from holder to holder as always.
// Held.Guard with keys that are apart gives lock.ErrUnknown until they are not.
//
// That holds for Mutex and FencedMutex. Of the other objects what is held is
// renewed as well, readers of a RWMutex only while their two keys are together;
// but to take, to release and to count needs several keys, some of them new, and
// is not possible before the slot has arrived: who waits tries on until then,
// TryLock says lock.ErrUnknown, and so does Unlock when its time is over. Move
// such slots in less than a lease and less than lock.Config.UnlockTimeout.
//
// # Names
//
// A name's hash tag, {tag}, says in which slot it is; names with the same tag
// share a slot. A name with a brace that has no partner, or with the empty tag
// {}, is refused: Redisson's derived names, the channel among them, would not
// be in its slot. The token counter of a slot is wheellock_token:{n}, where n is
// the smallest number whose decimal text is in that slot.
//
// # What a failover does to locks
//
// Redis replicates asynchronously: what a master said yes to may be missing on
// the replica that follows it, so after a failover another client can be given
// a lock that is still held; the old holder is told as said above.
// min-replicas-to-write 1 makes a master without replicas refuse new locks, and
// fencing tokens (Held.Token), which go on rising over a failover, protect what
// the lock guards.
//
// # Goroutines and locks
//
// A Topology owns no goroutine and no connection. The Client runs Follow in a
// goroutine of its own; a look at the slot table asks up to three nodes at once,
// each in a goroutine that it awaits. All end with Client.Close. Topology.mu guards
// the names of the nodes and is not held during I/O.
//
// # Cost
//
// A Cluster takes only keys of one slot in a script call, so a batch of renewals
// is a pipeline of calls, in one round trip all the same. With 50,000 locks on
// three masters a renewal cost 4.5 µs of CPU in the client and 10.4 µs in Redis,
// against 2.6 µs and 5.1 µs on one server (Redis 7.0, 2 cores shared by all).
// Locks that share a hash tag are renewed in one call. A client has two
// connections for commands, two for renewal and one for pub/sub to each master
// whose locks it uses.
//
// # Pub/sub
//
// A release is published with SPUBLISH on a master of version 7 or newer, of Redis or
// Valkey, and with PUBLISH on others. Redisson 3.22 and newer use SPUBLISH on a
// Cluster of version 7, and hear nothing else. Options.PubSub sets one way for all
// masters.
//
// Each master has a choice of its own, because a message matters on the master that
// has the lock. So one that cannot be reached keeps no other from being used, and in
// a Cluster of several versions all clients agree. A new connection for commands asks
// for the version (INFO) and whether this user may use SPUBLISH: it sends an empty
// message to a channel of which nobody hears. The command is chosen when a script is
// written to the connection, so a master that was upgraded is used as what it is now.
//
// For 2 x lock.Config.MaxPoll after a change, and after the first connection, waiters
// hear both ways and look each MaxPoll, because other clients may learn of the change
// later. A waiter that sleeps when its slot moves listens at the new master as soon
// as the client knows of it. The choice is logged when it changes, and is in
// lock.Stats.PubSub.
//
// Where a master does not tell its version, or does not let this user use SPUBLISH,
// PUBLISH is used, with a warning, and both ways are heard for good. Clients that have
// those rights do not hear such a client, so give all the same rights, or set
// Options.PubSub for all. Clients that do not agree wake each other only by polling:
// at the end of the lease that the waiter has seen, and after up to 6 x MaxPoll.
//
// The channel of a CountDownLatch is redisson_countdownlatch__channel__{name}. If the
// name has a hash tag and channels are sharded, it is
// redisson_countdownlatch__channel__:name, because the channel must be in the slot of
// the latch. Redisson does the same.
package cluster
