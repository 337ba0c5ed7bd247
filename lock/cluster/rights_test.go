package cluster_test

import (
	"context"
	"os"
	"regexp"
	"strings"
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

// TestTheRightsThatTheREADMEGivesAreEnough and none is there that is not needed
// to be told of: the line is taken from there.
func TestTheRightsThatTheREADMEGivesAreEnough(t *testing.T) {
	t.Parallel()
	fixture.Needs(t, redistest.ChannelRights)
	rc := onCluster(t)
	text, err := os.ReadFile("../../README.md")
	require.NoError(t, err)
	block := regexp.MustCompile(`(?s)    ACL SETUSER (.*?)\n\nBehind`).FindSubmatch(text)
	require.NotNil(t, block)
	args := []any{"SETUSER"}
	for _, word := range strings.Fields(strings.ReplaceAll(string(block[1]), "\\\n", " ")) {
		args = append(args, word)
	}
	more := regexp.MustCompile(`(?s)in a Cluster (.*?)\n\n`).FindSubmatch(text)
	require.NotNil(t, more)
	for _, word := range regexp.MustCompile("`([+~&][^`]*)`").FindAllSubmatch(more[1], -1) {
		if strings.HasPrefix(string(word[1]), "+s") && !fixture.Can(t, redistest.ShardedPubSub) {
			continue // a right to a command that it has not
		}
		args = append(args, string(word[1]))
	}
	for _, s := range rc.Servers {
		fixture.Do(t, s, "ACL", args...)
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
