package cluster_test

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestCheckAsksEveryMaster, and names the one where something is missing.
func TestCheckAsksEveryMaster(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ShardedPubSub) // and users
	rc := onCluster(t)
	ctx := bounded.Context(t)
	client := func(cfg lock.Config, o cluster.Options) *lock.Client {
		source, err := cluster.New(&redisc.Cluster{
			StartupNodes: rc.Addrs(), DialOptions: []redis.DialOption{redis.DialUsername("checker"), redis.DialPassword("pw")},
		}, o)
		require.NoError(t, err)
		return fixture.Client(t, source, cfg)
	}
	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", "SETUSER", "checker", "reset", "on", ">pw", "~*", "&*", "+@all")
	}
	for _, o := range []cluster.Options{{}, {PubSub: topology.PubSubPlain}, {PubSub: topology.PubSubSharded}} {
		require.NoError(t, client(lock.Config{KeyPrefix: "check:"}, o).Check(ctx))
	}
	for _, s := range rc.Servers {
		require.Empty(t, fixture.Keys(t, s, "check:*"))
	}

	fixture.Do(t, rc.Servers[1], "ACL", "SETUSER", "checker", "-hset", "-ssubscribe")
	err := client(lock.Config{}, cluster.Options{PubSub: topology.PubSubPlain}).Check(ctx)
	require.ErrorContains(t, err, rc.Servers[1].Addr()+": the user may not run hset: ")
	require.Equal(t, 1, strings.Count(err.Error(), "\n"), err)
	for _, way := range []topology.PubSub{topology.PubSubSharded, topology.PubSubAuto} {
		err = client(lock.Config{}, cluster.Options{PubSub: way}).Check(ctx)
		require.ErrorContains(t, err, rc.Servers[1].Addr()+": the user may not run hset, ssubscribe: ")
	}

	// A prefix with a hash tag needs one master alone.
	asked := 0
	for i := range rc.Servers {
		fixture.Do(t, rc.Servers[i], "ACL", "SETUSER", "checker", "-hset")
	}
	err = client(lock.Config{KeyPrefix: "{one}:"}, cluster.Options{}).Check(ctx)
	for _, s := range rc.Servers {
		asked += strings.Count(err.Error(), s.Addr()+": ")
	}
	require.Equal(t, 1, asked, err)

	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", "SETUSER", "checker", "+hset", "+ssubscribe", "-cluster|nodes", "-asking")
	}
	err = client(lock.Config{}, cluster.Options{}).Check(ctx)
	require.ErrorContains(t, err, "may not run asking: ")
	require.NotContains(t, err.Error(), "cluster nodes", "which is advice")
	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", "DELUSER", "checker")
	}
	err = client(lock.Config{}, cluster.Options{}).Check(ctx)
	require.ErrorContains(t, err, "no server is known for the locks")
	require.ErrorIs(t, err, lock.ErrUnknown)
}
