// Package lockgoredis makes a lock.Client for a program that has a go-redis
// client, or the options of one.
//
//	rdb := redis.NewClient(&redis.Options{Addr: "redis.example:6379"})
//	client, err := lockgoredis.New(rdb, lock.Config{})
//	held, err := client.Mutex("order:42").Lock(ctx)
//
// It is a module of its own, so that a user of package lock does not link
// go-redis.
//
// # What it promises
//
// The Client has a few connections of its own and dials them as go-redis dials
// its own. It sends nothing through go-redis, because go-redis may send a
// command twice, does not tell when its first byte was written, and shares its
// connections with other users. So the sizes of go-redis' pools do not affect a
// lock. The Client continues to work when the go-redis client is closed.
//
// The Client uses these options of go-redis:
//
//   - the addresses, Network and DB
//   - Dialer. As in go-redis, TLSConfig has no effect if Dialer is set
//   - TLSConfig, with client certificates
//   - Username and Password, or the first that is set of
//     StreamingCredentialsProvider, CredentialsProviderContext and
//     CredentialsProvider. The provider is called at each dial, so locks outlive
//     a changed password or an expired token. The next section says more
//   - ClientName. The user needs the right to CLIENT SETNAME, and for another DB
//     than 0 the right to SELECT
//   - DialTimeout
//   - MasterName, SentinelAddrs, SentinelUsername and SentinelPassword
//
// So the Client logs in as the user of the go-redis client. To give the locks a
// user of their own, call Open with options that have another Username.
// lock/SERVERS.md lists the rights.
//
// # A StreamingCredentialsProvider
//
// The Client subscribes to the provider at its first dial. From then on the
// provider always has a subscriber, and so does not stop (P32). A dial uses the newest
// credentials that Subscribe returned or that OnNext was told. They stay in use if
// the provider fails, hangs or calls OnError.
//
// A provider that hangs does not hang the Client (P33). A dial that has no credentials
// yet fails when its time is over. A dial that has some waits for newer ones for
// half a second, and for half of its time at most. The Client calls Subscribe once
// at a time. After a failure it does not call it again for 100 ms. This pause
// doubles with each failure in a row, up to 3.2 s.
//
// Close does not end the last subscription, because the program may still dial
// with go-redis. The provider of go-redis-entraid 1.0.7 stops when its last
// subscription ends. If it cannot get a token when it starts again, all later
// dials hang. So the provider runs on when all clients are closed. It keeps some
// hundred bytes of each Client, but not the Client itself. Close does not wait for
// a call of the provider.
//
// Open connections do not log in again with a new token. If the server closes a
// connection because its token has expired, the client dials again.
//
// # What it does not do
//
// A Ring, a ClusterSlots function and options for replicas only are refused,
// with the reason in the error. New also refuses a failover client, because such
// a client does not tell where its Sentinels are. Call NewFailover with its
// options instead.
//
// OnConnect, NewClient, Limiter, hooks, timeouts of commands, retries, and the
// settings of pools and reads have no effect. Only the listed Sentinels are asked,
// so list all of them.
package lockgoredis
