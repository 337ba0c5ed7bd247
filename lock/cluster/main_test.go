package cluster_test

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/topology"
)

// shared is the Cluster of the tests that break nothing for others: three
// masters, no replicas, a node timeout that no test reaches.
var shared struct {
	once    sync.Once
	cluster *redistest.Cluster
	err     error
}

func TestMain(m *testing.M) {
	// The tests mostly wait. -parallel on the command line still wins.
	if err := flag.Set("test.parallel", "4"); err != nil {
		panic(err)
	}
	code := m.Run()
	if shared.cluster != nil {
		if err := shared.cluster.Stop(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}
	os.Exit(code)
}

// onCluster returns the shared Cluster, or skips the test on a machine without
// redis-server (WHEELLOCK_REQUIRE_REDIS=1 makes that an error).
func onCluster(t *testing.T) *redistest.Cluster {
	t.Helper()
	shared.once.Do(func() {
		shared.cluster, shared.err = redistest.StartCluster(bounded.Context(t), redistest.ClusterOptions{NodeTimeout: time.Minute})
	})
	fixture.NeedServer(t, shared.err)
	return shared.cluster
}

// newClient returns a client of rc that the test closes.
func newClient(t *testing.T, rc *redistest.Cluster, o cluster.Options, cfg lock.Config) *lock.Client {
	t.Helper()
	source, err := cluster.New(&redisc.Cluster{StartupNodes: rc.Addrs()[:1]}, o)
	require.NoError(t, err)
	return fixture.Client(t, source, cfg)
}

// waysToPublish returns the settings for publishing that these servers support.
func waysToPublish(t *testing.T) map[string]topology.PubSub {
	t.Helper()
	if !fixture.HasAbilities(t, redistest.ShardedPubSub) {
		return map[string]topology.PubSub{"plain": topology.PubSubPlain}
	}
	return map[string]topology.PubSub{"plain": topology.PubSubPlain, "sharded": topology.PubSubSharded, "auto": topology.PubSubAuto}
}

// owner returns the index of the server that has the key's slot.
func owner(t *testing.T, rc *redistest.Cluster, key string) int {
	t.Helper()
	i, err := rc.Owner(redisc.Slot(key))
	require.NoError(t, err)
	return i
}

// keysInSlot are the keys of a slot on a server.
func keysInSlot(t *testing.T, rc *redistest.Cluster, slot, server int) []string {
	t.Helper()
	keys := fixture.Strings(t, rc.Servers[server], "CLUSTER", "GETKEYSINSLOT", slot, 1000)
	return keys
}

// requireTrusted checks that the trust in a hold ends before the server's key does.
func requireTrusted(t *testing.T, s *redistest.Server, held *lock.Held) {
	t.Helper()
	deadline := held.Deadline() // before the server is asked: a renewal moves both on
	left := time.Duration(fixture.PTTL(t, s, held.Name(), "ASKING")) * time.Millisecond
	require.True(t, deadline.Before(time.Now().Add(left)), "%s is trusted until %v, its TTL was %v", held.Name(), deadline, left)
}
