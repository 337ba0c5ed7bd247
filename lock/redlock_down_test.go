package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// outage takes a server away and brings it back.
type outage struct {
	down, up func(*redistest.Server) error
	empty    bool // it comes back without its keys
}

var (
	stopped = outage{(*redistest.Server).Pause, (*redistest.Server).Resume, false}
	killed  = outage{(*redistest.Server).Kill, func(s *redistest.Server) error { return s.Restart(context.Background()) }, true}
)

// TestRedLockSurvivesAnyTwoStoppedOrKilledServers of five: a hold goes on past
// its lease, others do not get in, the lock goes from process to process, and a
// server that comes back empty does not vote. To cut two, as a network does, is
// the next test's.
func TestRedLockSurvivesAnyTwoStoppedOrKilledServers(t *testing.T) {
	fixture.Slow(t)
	fixture.SimulatedToo(t)
	// Not beside other tests: so many servers would cost them their leases.
	const sets = 2 // which pairs is drawn, so all come in the course of time
	servers := fixture.Servers(t, 5*sets)
	fixture.AwaitVotes(t, redLease, servers...)
	var pairs [][]int
	for i := range 5 {
		for j := range i {
			pairs = append(pairs, []int{i, j})
		}
	}
	rand.Shuffle(len(pairs), func(i, j int) { pairs[i], pairs[j] = pairs[j], pairs[i] })
	t.Logf("%v", pairs)
	var noVote atomic.Int64
	var wg sync.WaitGroup
	for n := range sets {
		five := servers[5*n : 5*n+5]
		a, b := fixture.NewRedFleet(t, five, t.Name(), fixture.RedConfig()), fixture.NewRedFleet(t, five, t.Name(), fixture.RedConfig())
		wg.Go(func() {
			var l multiLedger
			surviveOutage(t, a, b, &l, pairs[n], stopped, &noVote)
			surviveOutage(t, a, b, &l, pairs[n], killed, &noVote)
			fixture.AwaitVotes(t, redLease, five...)
			l.check(t)
			if n == 0 {
				loseToStoppedMajority(t, a)
			}
			if n == 1 {
				loseThoughMembersCameBack(t, a)
			}
		})
	}
	bounded.Wait(t, &wg)
	require.Positive(t, noVote.Load())
}

// surviveOutage has a hold the lock while two servers go, and b after it until
// they are back; noVote counts how often those that are back were refused. A busy machine can lose a lease of a second, but not three.
func surviveOutage(t *testing.T, a, b *fixture.RedFleet, l *multiLedger, pair []int, o outage, noVote *atomic.Int64) {
	t.Helper()
	ctx := bounded.Context(t)
	who := fmt.Sprint(pair, o.empty)
	for try := 1; ; try++ {
		held := a.LockOnAll(t)
		l.rely(held, "a"+who, func() {
			for _, i := range pair {
				require.NoError(t, o.down(a.Servers[i]))
			}
			// A lease goes by, in which the two are lost, and the whole is not.
			require.Eventually(t, func() bool { return held.Members() <= 3 }, time.Minute, 5*time.Millisecond)
			a.AwaitRenewals(t, 1, fixture.OthersOf(pair...)...)
			_, err := b.Lock.TryLock(ctx)
			require.True(t, err != nil || !held.Valid())
		})
		err := held.Unlock(ctx)
		if err == nil { // a quorum has answered
			break
		}
		require.ErrorIs(t, err, lock.ErrLost)
		require.Less(t, try, 3, "lost with two servers down: %v", err)
		for _, i := range pair {
			require.NoError(t, o.up(a.Servers[i]))
		}
		fixture.AwaitVotes(t, redLease, a.Servers...)
	}
	next := fixture.Hold(t, b.Lock.Lock)
	l.rely(next, "b"+who, func() {
		began := time.Now()
		for _, i := range pair {
			require.NoError(t, o.up(a.Servers[i]))
		}
		if !o.empty {
			return
		}
		// They are not yet up for a lease, so what they give does not count.
		for refused := 0; refused < 2 && time.Since(began) < time.Second; {
			got, err := a.Lock.TryLock(ctx)
			var q *lock.QuorumError
			switch {
			case err == nil: // b has lost it, and the ledger knows whether it was told
				l.rely(got, "a again"+who, func() {})
				_ = got.Unlock(ctx)
				return
			case errors.As(err, &q) && q.NoVote == 0 && q.Acquired == 0:
				time.Sleep(20 * time.Millisecond) // they are not heard yet
			case errors.As(err, &q) && time.Since(began) < time.Second:
				require.True(t, q.Acquired == 0 || !next.Valid(), "%v", err)
				refused = q.NoVote
				noVote.Add(int64(refused))
			}
		}
	})
	if err := next.Unlock(ctx); err != nil {
		require.ErrorIs(t, err, lock.ErrLost)
	}
	require.Eventually(t, func() bool { return fixture.Having(t, a.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func loseToStoppedMajority(t *testing.T, f *fixture.RedFleet) {
	held := f.LockOnAll(t)
	for _, i := range []int{0, 1, 3} {
		require.NoError(t, f.Servers[i].Pause())
	}
	bounded.Receive(t, held.Done())
	require.False(t, held.Valid())
	for _, i := range []int{0, 1, 3} {
		require.NoError(t, f.Servers[i].Resume())
	}
	require.ErrorIs(t, held.Unlock(bounded.Context(t)), lock.ErrLost)
}

// loseThoughMembersCameBack: they have no part in a hold that began without
// them, however long it lasts; with one more gone there is no quorum.
func loseThoughMembersCameBack(t *testing.T, f *fixture.RedFleet) {
	ctx := bounded.Context(t)
	for _, i := range []int{1, 4} {
		require.NoError(t, f.Servers[i].Kill())
	}
	held := fixture.Hold(t, f.Lock.Lock)
	for _, i := range []int{1, 4} {
		require.NoError(t, f.Servers[i].Restart(ctx))
	}
	f.AwaitRenewals(t, 2, 0, 2, 3)
	require.True(t, held.Valid())
	require.NoError(t, f.Servers[0].Kill())
	bounded.Receive(t, held.Done())
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Err(), lock.ErrLost)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}
