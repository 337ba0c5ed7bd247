package lockgoredis

import (
	"errors"
	"fmt"
	"strings"

	"github.com/mna/redisc"
	"github.com/redis/go-redis/v9"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// New returns a lock.Client of the server or the Cluster that rdb uses. rdb is a
// *redis.Client that NewClient made, or a *redis.ClusterClient that
// NewClusterClient made. New does no I/O and sends nothing through rdb.
func New(rdb redis.UniversalClient, cfg lock.Config) (*lock.Client, error) {
	switch rdb := rdb.(type) {
	case *redis.Client:
		if rdb != nil {
			return one(rdb.Options(), cfg)
		}
	case *redis.ClusterClient:
		if rdb != nil {
			return nodes(rdb.Options(), cfg)
		}
	case *redis.Ring:
		return nil, errors.New("lockgoredis: New: the servers of a Ring do not know each other, so two of them could have the same lock: " +
			"give New a client of one of its servers, or use lock.NewRedLock with a client of each")
	case nil:
	default:
		return nil, fmt.Errorf("lockgoredis: New: a %T does not tell how it connects: give New the *redis.Client or *redis.ClusterClient that it uses, "+
			"or call Open or NewFailover with its options", rdb)
	}
	return nil, errors.New("lockgoredis: New needs a client, got nil")
}

// Open returns a lock.Client of the servers that redis.NewUniversalClient(o)
// would use. That is the master that Sentinels watch if o has a MasterName, a
// Cluster if o has several addresses or IsClusterMode, and else one server. Open
// does no I/O.
func Open(o *redis.UniversalOptions, cfg lock.Config) (*lock.Client, error) {
	switch {
	case o == nil:
		return nil, errors.New("lockgoredis: Open needs options, got nil")
	case o.MasterName != "":
		return NewFailover(o.Failover(), cfg)
	case len(o.Addrs) > 1 || o.IsClusterMode:
		return nodes(o.Cluster(), cfg)
	}
	return one(o.Simple(), cfg)
}

// NewFailover returns a lock.Client of the master that
// redis.NewFailoverClient(o) would use. NewFailover does no I/O. The
// documentation of package sentinel says what a failover does to locks.
func NewFailover(o *redis.FailoverOptions, cfg lock.Config) (*lock.Client, error) {
	switch {
	case o == nil:
		return nil, errors.New("lockgoredis: NewFailover needs options, got nil")
	case o.MasterName == "" || len(o.SentinelAddrs) == 0:
		return nil, errors.New("lockgoredis: NewFailover: MasterName or SentinelAddrs is empty: set both, with the addresses of all Sentinels")
	case o.ReplicaOnly:
		return nil, errors.New("lockgoredis: NewFailover: ReplicaOnly or ReadOnly is set, but a lock can only be taken on the master: leave them out")
	}
	to := dialling{
		dialer: o.Dialer, tls: o.TLSConfig, timeout: o.DialTimeout, clientName: o.ClientName, database: o.DB,
		streaming: o.StreamingCredentialsProvider, withContext: o.CredentialsProviderContext, provider: o.CredentialsProvider,
		user: o.Username, password: o.Password,
	}
	if err := to.check(); err != nil {
		return nil, err
	}
	watchers := dialling{timeout: o.DialTimeout, clientName: o.ClientName, user: o.SentinelUsername, password: o.SentinelPassword}
	master, err := sentinel.New(sentinel.Config{
		Master: o.MasterName, Sentinels: o.SentinelAddrs, NetDial: to.netDial(), TLS: to.config(),
		DialOptions: to.options(), Credentials: to.credentials(),
		SentinelOptions: watchers.options(), SentinelCredentials: watchers.credentials(),
		DialTimeout: to.limit(),
	})
	if err != nil {
		return nil, fmt.Errorf("lockgoredis: %w", err)
	}
	return lock.NewTopology(master, cfg)
}

// failoverAddr is the address in the options of a client of redis.NewFailoverClient.
const failoverAddr = "FailoverClient"

// one returns a Client of one server. The options of a go-redis client have defaults filled in,
// but the options of a program do not.
func one(o *redis.Options, cfg lock.Config) (*lock.Client, error) {
	if o.Addr == failoverAddr {
		return nil, errors.New("lockgoredis: New: a failover client does not tell where its Sentinels are: call NewFailover with its options")
	}
	network, addr := o.Network, o.Addr
	if addr == "" {
		addr = "localhost:6379"
	}
	if network == "" {
		network = "tcp"
		if strings.HasPrefix(addr, "/") {
			network = "unix"
		}
	}
	to := dialling{
		dialer: o.Dialer, tls: o.TLSConfig, timeout: o.DialTimeout, clientName: o.ClientName, database: o.DB,
		streaming: o.StreamingCredentialsProvider, withContext: o.CredentialsProviderContext, provider: o.CredentialsProvider,
		user: o.Username, password: o.Password,
	}
	if err := to.check(); err != nil {
		return nil, err
	}
	return to.endpoint(network, addr).Open(cfg)
}

// nodes returns a Client of a Cluster.
func nodes(o *redis.ClusterOptions, cfg lock.Config) (*lock.Client, error) {
	if o.ClusterSlots != nil {
		return nil, errors.New("lockgoredis: ClusterSlots is set, so only go-redis knows which server has a slot. " +
			"Call Open or New with the options or a client of one of its masters, or NewFailover if it has Sentinels")
	}
	if len(o.Addrs) == 0 {
		return nil, errors.New("lockgoredis: Addrs is empty: list some nodes of the Cluster")
	}
	to := dialling{
		dialer: o.Dialer, tls: o.TLSConfig, timeout: o.DialTimeout, clientName: o.ClientName,
		streaming: o.StreamingCredentialsProvider, withContext: o.CredentialsProviderContext, provider: o.CredentialsProvider,
		user: o.Username, password: o.Password,
	}
	if err := to.check(); err != nil {
		return nil, err
	}
	topology, err := cluster.New(&redisc.Cluster{StartupNodes: o.Addrs, DialOptions: to.options()},
		cluster.Options{NetDial: to.netDial(), TLS: to.config(), Credentials: to.credentials(), DialTimeout: to.limit()})
	if err != nil {
		return nil, fmt.Errorf("lockgoredis: %w", err)
	}
	return lock.NewTopology(topology, cfg)
}
