// Package sentinel lets a lock.Client use the master that Redis Sentinels
// watch.
//
//	master, err := sentinel.New(sentinel.Config{
//		Master:    "mymaster",
//		Sentinels: []string{"10.0.0.1:26379", "10.0.0.2:26379", "10.0.0.3:26379"},
//	})
//	client, err := lock.NewTopology(master, lock.Config{})
//
// lock.Open does the same with a URL that begins with redis-sentinel://.
//
// # What it promises
//
//   - Sentinels that are down or hang cost nothing, because all are asked at
//     the same time.
//   - If the answers differ, the one of the latest failover (config-epoch) is
//     used. A sentinel that was cut off cannot lead back to an old master while
//     a majority of them answers, or once any of them has told of the later
//     failover.
//   - If no sentinel answers, the last known master stays in use.
//   - Every connection to the master first asks whether the server is a master
//     (ROLE, or INFO if ROLE is not permitted).
//   - After a failover, or a restart of the master, the client closes all
//     connections to the old server, even if it still answers, and checks every
//     hold on the new one at once.
//
// While a client is in use, it asks the sentinels every sixth of its lease, at
// most every 5 s. It also listens to one of them for +switch-master, and asks
// at once when a connection fails.
//
// # What a failover does to locks
//
// Redis replicates asynchronously: the replica that becomes the master may not
// have the latest changes of the old one. So after a failover another client
// can be given a lock that is still held. The old holder is told as soon as the
// new master has said that the lock is not there. That is after the time that
// the sentinels need to agree, a sixth of the lease (if +switch-master was not
// heard) and a round trip.
//
// With min-replicas-to-write 1 and min-replicas-max-lag, a master that was cut
// off refuses new locks, and renewals too. Scripts of Redis 5 ignore these
// settings, so use lock.Config.Replicas there. Fencing tokens (Held.Token) go
// on rising over a failover and protect the resource that the lock guards.
//
// # Goroutines and locks
//
// A Topology owns no goroutine and no connection. The Client runs Follow in a
// goroutine of its own. Follow adds two: one listens to a sentinel, and one
// pings it. A question asks each sentinel in a goroutine and waits for all of
// them. All end with Client.Close. Topology.mu guards what is known of the
// master, and is not held during I/O. A lock costs what it costs on one server.
package sentinel
