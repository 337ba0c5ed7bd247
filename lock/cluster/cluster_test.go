package cluster_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
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

func TestLocksOfAllSlotsAreKeptRenewed(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	rc := onCluster(t)
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: 2 * time.Second})
	helds := fixture.LockAll(t, c, fixture.Names("all:", 900))
	for _, s := range rc.Servers {
		fixture.Do(t, s, "SCRIPT", "FLUSH")
	}
	fixture.AwaitRenewed(t, c, 3600)
	on := make([]int, len(rc.Servers))
	for name, held := range helds {
		require.True(t, held.Valid())
		i := owner(t, rc, name)
		requireTrusted(t, rc.Servers[i], held)
		on[i]++
	}
	for _, n := range on {
		require.Greater(t, n, 200, "on every master")
	}
	require.Empty(t, c.Stats().Renewal.Lost)
	for name, held := range helds {
		require.NoError(t, held.Unlock(bounded.Context(t)))
		locked, err := c.Mutex(name).IsLocked(bounded.Context(t))
		require.NoError(t, err)
		require.False(t, locked)
	}
	require.NoError(t, c.Close(bounded.Context(t)))
}

func TestClientsOfAClusterExcludeEachOther(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	for way, set := range waysToPublish(t) {
		sharded := set != topology.PubSubPlain
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			// MaxPoll is longer than the test: only a message can wake the waiter.
			cfg := lock.Config{Lease: 10 * time.Minute, MaxPoll: time.Hour}
			a := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			b := newClient(t, rc, cluster.Options{PubSub: set}, cfg)
			for i := range 9 {
				name := fmt.Sprintf("exclude:%v:%d", way, i)
				held := fixture.Hold(t, a.Mutex(name).Lock)
				_, err := b.Mutex(name).TryLock(ctx)
				require.ErrorIs(t, err, lock.ErrNotAcquired)
				got := make(chan *lock.Held, 1)
				go func() {
					held, err := b.Mutex(name).Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
				require.Eventually(t, func() bool { return subscribed(t, rc.Servers[owner(t, rc, name)], name, sharded) }, time.Minute, 5*time.Millisecond)
				require.NoError(t, held.Unlock(ctx))
				select {
				case next := <-got:
					require.Greater(t, next.Token(), held.Token())
					require.NoError(t, next.Unlock(ctx))
				case <-time.After(time.Minute):
					t.Fatal("nothing woke the waiter")
				}
			}
		})
	}
}

// subscribed reports whether somebody listens to the lock's channel.
func subscribed(t *testing.T, s *redistest.Server, name string, sharded bool) bool {
	command := "NUMSUB"
	if sharded {
		if !fixture.HasAbilities(t, redistest.ShardedPubSub) {
			return false
		}
		command = "SHARDNUMSUB"
	}
	reply, err := redis.Values(fixture.Do(t, s, "PUBSUB", command, "redisson_lock__channel:{"+name+"}"), nil)
	require.NoError(t, err)
	n, err := redis.Int(reply[1], nil)
	require.NoError(t, err)
	return n > 0
}

// TestTheTokenCounterOfASlotIsTheSameForAll clients of a prefix. Another prefix has
// another one.
func TestTheTokenCounterOfASlotIsTheSameForAll(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	last := int64(0)
	for i, c := range []*lock.Client{
		newClient(t, rc, cluster.Options{}, lock.Config{}),
		newClient(t, rc, cluster.Options{}, lock.Config{}),
	} {
		held := fixture.Hold(t, c.Mutex("{token}"+strconv.Itoa(i)).Lock)
		require.Greater(t, held.Token(), last)
		last = held.Token()
	}
	slot := redisc.Slot("{token}")
	s := rc.Servers[owner(t, rc, "{token}")]
	keys := fixture.Strings(t, s, "CLUSTER", "GETKEYSINSLOT", slot, 10)
	counters := 0
	for _, key := range keys {
		if tag, ok := strings.CutPrefix(key, "wheellock_token:{"); ok {
			counters++
			n, err := strconv.Atoi(strings.TrimSuffix(tag, "}"))
			require.NoError(t, err)
			for smaller := range n {
				require.NotEqual(t, slot, redisc.Slot(strconv.Itoa(smaller)), "the smallest number of the slot")
			}
			value := fixture.Int(t, s, "GET", key)
			require.Equal(t, last, value)
		}
	}
	require.Equal(t, 1, counters)
	for prefix, counter := range map[string]string{"{token}:": "{token}:wheellock_token", "app:": "app:wheellock_token:{"} {
		_ = fixture.Hold(t, newClient(t, rc, cluster.Options{}, lock.Config{KeyPrefix: prefix}).Mutex("{token}x").Lock)
		keys := fixture.Strings(t, s, "CLUSTER", "GETKEYSINSLOT", slot, 10)
		require.True(t, slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, counter) }), keys)
	}
}

