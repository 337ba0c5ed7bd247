package cluster_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
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
