package lock_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

const noID = "0000000000000000000000000000000000000000"

// promoted returns a master and what was its replica, which was promoted just now and
// has been up for long.
func promoted(t *testing.T) (master, heir *redistest.Server) {
	t.Helper()
	master, heir = fixture.WithReplica(t)
	fixture.AwaitVotes(t, redLease, master, heir)
	fixture.Do(t, heir, "REPLICAOF", "NO", "ONE")
	return master, heir
}

// failOver makes another server answer at the address of a member.
func failOver(f *fixture.RedFleet, member int, to *redistest.Server) {
	f.Nets[member].Lead(faultproxy.Before(to))
	f.Nets[member].Reset()
}

// TestAPromotedReplicaHasNoVote is the case of a restarted member again: A holds two of
// three, the address of one of them fails over to a replica that lacks the vote, and B can
// reach that one and the third. That the replica has been up for long says nothing.
func TestAPromotedReplicaHasNoVote(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	for try := 1; !promotedReplicaHasNoVote(t, fmt.Sprint(t.Name(), try)); try++ {
		require.Less(t, try, 3, "a machine as slow as that?")
	}
}

// promotedReplicaHasNoVote returns false if B was answered so late that the heir might have voted.
func promotedReplicaHasNoVote(t *testing.T, name string) bool {
	master, heir := promoted(t)
	servers := append([]*redistest.Server{master}, fixture.Servers(t, 2)...)
	fixture.AwaitVotes(t, redLease, servers...)
	ctx := bounded.Context(t)
	a, b := fixture.NewRedFleet(t, servers, name, fixture.RedConfig()), fixture.NewRedFleet(t, servers, name, fixture.RedConfig())
	a.Cut(2)
	b.Cut(1)
	held := fixture.Hold(t, a.Lock.Lock)
	began := time.Now()
	failOver(a, 0, heir)
	failOver(b, 0, heir)
	var q *lock.QuorumError
	for q == nil || q.Members-q.Unknown < 2 || q.Held > 0 { // what an earlier try took may not be given back yet
		early, err := b.Lock.TryLock(ctx)
		if time.Since(began) >= redLease {
			if err == nil {
				require.NoError(t, early.Unlock(ctx))
			}
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			return false
		}
		require.ErrorAs(t, err, &q)
	}
	require.Equal(t, 1, q.Acquired, "%v", q)
	require.Equal(t, 1, q.NoVote, "%v", q)
	require.ErrorContains(t, q, "was a replica")
	require.False(t, fixture.Exists(t, heir, name), "what it gave is given back")
	other := fixture.Hold(t, b.Lock.Lock)
	require.False(t, held.Valid())
	require.GreaterOrEqual(t, time.Since(began), redLease)
	require.NoError(t, other.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	return true
}

// TestAPromotedReplicaIsRetakenWhenItMayVote, and not before.
func TestAPromotedReplicaIsRetakenWhenItMayVote(t *testing.T) {
	t.Parallel()
	fixture.SimulatedToo(t)
	master, heir := promoted(t)
	servers := append([]*redistest.Server{master}, fixture.Servers(t, 2)...)
	fixture.AwaitVotes(t, redLease, servers...)
	a := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	for try := 0; ; try++ {
		held := a.LockOnAll(t)
		before, began := lock.PartOf(held, 0), time.Now()
		failOver(a, 0, heir)
		bounded.Until(t, func() bool { return held.Err() != nil || held.Members() == 3 && lock.PartOf(held, 0) != before })
		took, kept := time.Since(began), held.Err() == nil
		_ = held.Unlock(bounded.Context(t))
		if kept {
			require.GreaterOrEqual(t, took, redLease)
			return
		}
		require.Less(t, try, 3, "a machine as slow as that?")
		failOver(a, 0, master)
	}
}

// TestAPromotedReplicaThatHasForgottenItsMasterHasNoVote: without replicas of its own, a
// master forgets its old replication id after repl-backlog-ttl.
func TestAPromotedReplicaThatHasForgottenItsMasterHasNoVote(t *testing.T) {
	t.Parallel()
	fixture.SimulatedToo(t)
	_, heir := promoted(t)
	fixture.Do(t, heir, "CONFIG", "SET", "repl-backlog-ttl", 1)
	stats, err := heir.Info("stats")
	require.NoError(t, err)
	if stats["total_net_repl_input_bytes"] == "" {
		t.Skip("a server of Redis 7 tells that it was a replica")
	}
	bounded.Until(t, func() bool {
		info, err := heir.Info("replication")
		require.NoError(t, err)
		return info["master_replid2"] == noID
	})
	r, err := lock.NewRedLock(lock.RedLockConfig{}, fixture.ClientOf(t, heir, fixture.RedConfig()).Mutex(t.Name()))
	require.NoError(t, err)
	require.Equal(t, 1, answersOf(t, r, 1).NoVote)
	require.NoError(t, fixture.Hold(t, r.Lock).Unlock(bounded.Context(t)))
}

// TestARedLockOfServersThatFailOverIsRefused, however durable they are.
func TestARedLockOfServersThatFailOverIsRefused(t *testing.T) {
	one := fixture.ClientOf(t, onRedis(t), lock.Config{})
	many := fixture.Client(t, fixture.NewShifting(nil), lock.Config{})
	for _, durable := range []bool{false, true} {
		_, err := lock.NewRedLock(lock.RedLockConfig{Durable: durable}, one.Mutex("a"), many.Mutex("a"))
		require.ErrorContains(t, err, "member 1 of the RedLock has the client of a Topology (Sentinel, Cluster)")
		require.ErrorContains(t, err, "may have forgotten")
	}
}
