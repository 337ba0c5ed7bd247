package lockgoredis_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/lockgoredis"
)

// TestAFailoverUnderAHeldLock: the sentinels have a user of their own, and the servers have a user
// whose password changes.
func TestAFailoverUnderAHeldLock(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("a failover")
	}
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	v := &vault{user: "app"}
	v.change(t, "first", rs.Servers...)
	for _, s := range rs.Sentinels {
		fixture.Do(t, s, "ACL", "SETUSER", "watcher", "on", ">w@tch", "allchannels", "+@all")
		fixture.Do(t, s, "ACL", "SETUSER", "default", "off")
	}
	var dials atomic.Int64
	o := &redis.FailoverOptions{
		MasterName: rs.Name, SentinelAddrs: rs.Addrs(), SentinelUsername: "watcher", SentinelPassword: "w@tch",
		CredentialsProvider: v.plain, DB: 2,
	}
	rdb := closed(t, redis.NewFailoverClient(o))
	ofLocks := *o
	ofLocks.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return new(net.Dialer).DialContext(ctx, network, addr)
	}
	cfg := lock.Config{Lease: 30 * time.Second, IOTimeout: time.Second}
	made, err := lockgoredis.NewFailover(&ofLocks, cfg)
	c := used(t, made, err)
	requireSame(t, rdb, c)
	require.Positive(t, dials.Load())
	made, err = lockgoredis.Open(&redis.UniversalOptions{
		MasterName: rs.Name, Addrs: rs.Addrs(), SentinelUsername: "watcher", SentinelPassword: "w@tch", CredentialsProvider: v.plain, DB: 2,
	}, cfg)
	other := used(t, made, err)

	held := fixture.Hold(t, c.Mutex("m").Lock)
	_, err = other.Mutex("m").TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	for _, s := range rs.Servers[1:] {
		replica := closed(t, redis.NewClient(&redis.Options{Addr: s.Addr(), DB: 2}))
		bounded.Until(t, func() bool { return replica.Exists(t.Context(), "m").Val() == 1 })
	}
	v.change(t, "second", rs.Servers...)
	renewed := c.Stats().Renewal.Renewed
	require.NoError(t, rs.Servers[0].Kill())
	bounded.Until(t, func() bool { return held.Err() != nil || c.Stats().Renewal.Renewed > renewed })
	require.NoError(t, held.Err())
	err = fixture.RetryUntilKnown(func() error {
		_, err := other.Mutex("m").TryLock(bounded.Context(t))
		return err
	})
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(bounded.Context(t)) }))
}

// TestAClusterOfThreeUnderHeldLocks: there is one on each master while the password changes and
// all connections are closed.
func TestAClusterOfThreeUnderHeldLocks(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	for _, way := range []string{"New", "Open"} {
		v := &vault{user: "app"}
		v.change(t, "first", rc.Servers...)
		rdb := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: rc.Addrs()[:1], CredentialsProvider: v.plain, ClientName: "orders"}))
		cfg := lock.Config{Lease: 6 * time.Second}
		var made *lock.Client
		var err error
		if way == "New" {
			made, err = lockgoredis.New(rdb, cfg)
		} else {
			made, err = lockgoredis.Open(&redis.UniversalOptions{Addrs: rc.Addrs()[:1], IsClusterMode: true, StreamingCredentialsProvider: v, ClientName: "orders"}, cfg)
		}
		c := used(t, made, err)
		requireSame(t, rdb, c)
		var helds []*lock.Held
		for i := range 30 { // on each of three
			helds = append(helds, fixture.Hold(t, c.Mutex(fmt.Sprint(way, i)).Lock))
		}
		renewed := c.Stats().Renewal.Renewed
		bounded.Until(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+uint64(len(helds)) })
		// go-redis has one or two at each node.
		require.Greater(t, named(t, "orders", rc.Servers...), 3*2, "the connections of the locks have the name too")
		v.change(t, "second", rc.Servers...)
		for _, s := range rc.Servers {
			require.Positive(t, fixture.Int(t, s, "CLIENT", "KILL", "USER", "app"))
		}
		renewed = c.Stats().Renewal.Renewed
		bounded.Until(t, func() bool {
			return len(c.Stats().Renewal.Lost) > 0 || c.Stats().Renewal.Renewed >= renewed+uint64(len(helds))
		})
		for _, held := range helds {
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		if way == "Open" {
			bounded.Until(t, func() bool { return v.open.Load() == 1 }) // of all nodes
		}
	}
}
