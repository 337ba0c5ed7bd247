package cluster_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
)

// onEach returns one name on each of the masters.
func onEach(t *testing.T, rc *redistest.Cluster, prefix string) [3]string {
	t.Helper()
	var names [3]string
	for i, found := 0, 0; found < 3; i++ {
		name := fmt.Sprint(prefix, i)
		if at := owner(t, rc, name); names[at] == "" {
			names[at] = name
			found++
		}
	}
	return names
}

// TestAMultiLockOfAllNodes: clients that list its members in other orders take
// turns. The MultiLock is renewed on every node, even while a slot moves. The loss
// of one member is the loss of the MultiLock.
func TestAMultiLockOfAllNodes(t *testing.T) {
	t.Parallel()
	rc := onCluster(t)
	ctx := bounded.Context(t)
	name := onEach(t, rc, "multi:")
	cfg := lock.Config{Lease: 10 * time.Second}
	var wg sync.WaitGroup
	inside, turns := 0, 0 // guarded by the locks alone; the race detector watches
	var clients []*lock.Client
	each := 5 // turns of each goroutine
	if testing.Short() {
		each = 2
	}
	for i := range 3 {
		c := newClient(t, rc, cluster.Options{}, cfg)
		clients = append(clients, c)
		m := fixture.MultiLock(t, c.Mutex(name[i]), c.Mutex(name[(i+1)%3]), c.Mutex(name[(i+2)%3]))
		for range 2 {
			wg.Go(func() {
				for range each {
					if err := m.Do(ctx, func(context.Context, *lock.MultiHeld) error {
						inside++
						require.Equal(t, 1, inside)
						inside--
						turns++
						return nil
					}); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	require.Equal(t, 3*2*each, turns)

	c := clients[0]
	m := fixture.MultiLock(t, c.Mutex(name[0]), c.Mutex(name[1]), c.Mutex(name[2]))
	held := fixture.Hold(t, m.Lock)
	slot := redisc.Slot(name[0])
	require.NoError(t, rc.BeginMove(slot, 0, 1))
	require.NoError(t, rc.MoveKeys(slot, 0, 1))
	fixture.AwaitRenewed(t, c, 6) // each twice
	require.True(t, held.Valid())
	require.NoError(t, rc.EndMove(slot, 0, 1))
	fixture.AwaitRenewed(t, c, 6) // each twice
	require.True(t, held.Valid())
	_, err := fixture.MultiLock(t, clients[1].Mutex(name[0]), clients[1].Mutex(name[2])).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	fixture.Do(t, rc.Servers[1], "DEL", name[0])
	bounded.Receive(t, held.Done())
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, name[0], lost.Name)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	for i, at := range []int{1, 1, 2} {
		require.EqualValues(t, -2, fixture.PTTL(t, rc.Servers[at], name[i], "ASKING"))
	}
}

// TestARedLockOfAClusterIsRefused, because a node of the Cluster may fail over.
func TestARedLockOfAClusterIsRefused(t *testing.T) {
	c := newClient(t, onCluster(t), cluster.Options{}, lock.Config{})
	_, err := lock.NewRedLock(lock.RedLockConfig{}, c.Mutex("red"))
	require.ErrorContains(t, err, "member 0 of the RedLock has the client of a Topology (Sentinel, Cluster)")
}

// replicasAreWaitedFor at the node that has the key.
func replicasAreWaitedFor(t *testing.T, rc *redistest.Cluster) {
	ctx := bounded.Context(t)
	name := onEach(t, rc, "replicated:")
	for i := range 3 {
		fixture.AwaitReplica(t, rc.Servers[i], "{"+name[i]+"}warm")
	}
	c := newClient(t, rc, cluster.Options{}, lock.Config{Replicas: 1, ReplicaTimeout: 3 * time.Second})
	for i := range 3 {
		held := fixture.Hold(t, c.Mutex(name[i]).Lock)
		require.Positive(t, fixture.PTTL(t, rc.Servers[3+i], name[i], "READONLY"), "the replica has it when Lock returns")
		require.NoError(t, held.Unlock(ctx))
	}
	require.NoError(t, c.Close(ctx))
	c = newClient(t, rc, cluster.Options{}, lock.Config{Replicas: 1, ReplicaTimeout: 300 * time.Millisecond})
	require.NoError(t, rc.Servers[3].Pause())
	_, err := c.Mutex(name[0]).Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	var short *lock.ReplicationError
	require.ErrorAs(t, err, &short)
	require.Zero(t, short.Acknowledged)
	require.EqualValues(t, -2, fixture.PTTL(t, rc.Servers[0], name[0], "ASKING"), "it was given back")
	_, err = fixture.MultiLock(t, c.Mutex(name[0]), c.Mutex(name[1]), c.Mutex(name[2])).Lock(ctx)
	require.ErrorIs(t, err, lock.ErrNotReplicated)
	for i := range 3 {
		require.EqualValues(t, -2, fixture.PTTL(t, rc.Servers[i], name[i], "ASKING"), "all or none")
	}
	held, err := fixture.MultiLock(t, c.Mutex(name[1]), c.Mutex(name[2])).Lock(ctx)
	require.NoError(t, err, "the other nodes have their replicas")
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, rc.Servers[3].Resume())
	require.NoError(t, c.Close(ctx))
}
