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
// its own. It sends nothing through go-redis, because go-redis sends a command
// again by itself, hides when its first byte was written, and shares its
// connections with others. So a lock is not affected by the sizes of go-redis'
// pools, and the Client lives on when the go-redis client is closed.
//
// Taken over are:
//
//   - the addresses, Network and DB
//   - Dialer. As in go-redis, TLSConfig has no effect if there is a Dialer
//   - TLSConfig, with client certificates
//   - Username and Password, or the first that is set of
//     StreamingCredentialsProvider, CredentialsProviderContext and
//     CredentialsProvider. They are asked for at each dial, so locks outlive a
//     changed password or an expired token
//   - ClientName, which needs the right to CLIENT SETNAME
//   - DialTimeout
//   - MasterName, SentinelAddrs, SentinelUsername and SentinelPassword
//
// # What it does not
//
// Refused, with the reason in the error, are a Ring, a ClusterSlots function,
// options for replicas only, and a failover client that is given to New: it
// does not tell where its Sentinels are. Call NewFailover with its options.
//
// OnConnect, NewClient, Limiter, hooks, timeouts of commands, retries, and the
// settings of pools and reads have no effect. A connection that is open is not
// logged in again when a StreamingCredentialsProvider has a new token. If the
// server closes it when the old token expires, the client dials again. Only the
// Sentinels that are listed are asked, so list all.
package lockgoredis
