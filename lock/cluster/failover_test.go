package cluster_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/renewal"
)

// TestAHungMasterCostsOnlyItsOwnLocks: it takes connections and bytes, answers
// nothing, and its TTLs run on.
func TestAHungMasterCostsOnlyItsOwnLocks(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{NodeTimeout: time.Minute})
	c := newClient(t, rc, cluster.Options{}, lock.Config{
		Lease: 3 * time.Second, Margin: 700 * time.Millisecond,
	})
	helds := fixture.LockAll(t, c, fixture.Names("hung:", 600))
	fixture.AwaitRenewed(t, c, 600)
	const hung = 1
	var its []*lock.Held
	for name, held := range helds {
		if owner(t, rc, name) == hung {
			its = append(its, held)
		}
	}
	require.Greater(t, len(its), 100)
	began, last := time.Now(), its[len(its)-1]
	ttl := fixture.PTTL(t, rc.Servers[hung], last.Name(), "ASKING") // what is renewed after that lives for longer
	require.NoError(t, rc.Servers[hung].Pause())
	<-last.Done()
	told := time.Since(began)
	for _, held := range its {
		fixture.RequireLost(t, held, lock.TrustEnded)
	}
	require.NoError(t, rc.Servers[hung].Resume())
	require.Less(t, told, time.Duration(ttl)*time.Millisecond, "told while the server had the key")
	fixture.AwaitRenewed(t, c, 2*(len(helds)-len(its)))
	require.Equal(t, map[renewal.Reason]int{renewal.TrustEnded: len(its)}, c.Stats().Renewal.Lost, "each once, and no other")
	held := fixture.Hold(t, c.Mutex("hung:again"+its[0].Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// TestAMasterFailsOver to a replica that has missed some locks. Their holders are
// told as soon as the replica says so, long before renewal is due. The other holds live on.
func TestAMasterFailsOver(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{
		Replicas: 1, Args: []string{"--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"},
	})
	ctx := bounded.Context(t)
	t.Run("its replicas are waited for before", func(t *testing.T) { replicasAreWaitedFor(t, rc) })
	// Renewals are due each 100 s, and no waiter polls, so the failover alone causes
	// what happens here.
	var log fixture.Log
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: 300 * time.Second, IOTimeout: time.Second, Logger: log.Logger()})
	other := newClient(t, rc, cluster.Options{}, lock.Config{Lease: 300 * time.Second, IOTimeout: time.Second})
	const dies, heir = 2, 5
	var here, elsewhere []string
	for i := 0; len(here) < 60; i++ {
		if name := fmt.Sprint("failover:", i); owner(t, rc, name) == dies {
			here = append(here, name)
		} else {
			elsewhere = append(elsewhere, name)
		}
	}
	kept := fixture.LockAll(t, c, here[:30])
	rest := fixture.LockAll(t, c, elsewhere)
	fixed, err := c.Mutex(here[30]).LockFor(ctx, 400*time.Second)
	require.NoError(t, err)
	kept[here[30]] = fixed
	require.Eventually(t, func() bool { return fixture.PTTL(t, rc.Servers[heir], here[30], "READONLY") > 0 }, time.Minute, 5*time.Millisecond)
	require.NoError(t, rc.Servers[heir].Pause())
	fixture.Do(t, rc.Servers[dies], "CLIENT", "KILL", "TYPE", "replica") // or its kernel would take what it misses
	missed := fixture.LockAll(t, c, here[31:59])
	fixedMissed, err := c.Mutex(here[59]).LockFor(ctx, 400*time.Second)
	require.NoError(t, err)
	missed[here[59]] = fixedMissed
	token := fixedMissed.Token()
	require.NoError(t, rc.Servers[dies].Kill())
	require.NoError(t, rc.Servers[heir].Resume())

	for _, held := range missed {
		select {
		case <-held.Done():
		case <-time.After(time.Minute):
			t.Fatal("not told, though its key is gone")
		}
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.NotOwner, lost.Reason)
	}
	require.Eventually(t, func() bool { return owner(t, rc, here[0]) == heir }, time.Minute, 5*time.Millisecond, "all hear of it")
	next := fixture.Hold(t, other.Mutex(here[59]).Lock)
	require.Greater(t, next.Token(), token, "tokens rise over a failover")
	for _, helds := range []map[string]*lock.Held{kept, rest} {
		for name, held := range helds {
			require.True(t, held.Valid(), name)
			err := fixture.RetryUntilKnown(func() error { // its vigil has noticed the failover only now, and renews connections
				_, err := other.Mutex(name).TryLock(ctx)
				return err
			})
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NoError(t, held.Unlock(ctx))
		}
	}
	require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: len(missed)}, c.Stats().Renewal.Lost)
	require.NoError(t, next.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
	said := fmt.Sprintf("old=%s new=%s", rc.Servers[dies].Addr(), rc.Servers[heir].Addr())
	require.Equal(t, 1, strings.Count(log.String(), said), log.String())
	require.Equal(t, 1, strings.Count(log.String(), "the server was replaced"), log.String())
}

// TestShortLeasesThroughAFailover: with leases shorter than the failover takes,
// every holder on the dead master is told before its key could expire, and
// the others notice nothing.
func TestShortLeasesThroughAFailover(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	rc := fixture.Cluster(t, redistest.ClusterOptions{
		Replicas: 1, NodeTimeout: 4 * time.Second, Args: []string{"--cluster-require-full-coverage", "no"},
	})
	ctx := bounded.Context(t)
	const lease = 2 * time.Second // on a busy machine too
	c := newClient(t, rc, cluster.Options{}, lock.Config{Lease: lease})
	helds := fixture.LockAll(t, c, fixture.Names("short:", 300))
	fixture.AwaitRenewed(t, c, 300)
	killed := time.Now()
	require.NoError(t, rc.Servers[0].Kill())
	for name, held := range helds {
		if slotIn(name) != 0 {
			continue
		}
		fixture.RequireLost(t, held, lock.TrustEnded)
		require.True(t, held.Deadline().Before(killed.Add(lease)), "no trust without a server's word")
	}
	for name := range helds {
		if slotIn(name) == 0 { // as soon as the replica has taken over
			held := fixture.Hold(t, c.Mutex(name).Lock)
			helds[name] = held
		}
	}
	fixture.AwaitRenewed(t, c, 900)
	for name, held := range helds {
		require.True(t, held.Valid(), name)
		require.NoError(t, held.Unlock(ctx))
	}
	require.NoError(t, c.Close(ctx))
}

// slotIn is the server that had the lock at first.
func slotIn(name string) int { return redisc.Slot(name) * 3 / 16384 }
