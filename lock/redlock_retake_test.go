package lock_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
)

// TestServersThatAreRestartedOneAfterTheOtherDoNotEndAHoldOfARedLock: a server is empty
// when it comes back. A durable server keeps its keys, but stays down until the trust in it has ended.
// No other owner gets the lock meanwhile, and the retakes do not extend MaxHold.
func TestServersThatAreRestartedOneAfterTheOtherDoNotEndAHoldOfARedLock(t *testing.T) {
	fixture.SkipSimulated(t)
	for name, args := range map[string][]string{"empty": nil, "durable": {"--appendonly", "yes", "--appendfsync", "always"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			servers := fixture.Servers(t, 3, args...)
			fixture.AwaitVotes(t, redLease, servers...)
			cfg := fixture.RedConfig()
			cfg.MaxHold = 10 * time.Minute
			a, b := fixture.NewRedFleet(t, servers, t.Name(), cfg), fixture.NewRedFleet(t, servers, t.Name(), cfg)
			if args != nil {
				a.ReplaceLock(t, t.Name(), lock.RedLockConfig{Durable: true})
				b.ReplaceLock(t, t.Name(), lock.RedLockConfig{Durable: true})
			}
			for try := 1; !restartAll(t, a, b, args != nil); try++ {
				require.Less(t, try, 3, "a machine as slow as that?")
				fixture.AwaitVotes(t, redLease, servers...)
			}
		})
	}
}