func TestNamesWhoseChannelWouldHaveAnotherSlotAreRefused(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	c := newClient(t, rc, cluster.Options{}, lock.Config{})
	ctx := bounded.Context(t)
	for name, want := range map[string]string{
		"a{b": "{ without a }", "a}b": "} without a {", "}a{b": "} without a {", "a{}b": "empty hash tag",
	} {
		_, err := c.Mutex(name).Lock(ctx)
		require.ErrorContains(t, err, want, name)
		_, err = c.Mutex(name).Inspect(ctx)
		require.ErrorContains(t, err, want, name)
	}
	for _, name := range []string{"a", "{a}b", "x{a}{", "x{a}}"} {
		held, err := c.Mutex(name).TryLock(ctx)
		require.NoError(t, err, name)
		require.NoError(t, held.Unlock(ctx))
	}
}

func TestStartupNodesMayBeDown(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	dead := []string{"127.0.0.1:1", "127.0.0.1:2", "127.0.0.1:3", "127.0.0.1:4"}
	source, err := cluster.New(&redisc.Cluster{StartupNodes: append(dead, rc.Addrs()[0])}, cluster.Options{})
	require.NoError(t, err)
	c, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	held, err := c.Mutex("startup").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))

	source, err = cluster.New(&redisc.Cluster{StartupNodes: dead}, cluster.Options{})
	require.NoError(t, err)
	lost, err := lock.NewTopology(source, lock.Config{Lease: time.Second})
	require.NoError(t, err)
	defer fixture.CloseNow(lost)
	require.Eventually(t, func() bool {
		_, err = lost.Mutex("startup").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotSent)
		return strings.Contains(err.Error(), "127.0.0.1:1")
	}, time.Minute, time.Millisecond, "it says who did not answer")
}

func TestFaultsOfNew(t *testing.T) {
	_, err := cluster.New(nil, cluster.Options{})
	require.ErrorContains(t, err, "nil")
	_, err = cluster.New(&redisc.Cluster{}, cluster.Options{})
	require.ErrorContains(t, err, "StartupNodes")
	_, err = cluster.New(&redisc.Cluster{StartupNodes: []string{"a", "b"}}, cluster.Options{})
	require.ErrorContains(t, err, `"a"`)
	require.ErrorContains(t, err, `"b"`)
}

func TestPoolsOfTheClusterAreDialledAsTheyDo(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	made := &redisc.Cluster{
		StartupNodes: rc.Addrs(),
		CreatePool: func(addr string, opts ...redis.DialOption) (*redis.Pool, error) {
			return &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", addr, opts...) }}, nil
		},
		DialOptions: []redis.DialOption{redis.DialClientName("from-the-pool")},
	}
	defer made.Close()
	source, err := cluster.New(made, cluster.Options{})
	require.NoError(t, err)
	c, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	held := fixture.Hold(t, c.Mutex("pools").Lock)
	clients, err := redis.String(fixture.Do(t, rc.Servers[owner(t, rc, "pools")], "CLIENT", "LIST"), nil)
	require.NoError(t, err)
	require.Contains(t, clients, "from-the-pool")

	conn, err := source.GetContext(ctx)
	require.NoError(t, err)
	n, err := redis.Int(conn.Do("EXISTS", "pools"))
	require.NoError(t, err)
	require.Equal(t, 1, n)
	require.NoError(t, conn.Close())
	require.NoError(t, held.Unlock(ctx))
}

// TestCloseWaitsForNobody. One client was never used. The nodes of the other take
// connections and answer nothing.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer ln.Close()
	source, err := cluster.New(&redisc.Cluster{StartupNodes: []string{ln.Addr().String()}}, cluster.Options{})
	require.NoError(t, err)
	unused, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	require.NoError(t, unused.Close(bounded.Context(t)))
	c, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	_, err = c.Mutex("m").TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotSent)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").Lock(bounded.Context(t))
		waiting <- err
	}()
	require.NoError(t, c.Close(bounded.Context(t)))
	require.ErrorIs(t, bounded.Receive(t, waiting), lock.ErrClosed)
}
