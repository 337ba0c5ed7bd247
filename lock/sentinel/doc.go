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
//   - Sentinels that are down or hang cost nothing once the master is known,
//     because all are asked at the same time, and a client asks them beside its
//     dials. Only the first question may take Config.Timeout.
//   - If the answers differ, the one with the latest failover (config-epoch) is
//     used. A sentinel that was cut off cannot lead the client back to an old
//     master while a majority of the sentinels answers, or after any sentinel
//     has told of the later failover.
//   - If answers with the same config-epoch differ, their majority decides, and
//     the client logs that they differ. Without a majority the known master
//     stays (P31). If none is known, the client uses the server that says it is a
//     master, if only one says so.
//   - If no sentinel answers, the last known master stays in use.
//   - Every connection to the master first asks whether the server is a master
//     (ROLE, or INFO if ROLE is not permitted).
//   - After a failover, or a restart of the master, the client closes all
//     connections to the old server, even if it still answers, and checks every
//     hold on the new one at once.
//
// While a client is in use, it asks the sentinels every sixth of its lease, or
// every 5 s if that is less. It also listens to one sentinel for +switch-master,
// and asks at once when a connection fails.
//
// # What a failover does to locks
//
// Redis replicates asynchronously, so the replica that becomes the master may
// not have the latest changes. After a failover another client can therefore
// take a lock that is still held. The old holder learns of the loss as soon as
// the new master answers that the lock is not there. That takes the time that
// the sentinels need to agree, and a round trip. If the client did not receive
// +switch-master, it takes up to a sixth of the lease more.
//
// Locks survive a time without a master of two thirds of the lease: 19 s of the
// default 30 s. After that the first ones are lost, and after a lease all of them,
// even if the replica has everything. The default of down-after-milliseconds of
// Sentinel is 30,000, so with it a failover loses all locks. Set it to a sixth of
// the lease, which is 5000, or make the lease longer.
//
// With min-replicas-to-write 1 and min-replicas-max-lag, a master that was cut
// off refuses new locks and also renewals. Scripts of Redis 5 ignore these
// settings, so use lock.Config.Replicas there. Fencing tokens (Held.Token) still
// rise after a failover and protect the resource that the lock guards.
//
// # Goroutines and locks
//
// A Topology owns no goroutine and no connection. The Client runs Follow in a
// goroutine of its own. Follow adds two goroutines. One listens to a sentinel,
// and one pings that sentinel. Each time the sentinels are asked, every sentinel
// has a goroutine, and the client waits for all of them. All goroutines end with
// Client.Close. Topology.mu guards what is known about the master, and is not
// held during I/O. A lock costs as much as on one server.
package sentinel
