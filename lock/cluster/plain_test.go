package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// Small hosted servers are often in cluster mode, and programs reach them through a plain pool.
func TestAPoolToAServerInClusterModeIsToldWhatItNeeds(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	pool := rc.Servers[0].Pool(0)
	defer pool.Close()
	c, err := lock.New(pool, lock.Config{})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, err = c.Mutex("job").Lock(ctx)
	require.ErrorContains(t, err, "CROSSSLOT")
	require.ErrorContains(t, err, "lock/cluster")
	require.ErrorContains(t, err, `such as "{app}:"`)
	require.NotErrorIs(t, err, lock.ErrUnknown)

	var elsewhere string
	for _, name := range fixture.Names("permits", 100) {
		if owner(t, rc, name) != 0 {
			elsewhere = name
			break
		}
	}
	_, err = c.PermitSemaphore(elsewhere).Acquire(ctx, 1)
	require.ErrorContains(t, err, "MOVED")
	require.ErrorContains(t, err, "lock/cluster")
	require.NotErrorIs(t, err, lock.ErrUnknown, "it would be tried for ever")
}

// lock/SERVERS.md gives this prefix for one server that has all slots.
func TestAPrefixWithAHashTagServesAPoolToAWholeCluster(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../SERVERS.md")
	require.NoError(t, err)
	const prefix = "{app}:"
	require.True(t, strings.Contains(string(text), "`KeyPrefix: \""+prefix+"\"`"), "lock/SERVERS.md names the prefix")
	rc := fixture.Cluster(t, redistest.ClusterOptions{Masters: 1})
	pool := rc.Servers[0].Pool(0)
	defer pool.Close()
	c, err := lock.New(pool, lock.Config{KeyPrefix: prefix, Lease: time.Second, MaxPoll: time.Hour})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	permits, sem, latch := c.PermitSemaphore("p"), c.Semaphore("s"), c.CountDownLatch("l")
	require.NoError(t, permits.Set(ctx, 1))
	for _, take := range []func(context.Context) (*lock.Held, error){
		c.Mutex("m").Lock, c.FencedMutex("n").Lock, c.FairMutex("f").Lock, c.RWMutex("r").Reader().Lock, c.RWMutex("w").Writer().Lock,
		func(ctx context.Context) (*lock.Held, error) { return permits.Acquire(ctx, 1) },
	} {
		held, err := take(ctx)
		require.NoError(t, err)
		fixture.AwaitRenewed(t, c, 1)
		got := make(chan error, 1)
		go func() {
			next, err := take(ctx)
			if err == nil {
				err = next.Unlock(ctx)
			}
			got <- err
		}()
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, bounded.Receive(t, got))
	}
	_, err = sem.TrySet(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, sem.Acquire(ctx, 1))
	require.NoError(t, sem.Release(ctx, 1))
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, latch.CountDown(ctx))
	require.NoError(t, latch.Wait(ctx))
	keys := fixture.Keys(t, rc.Servers[0], "*")
	require.Contains(t, keys, prefix+"wheellock_token")
}

// TestAFailoverBehindTheNameOfAServerInClusterMode: the old master lives on as a replica. It ends no
// connection, and says MOVED where others say READONLY. The hold is renewed at the new master, and a
// waiter that only asks now and then finds it.
func TestAFailoverBehindTheNameOfAServerInClusterMode(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{Masters: 1, Replicas: 1})
	master, heir := rc.Servers[0], rc.Servers[1]
	var names [2]*faultproxy.Proxy
	var clients [2]*lock.Client
	for i := range names {
		names[i] = fixture.Proxy(t, master, nil)
		clients[i] = fixture.ClientOver(t, names[i], lock.Config{
			KeyPrefix: "{app}:", Lease: 3 * time.Second, MaxPoll: 200 * time.Millisecond, Connections: 1,
		})
	}
	held := fixture.Hold(t, clients[0].Mutex("m").Lock)
	got := make(chan error, 1)
	go func() {
		next, err := clients[1].Mutex("m").Lock(bounded.Context(t))
		if err == nil {
			err = next.Unlock(bounded.Context(t))
		}
		got <- err
	}()
	fixture.AwaitSubscribers(t, master, "redisson_lock__channel:{app}:m", 1)
	require.Eventually(t, func() bool { return fixture.PTTL(t, heir, "{app}:m", "READONLY") > 0 }, time.Minute, 5*time.Millisecond)
	for _, p := range names {
		p.SetServer(faultproxy.Before(heir))
	}
	accepted := names[0].Accepted()
	fixture.Do(t, heir, "CLUSTER", "FAILOVER")
	bounded.Until(t, func() bool {
		_, err := fixture.Dial(t, master).Do("GET", "{app}:x")
		return err != nil && strings.HasPrefix(err.Error(), "MOVED")
	})
	time.Sleep(4 * time.Second) // longer than a lease
	require.True(t, held.Valid(), "%v", held.Err())
	require.LessOrEqual(t, names[0].Accepted()-accepted, 20)
	select {
	case err := <-got:
		t.Fatalf("the waiter has left: %v", err)
	default:
	}
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(bounded.Context(t)) }))
	require.NoError(t, bounded.Receive(t, got))
}
