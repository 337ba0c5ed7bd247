package integration_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// The topologies on containers. What the packages of lock check on processes is
// tried here once more in short, each with its own servers, all at once.

// requireUnlocked unlocks.
func requireUnlocked(t *testing.T, held *lock.Held) {
	t.Helper()
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(bounded.Context(t)) }))
}

// requireTakenOver checks that another client gets a lost lock, and not before the
// holder has learned of the loss. By then held is lost by the clock alone.
func requireTakenOver(t *testing.T, other *lock.Client, held *lock.Held) {
	t.Helper()
	next := fixture.Hold(t, other.Mutex(held.Name()).Lock)
	require.False(t, held.Valid(), "two have %s", held.Name())
	require.False(t, time.Now().Before(held.Deadline()))
	require.Greater(t, next.Token(), held.Token(), "tokens rise")
	requireUnlocked(t, next)
}

// TestAFailoverOfContainers under Sentinel. A holder whose lease is shorter than the
// failover learns of its loss before another can have the lock. A holder with a longer
// lease keeps the locks that the new master has, and learns that the others are lost.
func TestAFailoverOfContainers(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	if testing.Short() {
		t.Skip("six containers")
	}
	const downAfter = 5 * time.Second
	rs := fixture.Sentinels(t, redistest.SentinelOptions{DownAfter: downAfter, Start: containers(t).start})
	clientFor := func(lease time.Duration) *lock.Client {
		source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
		require.NoError(t, err)
		return fixture.Client(t, source, lock.Config{Lease: lease, IOTimeout: min(time.Second, lease/10)})
	}
	ctx := bounded.Context(t)
	short, long, other := clientFor(downAfter/2), clientFor(300*time.Second), clientFor(300*time.Second)
	helds := fixture.LockAll(t, short, fixture.Names("short", 20))
	kept := fixture.LockAll(t, long, fixture.Names("kept", 20))
	for _, replica := range rs.Servers[1:] {
		require.Eventually(t, func() bool {
			return fixture.Do(t, replica, "EXISTS", "kept19") == int64(1)
		}, time.Minute, 5*time.Millisecond)
		require.NoError(t, replica.Pause())
	}
	fixture.Do(t, rs.Servers[0], "CLIENT", "KILL", "TYPE", "replica") // or their kernels would take what they miss
	missed := fixture.LockAll(t, long, fixture.Names("missed", 20))
	require.NoError(t, rs.Servers[0].Kill())
	for _, replica := range rs.Servers[1:] {
		require.NoError(t, replica.Resume())
	}
	for _, held := range helds {
		fixture.RequireLost(t, held, lock.TrustEnded)
	}
	for _, held := range helds {
		requireTakenOver(t, other, held)
	}
	for _, held := range missed {
		fixture.RequireLost(t, held, lock.NotOwner)
		next := fixture.Hold(t, other.Mutex(held.Name()).Lock)
		require.Greater(t, next.Token(), held.Token(), "tokens rise over a failover")
		requireUnlocked(t, next)
	}
	for name, held := range kept {
		require.True(t, held.Valid(), name)
		require.ErrorIs(t, fixture.RetryUntilKnown(func() error {
			_, err := other.Mutex(name).TryLock(ctx)
			return err
		}), lock.ErrNotAcquired)
		requireUnlocked(t, held)
	}
	for _, c := range []*lock.Client{short, long, other} {
		require.NoError(t, c.Close(ctx))
	}
}

