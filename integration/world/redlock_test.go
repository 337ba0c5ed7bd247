package world_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
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
// server that comes back empty does not vote.
// TestRedLockSurvivesAnyTwoCutMembers cuts the network instead.
func TestRedLockSurvivesAnyTwoStoppedOrKilledServers(t *testing.T) {
	fixture.SkipSlow(t)
	fixture.SkipSimulated(t)
	// Not parallel, because with so many servers running, other tests would lose leases.
	const sets = 2 // the pairs are drawn, so other runs have other pairs
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

// surviveOutage lets fleet a hold the lock while two servers go down, and then fleet b until they are
// back. noVote counts how often servers that came back did not vote. On a busy machine a may
// lose the lock, but not three times in a row.
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
			// A lease passes. The hold loses the two members, but goes on.
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
		// The two servers have been up for less than a lease, so they do not vote.
		for refused := 0; refused < 2 && time.Since(began) < time.Second; {
			got, err := a.Lock.TryLock(ctx)
			var q *lock.QuorumError
			switch {
			case err == nil: // b has lost it, and the ledger knows whether it was told
				l.rely(got, "a again"+who, func() {})
				_ = got.Unlock(ctx)
				return
			case errors.As(err, &q) && q.NoVote == 0 && q.Acquired == 0:
				time.Sleep(20 * time.Millisecond) // they have not answered yet
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
	require.Eventually(t, func() bool { return fixture.CountHaving(t, a.Servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
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

// loseThoughMembersCameBack loses a hold that began without two members. These never become a part of
// the hold, so the loss of one more member ends it.
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

// TestRedLockSurvivesAnyTwoCutMembers: each pair is cut off from a holder, and
// then from the process that wants the lock next.
func TestRedLockSurvivesAnyTwoCutMembers(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	var wg sync.WaitGroup
	most := 5
	if testing.Short() {
		most = 3 // all at once, and each has a client for each server
	}
	for i := range most {
		for j := range i {
			name := fmt.Sprint(t.Name(), i, j)
			f := fixture.NewRedFleet(t, servers, name, fixture.RedConfig())
			wg.Go(func() {
				held := f.LockOnAll(t)
				require.Equal(t, 5, fixture.CountHaving(t, servers, name))
				f.Cut(i, j)
				// The hold loses the two members, but goes on.
				require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, name) == 3 }, time.Minute, 5*time.Millisecond)
				f.AwaitRenewals(t, 2, fixture.OthersOf(i, j)...)
				require.True(t, held.Valid())
				require.NoError(t, held.Err())
				require.NoError(t, held.Unlock(ctx))
				held = fixture.Hold(t, f.Lock.Lock)
				require.Equal(t, 3, held.Members())
				require.Equal(t, 3, fixture.CountHaving(t, servers, name))
				require.NoError(t, held.Unlock(ctx))
				require.Zero(t, fixture.CountHaving(t, servers, name))
			})
		}
	}
	bounded.Wait(t, &wg)
}

// TestRedLockExcludesUnderContention: several processes and goroutines, and
// members that come and go.
func TestRedLockExcludesUnderContention(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	var l multiLedger
	var wg sync.WaitGroup
	for i := range 3 {
		f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
		if i == 2 {
			f.Cut(4)
		}
		for j := range 2 {
			wg.Go(func() {
				for n := range 6 {
					held := fixture.Hold(t, f.Lock.Lock)
					l.rely(held, fmt.Sprint(i, ".", j, ".", n), func() {})
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	l.check(t)
	require.Len(t, l.times, 36)
}

// TestTwoOwnersOfARedLockNeverOverlap stops servers and cuts members at random,
// two at a time at most, and now and then three.
func TestTwoOwnersOfARedLockNeverOverlap(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	end := time.Now().Add(3 * time.Second)
	if fixture.IsBrief() {
		end = time.Now().Add(time.Second)
	}
	var l multiLedger
	var wg sync.WaitGroup
	var fleets []*fixture.RedFleet
	for i := range 3 {
		f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
		fleets = append(fleets, f)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for n := 0; time.Now().Before(end); n++ {
				wait, cancel := context.WithTimeout(ctx, 2*time.Second)
				held, err := f.Lock.Lock(wait)
				cancel()
				if err != nil {
					if !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("lock: %v", err)
					}
					continue
				}
				l.rely(held, fmt.Sprint(i, ".", n), func() {
					select {
					case <-held.Done():
					case <-time.After(time.Duration(rng.Int64N(int64(redLease / 8)))):
					}
				})
				if err := held.Unlock(ctx); err != nil && !fixture.IsAny(err, lock.ErrLost, lock.ErrUnknown) {
					t.Errorf("unlock: %v", err)
				}
			}
		})
	}
	rng := rand.New(rand.NewPCG(3, 4))
	for n := 0; time.Now().Before(end); n++ {
		down := rng.Perm(5)[:1+rng.IntN(3)]
		f := fleets[rng.IntN(len(fleets))]
		stop := rng.IntN(2) == 0
		for _, i := range down {
			if stop {
				require.NoError(t, servers[i].Pause())
			} else {
				f.Cut(i)
			}
		}
		time.Sleep(time.Duration(rng.Int64N(int64(redLease)))) // how long the fault lasts
		for _, i := range down {
			if stop {
				require.NoError(t, servers[i].Resume())
			} else {
				f.Mend(i)
			}
		}
	}
	bounded.Wait(t, &wg)
	l.check(t)
	require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, t.Name()) == 0 }, time.Minute, 10*time.Millisecond)
}

// multiLedger is a ledger of MultiHelds.
type multiLedger struct{ ledger }

func (l *multiLedger) rely(held *lock.MultiHeld, who string, work func()) {
	from := time.Now()
	if !held.Valid() {
		return
	}
	work()
	to, end := time.Now(), held.Deadline()
	if end.Before(to) {
		to = end
	}
	l.add(reliance{from: from, to: to, who: who})
}

func (l *multiLedger) check(t *testing.T) {
	t.Helper()
	require.NotEmpty(t, l.times)
	slices.SortFunc(l.times, func(a, b reliance) int { return a.from.Compare(b.from) })
	for i := range l.times {
		l.times[i].token = int64(i) // a MultiHeld has no token, so only the times are checked
	}
	l.ledger.check(t)
	t.Logf("%d holds", len(l.times))
}
