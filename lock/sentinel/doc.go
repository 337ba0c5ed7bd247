// Package sentinel lets a lock.Client work on the master that Redis Sentinels
// watch.
//
//	master, err := sentinel.New(sentinel.Config{
//		Master:    "mymaster",
//		Sentinels: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
//	})
//	client, err := lock.NewTopology(master, lock.Config{})
//
// All sentinels are asked at once, so those that are down or hang cost nothing;
// of several answers the one of the latest failover (config-epoch) counts, and a
// sentinel that was cut off cannot lead back to an old master as long as a
// majority of them answers, or any that knows better has been heard. If none
// answers the last known master is used on.
//
// Each connection to the master begins with the question whether it is one
// (ROLE, or INFO where that is forbidden). While a client lives, the sentinels
// are asked again each sixth of its lease, at most 5 s; one of them is listened
// to for +switch-master, and a connection that fails makes the client ask at
// once. When the answer changes, to another address or to a server that was
// restarted there, the client gives up all connections to the old master, even
// if that still answers, and looks every hold up on the new one at once.
//
// # What a failover does to locks
//
// Redis replicates asynchronously: what a master said yes to may be missing on
// the replica that follows it, so after a failover another client can be given
// a lock that is still held. The old holder is told as soon as the new master
// has said that the lock is not there: within the time the sentinels take to
// agree, a sixth of the lease (if +switch-master was not heard) and a round
// trip. min-replicas-to-write 1 with min-replicas-max-lag makes a master that
// was cut off refuse new locks; fencing tokens (Held.Token), which go on rising
// over a failover, protect what the lock guards.
//
// # Goroutines, locks, cost
//
// A Topology owns no goroutine and no connection. The Client runs Follow in a
// goroutine of its own, which adds two more, one that listens to a sentinel and
// one that pings it; a question asks each sentinel in a goroutine that it awaits.
// All end with Client.Close. Topology.mu guards what is known of the master and is
// not held during I/O. Locks cost what they do on one server.
package sentinel