// restartAll restarts a's servers under a hold of a's. It returns false if the hold was
// lost to a machine that is too busy for leases of a second.
func restartAll(t *testing.T, a, b *fixture.RedFleet, durable bool) bool {
	ctx, cancel := context.WithCancel(bounded.Context(t))
	held := a.LockOnAll(t)
	rival := make(chan *lock.MultiHeld, 1)
	go func() {
		other, _ := b.Lock.Lock(ctx)
		rival <- other
	}()
	kept := true
	for i, s := range a.Servers {
		before, end := lock.PartOf(held, i), lock.PartOf(held, i).Hold().MaxHoldEnd()
		require.NoError(t, s.Kill())
		if durable {
			bounded.Until(t, func() bool { return before.Err() != nil || held.Err() != nil }) // the trust in this member has ended
		}
		require.NoError(t, s.Restart(context.Background()))
		bounded.Until(t, func() bool {
			kept = kept && held.Err() == nil
			return !kept || held.Members() == 3 && lock.PartOf(held, i) != before
		})
		require.Equal(t, end, lock.PartOf(held, i).Hold().MaxHoldEnd())
	}
	early := len(rival) > 0
	if kept = kept && held.Valid(); kept {
		require.False(t, early, "two have it")
		require.NoError(t, held.Unlock(ctx))
	} else {
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		_ = held.Unlock(ctx)
	}
	other := bounded.Receive(t, rival)
	cancel()
	require.NotNil(t, other)
	if kept {
		require.NoError(t, other.Unlock(bounded.Context(t)))
	} else {
		_ = other.Unlock(bounded.Context(t))
	}
	require.Eventually(t, func() bool { return fixture.CountHaving(t, a.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
	return kept
}

// moving is a RedLock on three servers. Another server can take the place of the first. To a hold, the
// first server then looks restarted.
type moving struct {
	*fixture.RedFleet
	first, second *faultproxy.Proxy // before the first server, and before the server that takes its place
	moved         atomic.Bool
}

func newMoving(t *testing.T, cfg lock.Config, decide func(faultproxy.Command) faultproxy.Fate) *moving {
	t.Helper()
	servers := fiveMasters(t)
	m := &moving{
		RedFleet: &fixture.RedFleet{Fleet: fixture.Fleet{Servers: servers[1:4]}},
		first:    fixture.Proxy(t, servers[0], nil), second: fixture.Proxy(t, servers[1], decide),
	}
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		if m.moved.Load() {
			return m.second.Dial(ctx)
		}
		conn, err := m.first.Dial(ctx)
		if err != nil {
			return nil, err
		}
		// Connections for renewal are dialled in the background. Without this check, a connection that is
		// dialled during a move could stay with the first server.
		if _, err := redis.DoContext(conn, ctx, "PING"); err != nil || m.moved.Load() {
			conn.Close()
			return m.second.Dial(ctx)
		}
		return conn, nil
	}}
	m.Clients, m.Nets = []*lock.Client{fixture.Client(t, pool, cfg)}, []*faultproxy.Proxy{m.second}
	for _, s := range servers[2:4] {
		p := fixture.Proxy(t, s, nil)
		m.Nets = append(m.Nets, p)
		m.Clients = append(m.Clients, fixture.ClientOver(t, p, cfg))
	}
	m.ReplaceLock(t, t.Name(), lock.RedLockConfig{})
	return m
}

func (m *moving) move() {
	m.moved.Store(true)
	m.first.Reset()
}

// awaitInterval returns when a retake of the first member, if there was one, would have been
// made.
func (m *moving) awaitInterval(t *testing.T) {
	t.Helper()
	other := fixture.Hold(t, m.Clients[0].Mutex(t.Name()+" beside").Lock)
	m.AwaitRenewals(t, 3, 0)
	require.NoError(t, other.Unlock(bounded.Context(t)))
}

func TestARetakenMemberHasWhatIsLeftOfTheLease(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	var held *lock.MultiHeld
	bounded.Until(t, func() bool {
		var err error
		held, err = m.Lock.LockFor(bounded.Context(t), redLease)
		require.NoError(t, err)
		return held.Members() == 3 || held.Unlock(bounded.Context(t)) != nil
	})
	end, before := time.Now().Add(redLease), lock.PartOf(held, 0)
	m.move()
	bounded.Until(t, func() bool { // on a busy machine the lease may end before
		return held.Err() != nil || held.Members() == 3 && lock.PartOf(held, 0) != before
	})
	require.False(t, held.Deadline().After(end))
	require.Less(t, fixture.PTTL(t, m.Servers[0], t.Name()), int64(redLease/time.Millisecond*2/3))
	fixture.RequireLost(t, held, lock.Expired)
	time.Sleep(time.Until(end))
	terms, ok := lock.RetakenFor(held, 0)
	require.False(t, ok, "%v are left", terms.Lease)
}

// TestAMemberThatWasDeletedIsNotRetaken: the server was not restarted since it voted.
func TestAMemberThatWasDeletedIsNotRetaken(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	m.moved.Store(true)
	held := m.LockOnAll(t)
	before := lock.PartOf(held, 0)
	m.second.HoldBack("uptime")
	ok, err := fixture.ClientOf(t, m.Servers[0], fixture.RedConfig()).Mutex(t.Name()).ForceUnlock(bounded.Context(t))
	require.NoError(t, err)
	require.True(t, ok)
	bounded.Until(t, func() bool { return m.second.Arrived("uptime") == 1 })
	m.second.LetThrough()
	m.awaitInterval(t)
	require.Equal(t, 2, held.Members())
	require.Same(t, before, lock.PartOf(held, 0))
	require.False(t, fixture.Exists(t, m.Servers[0], t.Name()))
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// TestADurableMemberThatWasDeletedIsNotRetaken: its server forgets nothing, so somebody has
// deleted the key. If its lease was over when the server said that it is gone, it has expired.
func TestADurableMemberThatWasDeletedIsNotRetaken(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	m.ReplaceLock(t, t.Name(), lock.RedLockConfig{Durable: true})
	m.moved.Store(true)
	held := m.LockOnAll(t)
	before := lock.PartOf(held, 0)
	ok, err := fixture.ClientOf(t, m.Servers[0], fixture.RedConfig()).Mutex(t.Name()).ForceUnlock(bounded.Context(t))
	require.NoError(t, err)
	require.True(t, ok)
	bounded.Until(t, func() bool { return held.Members() == 2 })
	m.awaitInterval(t)
	require.Same(t, before, lock.PartOf(held, 0))
	require.False(t, fixture.Exists(t, m.Servers[0], t.Name()))
	require.NoError(t, held.Unlock(bounded.Context(t)))

	began := time.Now()
	held, err = m.Lock.LockFor(bounded.Context(t), redLease)
	require.NoError(t, err)
	require.False(t, lock.Untold(held).Retakes(lock.NotOwner) && held.Valid())
	require.True(t, lock.Untold(held).Retakes(lock.TrustEnded))
	bounded.Until(t, func() bool { return time.Now().After(lock.PartOf(held, 0).Deadline()) })
	if gone := lock.Untold(held).Retakes(lock.NotOwner); time.Now().Before(began.Add(redLease)) {
		require.False(t, gone, "its key does not expire yet")
	}
	bounded.Until(t, func() bool { return fixture.Int(t, m.Servers[0], "EXISTS", t.Name()) == 0 })
	bounded.Until(t, func() bool { return lock.Untold(held).Retakes(lock.NotOwner) })
	require.False(t, lock.Untold(held).Retakes(lock.Expired))
}

// TestAMemberThatMayNotVoteIsNotRetaken, though it might when it was asked before it said yes.
func TestAMemberThatMayNotVoteIsNotRetaken(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	var taken atomic.Bool
	var asked atomic.Int64
	m := newMoving(t, fixture.RedConfig(), func(c faultproxy.Command) faultproxy.Fate {
		switch c.Script {
		case "acquire":
			taken.Store(true)
		case "release":
			taken.Store(false)
		case "uptime":
			if taken.Load() {
				asked.Add(1)
				return faultproxy.Answer([]any{int64(0), "restarted", "", int64(0)})
			}
		}
		return faultproxy.Pass
	})
	held := m.LockOnAll(t)
	before := lock.PartOf(held, 0)
	m.move()
	bounded.Until(t, func() bool { return asked.Load() >= 2 || lock.PartOf(held, 0) != before })
	require.Same(t, before, lock.PartOf(held, 0))
	require.Equal(t, 2, held.Members())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Eventually(t, func() bool { return fixture.CountHaving(t, m.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

// TestAServerHasOneVoteInARetakeToo: the address of a lost member leads to the server of
// another one.
func TestAServerHasOneVoteInARetakeToo(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	var released atomic.Int64
	m := newMoving(t, fixture.RedConfig(), func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "release" {
			released.Add(1)
		}
		return faultproxy.Pass
	})
	m.second.SetServer(faultproxy.Before(m.Servers[1]))
	var members []*lock.Mutex
	for i, c := range m.Clients {
		members = append(members, c.Mutex(t.Name()+strconv.Itoa(i)))
	}
	var err error
	m.Lock, err = lock.NewRedLock(lock.RedLockConfig{}, members...)
	require.NoError(t, err)
	held := m.LockOnAll(t)
	before := lock.PartOf(held, 0)
	m.move()
	bounded.Until(t, func() bool { return released.Load() >= 2 || lock.PartOf(held, 0) != before })
	require.Same(t, before, lock.PartOf(held, 0))
	require.Equal(t, 2, held.Members())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Eventually(t, func() bool { return !fixture.Exists(t, m.Servers[1], members[0].Name()) }, time.Minute, 5*time.Millisecond)
}

// TestAHoldWhoseTrustHasEndedTakesNoMember, neither when that was told nor just before.
func TestAHoldWhoseTrustHasEndedTakesNoMember(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	ctx := bounded.Context(t)
	held := m.LockOnAll(t)
	m.Cut(1, 2)
	bounded.Receive(t, held.Done())
	m.Mend(1, 2)
	m.move()
	m.awaitInterval(t)
	require.False(t, held.Valid())
	require.False(t, fixture.Exists(t, m.Servers[0], t.Name()))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

	held, err := m.Lock.LockFor(ctx, redLease)
	require.NoError(t, err)
	other := fixture.Hold(t, m.Clients[0].Mutex(t.Name()+" beside").Lock)
	require.True(t, lock.Untold(held).Admit(other) || !held.Valid())
	bounded.Receive(t, held.Done())
	require.False(t, lock.Untold(held).Admit(other))
}

// TestUnlockDuringARetakeLeavesNothing: the request of the retake is on its way.
func TestUnlockDuringARetakeLeavesNothing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, script string }{
		{"before it has the member", "acquire"}, {"when it has the member", "uptime"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var m *moving
			taken := make(chan struct{})
			keep := sync.OnceFunc(func() { m.second.HoldBack("uptime"); close(taken) })
			m = newMoving(t, fixture.RedConfig(), func(c faultproxy.Command) faultproxy.Fate {
				if c.Script == "acquire" && test.script == "uptime" {
					keep()
				}
				return faultproxy.Pass
			})
			held := m.LockOnAll(t)
			if test.script == "acquire" {
				m.second.HoldBack("acquire")
			}
			m.move()
			if test.script == "acquire" {
				bounded.Until(t, func() bool { return m.second.Arrived("acquire") > 0 || held.Err() != nil })
			} else {
				bounded.Receive(t, taken)
			}
			unlocked := make(chan error, 1)
			go func() { unlocked <- held.Unlock(bounded.Context(t)) }()
			bounded.Receive(t, held.Done())
			m.second.LetThrough()
			if err := bounded.Receive(t, unlocked); err != nil {
				require.True(t, fixture.IsAny(err, lock.ErrLost, lock.ErrUnknown), "%v", err) // of a machine that is too busy
			}
			require.Eventually(t, func() bool {
				m.second.LetThrough()
				return m.second.HasSettled() && fixture.CountHaving(t, m.Servers, t.Name()) == 0
			}, time.Minute, 5*time.Millisecond)
			m.second.LetThrough()
			m.awaitInterval(t)
			require.Zero(t, fixture.CountHaving(t, m.Servers, t.Name()))
		})
	}
}

// TestCloseAwaitsARetake of its client, and no more are made.
func TestCloseAwaitsARetake(t *testing.T) {
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	held := m.LockOnAll(t)
	m.second.HoldBack("acquire")
	m.move()
	bounded.Until(t, func() bool { return m.second.Arrived("acquire") > 0 })
	closed := make(chan error, 1)
	go func() { closed <- m.Clients[0].Close(bounded.Context(t)) }()
	require.NoError(t, bounded.Receive(t, closed), "it is bounded by MemberTimeout")
	m.second.LetThrough()
	m.AwaitRenewals(t, 2, 1, 2)
	require.Equal(t, 2, held.Members())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Eventually(t, func() bool { return fixture.CountHaving(t, m.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

// TestANestedHoldOfARedLockRetakesToo: the two take the member once between them.
func TestANestedHoldOfARedLockRetakesToo(t *testing.T) {
	t.Parallel()
	m := newMoving(t, fixture.RedConfig(), nil)
	ctx := bounded.Context(t)
	outer := m.LockOnAll(t)
	inner := outer
	bounded.Until(t, func() bool {
		var err error
		inner, err = m.Lock.Lock(outer.Context(ctx))
		require.NoError(t, err)
		return inner.Members() == 3 || inner.Unlock(ctx) != nil
	})
	before := map[*lock.MultiHeld]*hold.Held{outer: lock.PartOf(outer, 0), inner: lock.PartOf(inner, 0)}
	m.move()
	for held, part := range before {
		bounded.Until(t, func() bool { return held.Members() == 3 && lock.PartOf(held, 0) != part })
	}
	require.NoError(t, outer.Unlock(ctx))
	require.Equal(t, 3, inner.Members())
	require.NoError(t, inner.Unlock(ctx))
	require.Eventually(t, func() bool { return fixture.CountHaving(t, m.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

const noID = "0000000000000000000000000000000000000000"

// promoteReplica returns a master, and its former replica heir, which was just promoted but has been up
// for long.
func promoteReplica(t *testing.T) (master, heir *redistest.Server) {
	t.Helper()
	master, heir = fixture.WithReplica(t)
	fixture.AwaitVotes(t, redLease, master, heir)
	fixture.Do(t, heir, "REPLICAOF", "NO", "ONE")
	return master, heir
}

// failOver makes another server answer at the address of a member.
func failOver(f *fixture.RedFleet, member int, to *redistest.Server) {
	f.Nets[member].SetServer(faultproxy.Before(to))
	f.Nets[member].Reset()
}

// TestAPromotedReplicaHasNoVote: A holds two of three members. The address of one of these fails over
// to a replica that lacks A's hold. B can reach this replica and the third member, and must not get a
// quorum, although the replica has been up for long.
func TestAPromotedReplicaHasNoVote(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	for try := 1; !promotedReplicaHasNoVote(t, fmt.Sprint(t.Name(), try)); try++ {
		require.Less(t, try, 3, "a machine as slow as that?")
	}
}

// promotedReplicaHasNoVote returns false if B was answered so late that the heir might have voted.
func promotedReplicaHasNoVote(t *testing.T, name string) bool {
	master, heir := promoteReplica(t)
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
	fixture.SkipSimulated(t)
	master, heir := promoteReplica(t)
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
	fixture.SkipSimulated(t)
	_, heir := promoteReplica(t)
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
