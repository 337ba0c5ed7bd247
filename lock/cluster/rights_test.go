package cluster_test

import (
	"context"
	"os"
	"regexp"
	"testing"
	"time"

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

// TestTheRightsThatThePageGivesAreEnough gives a user the rights that
// lock/SERVERS.md lists, and uses locks of a Cluster as that user.
func TestTheRightsThatThePageGivesAreEnough(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	rc := onCluster(t)
	text, err := os.ReadFile("../SERVERS.md")
	require.NoError(t, err)
	rights := fixture.RightsOfPage(t, "../SERVERS.md")[0]
	more := regexp.MustCompile(`(?s)in a Cluster (.*?)\n\n`).FindSubmatch(text)
	require.NotNil(t, more)
	for _, word := range regexp.MustCompile("`([+~&][^`]*)`").FindAllSubmatch(more[1], -1) {
		rights = append(rights, string(word[1]))
	}
	for _, s := range rc.Servers {
		fixture.SetUser(t, s, rights[0], rights[1:]...)
	}
	for _, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		source, err := cluster.New(&redisc.Cluster{
			StartupNodes: rc.Addrs(), DialOptions: []redis.DialOption{redis.DialUsername("locker"), redis.DialPassword("secret")},
		}, cluster.Options{PubSub: set})
		require.NoError(t, err)
		var clients []*lock.Client
		for range 2 {
			c, err := lock.NewTopology(source, lock.Config{KeyPrefix: "app:", Lease: time.Minute, MaxPoll: time.Hour})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			clients = append(clients, c)
		}
		ctx := bounded.Context(t)
		require.NoError(t, clients[0].Check(ctx))
		held := fixture.Hold(t, clients[0].Mutex("rights").Lock)
		inner, err := clients[0].Mutex("rights").Lock(held.Context(ctx))
		require.NoError(t, err)
		require.NoError(t, inner.Unlock(ctx))
		require.NoError(t, held.Extend(ctx, 2*time.Minute))
		done := make(chan error, 1)
		go func() {
			done <- clients[1].Mutex("rights").Do(ctx, func(context.Context, *lock.Held) error { return nil })
		}()
		server := rc.Servers[owner(t, rc, "app:rights")]
		require.Eventually(t, func() bool { return subscribed(t, server, "app:rights", sharded) }, time.Minute, time.Millisecond)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, bounded.Receive(t, done))
		_, err = clients[0].Mutex("rights").ForceUnlock(ctx)
		require.NoError(t, err)
	}
}