// TestAClusterOfContainersMovesASlotAndFailsOver under clients that fight for a
// lock of that slot and hold locks of all others.
func TestAClusterOfContainersMovesASlotAndFailsOver(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	if testing.Short() {
		t.Skip("six containers")
	}
	// If a replica takes over before the trust in a lease ends, the lock is renewed
	// there, and the holder keeps it.
	const lease = 5 * time.Second
	rc, err := redistest.StartCluster(bounded.Context(t), redistest.ClusterOptions{
		Replicas: 1, NodeTimeout: 2 * lease, Start: containers(t).start,
		Args: []string{"--cluster-require-full-coverage", "no"},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, rc.Stop()) })
	ctx := bounded.Context(t)
	clientFor := func() *lock.Client {
		source, err := cluster.New(&redisc.Cluster{StartupNodes: rc.Addrs()[1:2]}, cluster.Options{})
		require.NoError(t, err)
		return fixture.Client(t, source, lock.Config{Lease: lease})
	}
	a, b := clientFor(), clientFor()
	serverOf := func(name string) int { return redisc.Slot(name) * 3 / 16384 }
	const dies = 0
	var onDead, elsewhere []string
	for i := 0; len(onDead) < 20; i++ {
		if name := fmt.Sprint("held", i); serverOf(name) == dies {
			onDead = append(onDead, name)
		} else {
			elsewhere = append(elsewhere, name)
		}
	}
	lost, kept := fixture.LockAll(t, a, onDead), fixture.LockAll(t, a, elsewhere)

	roaming := "roaming"
	for i := 0; serverOf(roaming) == dies; i++ {
		roaming = fmt.Sprint("roaming", i)
	}
	fight, stop := context.WithCancel(ctx)
	defer stop()
	var inside atomic.Int32
	var turns, token atomic.Int64
	var fighters sync.WaitGroup
	for i := range 4 {
		c := []*lock.Client{a, b}[i%2]
		fighters.Go(func() {
			for fight.Err() == nil {
				held, err := c.Mutex(roaming).Lock(fight)
				if err != nil {
					if fight.Err() == nil {
						t.Error(err)
					}
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two at once")
				}
				if last := token.Swap(held.Token()); last >= held.Token() {
					t.Errorf("token %d after %d", held.Token(), last)
				}
				inside.Add(-1)
				turns.Add(1)
				if err := fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }); err != nil {
					t.Error(err)
				}
			}
		})
	}
	goOn := func() {
		t.Helper()
		n := turns.Load()
		require.Eventually(t, func() bool { return turns.Load() > n+10 }, time.Minute, time.Millisecond, "they go on")
	}
	goOn()
	slot, from := redisc.Slot(roaming), serverOf(roaming)
	to := 3 - from // the other one of 1 and 2
	require.NoError(t, rc.BeginMove(slot, from, to))
	goOn()
	require.NoError(t, rc.MoveKeys(slot, from, to))
	goOn()
	require.NoError(t, rc.EndMove(slot, from, to))
	goOn()
	require.Empty(t, a.Stats().Renewal.Lost)

	killed := time.Now()
	require.NoError(t, rc.Servers[dies].Kill())
	for _, held := range lost {
		fixture.RequireLost(t, held, lock.TrustEnded)
		require.True(t, held.Deadline().Before(killed.Add(lease)), "no trust without a server's word")
	}
	for _, held := range lost {
		requireTakenOver(t, b, held) // as soon as the replica has taken over
	}
	goOn()
	stop()
	bounded.Wait(t, &fighters)
	for name, held := range kept {
		require.True(t, held.Valid(), name)
		requireUnlocked(t, held)
	}
	require.NoError(t, a.Close(ctx))
	require.NoError(t, b.Close(ctx))
}

// TestFiveContainersAsOneRedLock: two masters that hang cost it nothing, a third
// one ends it before any other could have the lock.
func TestFiveContainersAsOneRedLock(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	if testing.Short() {
		t.Skip("five containers")
	}
	const lease = 6 * time.Second
	start := containers(t)
	var servers []*redistest.Server
	for range 5 {
		servers = append(servers, startOwn(t, start))
	}
	fixture.AwaitVotes(t, lease, servers...) // none votes on a lock that it may have forgotten
	ctx := bounded.Context(t)
	var clients []*lock.Client
	redLock := func() *lock.RedLock {
		var members []*lock.Mutex
		for _, s := range servers {
			c := fixture.ClientOf(t, s, lock.Config{Lease: lease, MaxPoll: 200 * time.Millisecond})
			clients = append(clients, c)
			members = append(members, c.Mutex("red"))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{}, members...)
		require.NoError(t, err)
		return r
	}
	a, b := redLock(), redLock()
	holders := func() int { return fixture.CountHaving(t, servers, "red") }
	var held *lock.MultiHeld
	var err error
	for held == nil || held.Members() < 5 { // a busy machine may answer late
		if held != nil {
			require.NoError(t, held.Unlock(ctx))
		}
		held, err = a.Lock(ctx)
		require.NoError(t, err)
	}
	require.Equal(t, 5, holders())
	for _, i := range []int{1, 3} {
		require.NoError(t, servers[i].Pause())
	}
	// It outlives its first lease by the renewals of three.
	began := time.Now()
	require.Eventually(t, func() bool { return time.Since(began) > 2*lease }, time.Minute, 10*time.Millisecond)
	require.True(t, held.Valid())
	_, err = b.TryLock(ctx)
	require.Error(t, err)

	require.NoError(t, held.Unlock(ctx), "a majority has answered")
	held = fixture.Hold(t, a.Lock)
	require.Equal(t, 3, held.Members())
	require.NoError(t, servers[0].Pause())
	bounded.Receive(t, held.Done())
	require.False(t, held.Valid())
	for _, i := range []int{0, 1, 3} {
		require.NoError(t, servers[i].Resume())
	}
	next := fixture.Hold(t, b.Lock)
	require.False(t, time.Now().Before(held.Deadline()), "told before another had it")
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.True(t, next.Valid())
	require.NoError(t, next.Unlock(ctx))
	require.Eventually(t, func() bool { return holders() == 0 }, time.Minute, 10*time.Millisecond)
	for _, c := range clients {
		require.NoError(t, c.Close(ctx))
	}
}
