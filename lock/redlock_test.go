package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// masters are five independent servers that the package's tests share.
var masters struct {
	once    sync.Once
	servers []*redistest.Server
	err     error
}

// fiveMasters returns them when they may vote on locks of redLease.
func fiveMasters(t *testing.T) []*redistest.Server {
	t.Helper()
	onRedis(t)
	masters.once.Do(func() { masters.servers, masters.err = startAll(5) })
	require.NoError(t, masters.err)
	fixture.AwaitVotes(t, redLease, masters.servers...)
	return masters.servers
}

// redFleet is what one process has: a client of each master, each over a
// network of its own, and a RedLock.
type redFleet struct {
	fleet
	nets []*faultproxy.Proxy
	lock *lock.RedLock
}

// calmConfig is for tests in which every member answers, however busy the
// machine: its locks are longer than the members are up.
func calmConfig() lock.Config { return lock.Config{MaxPoll: 200 * time.Millisecond} }

func redConfig() lock.Config { return lock.Config{Lease: redLease, MaxPoll: 200 * time.Millisecond} }

func newRedFleet(t *testing.T, servers []*redistest.Server, name string, cfg lock.Config) *redFleet {
	t.Helper()
	f := &redFleet{fleet: fleet{servers: servers}}
	for _, s := range servers {
		p := fixture.Proxy(t, s, nil)
		f.nets = append(f.nets, p)
		f.clients = append(f.clients, fixture.ClientOver(t, p, cfg))
	}
	f.locks(t, name, lock.RedLockConfig{Durable: cfg.Lease != redLease})
	return f
}

// locks gives the fleet a RedLock of that name.
func (f *redFleet) locks(t *testing.T, name string, cfg lock.RedLockConfig) {
	t.Helper()
	var err error
	f.lock, err = lock.NewRedLock(cfg, f.mutexes(name)...)
	require.NoError(t, err)
}

// lockOnAll takes the lock on every member: on a busy machine one may be late.
func (f *redFleet) lockOnAll(t *testing.T) *lock.MultiHeld {
	t.Helper()
	for ctx := bounded.Context(t); ; {
		held, err := f.lock.Lock(ctx)
		require.NoError(t, err)
		if held.Members() == len(f.clients) {
			return held
		}
		require.NoError(t, held.Unlock(ctx))
	}
}

// cut takes a member from this process alone.
func (f *redFleet) cut(members ...int) {
	for _, i := range members {
		f.nets[i].BlackHole()
	}
}

func (f *redFleet) mend(members ...int) {
	for _, i := range members {
		f.nets[i].Heal()
	}
}

// awaitRenewals returns when each of members has been renewed n times more.
func (f *redFleet) awaitRenewals(t *testing.T, n uint64, members ...int) {
	t.Helper()
	renewed := func(i int) uint64 { return f.clients[i].Stats().Renewal.Renewed }
	from := make([]uint64, len(f.clients))
	for _, i := range members {
		from[i] = renewed(i)
	}
	for _, i := range members {
		require.Eventually(t, func() bool { return renewed(i) >= from[i]+n },
			time.Minute, 5*time.Millisecond, "member %d is not renewed", i)
	}
}

// othersOf are the members that are not among down.
func othersOf(down ...int) []int {
	var others []int
	for i := range 5 {
		if !slices.Contains(down, i) {
			others = append(others, i)
		}
	}
	return others
}

func TestRedLockIsHeldByAMajority(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	a, b := newRedFleet(t, servers, t.Name(), calmConfig()), newRedFleet(t, servers, t.Name(), calmConfig())
	held := fixture.Hold(t, a.lock.TryLock)
	require.True(t, held.Valid())
	require.Equal(t, 5, fixture.Having(t, servers, t.Name()))

	_, err := b.lock.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NotErrorIs(t, err, lock.ErrUnknown)
	var q *lock.QuorumError
	require.ErrorAs(t, err, &q)
	require.GreaterOrEqual(t, q.Held, 3)
	require.Zero(t, q.Acquired)
	require.Positive(t, q.TTL)

	require.NoError(t, held.Unlock(ctx))
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	require.Eventually(t, func() bool { // a slow member is not waited for
		return fixture.Having(t, servers, t.Name()) == 0
	}, time.Minute, time.Millisecond)
	other := fixture.Hold(t, b.lock.TryLock)
	require.NoError(t, other.Unlock(ctx))
}

func TestRedLockRefusesABadConfig(t *testing.T) {
	s := onRedis(t)
	c, d := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{Lease: 10 * time.Second})
	_, err := lock.NewRedLock(lock.RedLockConfig{})
	require.ErrorContains(t, err, "no members")
	_, err = lock.NewRedLock(lock.RedLockConfig{}, c.Mutex("a"), nil)
	require.ErrorContains(t, err, "member 1 of the RedLock is nil")
	_, err = lock.NewRedLock(lock.RedLockConfig{LongestLease: 29 * time.Second, MemberTimeout: time.Hour},
		c.Mutex("a"), d.Mutex("a"), c.Mutex("b"))
	require.ErrorContains(t, err, "member 2 of the RedLock has the client of another member")
	require.ErrorContains(t, err, "LongestLease is 29s: it must be from 30s to")
	require.ErrorContains(t, err, "MemberTimeout is 1h0m0s")
	r, err := lock.NewRedLock(lock.RedLockConfig{}, c.Mutex("a"), d.Mutex("a"))
	require.NoError(t, err)
	_, err = r.LockFor(bounded.Context(t), 31*time.Second)
	require.ErrorContains(t, err, "at most RedLockConfig.LongestLease")
}

// TestRedLockSurvivesAnyTwoCutMembers: each pair is cut from a holder, and then
// from one who wants the lock next.
func TestRedLockSurvivesAnyTwoCutMembers(t *testing.T) {
	fixture.Slow(t)
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
			f := newRedFleet(t, servers, name, redConfig())
			wg.Go(func() {
				held := f.lockOnAll(t)
				require.Equal(t, 5, fixture.Having(t, servers, name))
				f.cut(i, j)
				// The two are lost, the whole is not.
				require.Eventually(t, func() bool { return fixture.Having(t, servers, name) == 3 }, time.Minute, 5*time.Millisecond)
				f.awaitRenewals(t, 2, othersOf(i, j)...)
				require.True(t, held.Valid())
				require.NoError(t, held.Err())
				require.NoError(t, held.Unlock(ctx))
				held = fixture.Hold(t, f.lock.Lock)
				require.Equal(t, 3, held.Members())
				require.Equal(t, 3, fixture.Having(t, servers, name))
				require.NoError(t, held.Unlock(ctx))
				require.Zero(t, fixture.Having(t, servers, name))
			})
		}
	}
	bounded.Wait(t, &wg)
}

// TestRedLockIsToldLostBeforeItsServersLoseTheQuorum: a majority is cut.
func TestRedLockIsToldLostBeforeItsServersLoseTheQuorum(t *testing.T) {
	t.Parallel()
	servers := fiveMasters(t)
	for _, down := range [][]int{{0, 1, 2}, {0, 1, 2, 3, 4}} {
		t.Run(fmt.Sprint(down), func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			cfg := redConfig()
			cfg.Margin = redLease / 4 // the longest, in which a busy machine looks at the servers
			f := newRedFleet(t, servers, t.Name(), cfg)
			name := t.Name()
			held := f.lockOnAll(t)
			work := held.Context(ctx)
			f.awaitRenewals(t, 1, 0, 1, 2, 3, 4)
			f.cut(down...)
			bounded.Receive(t, held.Done())
			require.GreaterOrEqual(t, fixture.Having(t, servers, name), 3, "told while a quorum of servers has the key")
			require.False(t, held.Valid())
			require.False(t, held.Deadline().After(time.Now()))
			bounded.Receive(t, work.Done())
			var lost *lock.LostError
			require.ErrorAs(t, context.Cause(work), &lost)
			require.Equal(t, name, lost.Name)
			require.Equal(t, lock.TrustEnded, lost.Reason)
			// Those that are left are renewed no more.
			require.Eventually(t, func() bool { return fixture.Having(t, servers, name) == 0 }, time.Minute, 5*time.Millisecond)
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			_, err := f.lock.TryLock(ctx)
			require.True(t, fixture.NoAnswer(err), err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
		})
	}
}

// TestTheTrustInARedLockEndsBeforeItsQuorum reads the servers' own clocks, of
// holds on all members and of holds on as few as there can be.
func TestTheTrustInARedLockEndsBeforeItsQuorum(t *testing.T) {
	servers := fiveMasters(t)
	all, few := newRedFleet(t, servers, t.Name(), redConfig()), newRedFleet(t, servers, t.Name(), redConfig())
	few.cut(1, 2)
	for n := range 20 {
		held, err := []*redFleet{all, few}[n%2].lock.LockFor(bounded.Context(t), 500*time.Millisecond)
		require.NoError(t, err)
		sooner := 0 // keys that end before the trust in them, or are gone before that
		for _, s := range servers {
			pttl := fixture.PTTL(t, s, t.Name())
			if end := time.Now().Add(time.Duration(max(pttl, 0)+1) * time.Millisecond); end.Before(held.Deadline()) {
				sooner++
			}
		}
		require.LessOrEqual(t, sooner, 2)
		_ = held.Unlock(bounded.Context(t))
	}
}

func TestARedLockIsTrustedForLessThanItsMembers(t *testing.T) {
	servers := fiveMasters(t)
	f := newRedFleet(t, servers, t.Name(), redConfig())
	held, err := f.lock.LockFor(bounded.Context(t), redLease)
	require.NoError(t, err)
	defer held.Unlock(bounded.Context(t))
	const margin, drift = max(25*time.Millisecond, redLease/50), redLease/100 + 2*time.Millisecond
	require.False(t, held.Deadline().After(time.Now().Add(redLease-margin-drift)))
}

func TestRedLockCountsLostMembers(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := redConfig()
	cfg.Lease = 2 * redLease // a busy machine may lose renewals of more than the members that are deleted here
	f := newRedFleet(t, servers, t.Name(), cfg)
	held := f.lockOnAll(t)
	fixture.Do(t, servers[0], "DEL", t.Name())
	fixture.Do(t, servers[3], "DEL", t.Name())
	f.awaitRenewals(t, 3, 1, 2, 4)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx), "two of five may be lost")

	held = f.lockOnAll(t)
	for _, i := range []int{0, 3, 4} {
		fixture.Do(t, servers[i], "DEL", t.Name())
	}
	fixture.RequireLost(t, held, lock.NotOwner)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

	held = f.lockOnAll(t)
	for _, i := range []int{1, 2, 4} {
		fixture.Do(t, servers[i], "DEL", t.Name())
	}
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost, "Unlock is the first to notice")
}

// answersOf tries to take r until so many members have answered, and returns
// what they said.
func answersOf(t *testing.T, r *lock.RedLock, members int) *lock.QuorumError {
	t.Helper()
	ctx := bounded.Context(t)
	var q *lock.QuorumError
	bounded.Until(t, func() bool {
		_, err := r.TryLock(ctx)
		require.ErrorAs(t, err, &q)
		return q.Members-q.Unknown >= members
	})
	return q
}

// TestARestartedEmptyMemberHasNoVote is the case that Redlock's delayed restart
// is for: A holds two of three, one of them forgets it, and B can reach that one
// and the third.
func TestARestartedEmptyMemberHasNoVote(t *testing.T) {
	t.Parallel()
	fixture.SimulatedToo(t)
	servers := fixture.Servers(t, 3)
	cfg := redConfig()
	cfg.Lease = 2 * redLease // the restarted one must not get its vote back while a busy machine asks it
	fixture.AwaitVotes(t, cfg.Lease, servers...)
	ctx := bounded.Context(t)
	a, b := newRedFleet(t, servers, t.Name(), cfg), newRedFleet(t, servers, t.Name(), cfg)
	a.locks(t, t.Name(), lock.RedLockConfig{}) // not durable
	b.locks(t, t.Name(), lock.RedLockConfig{})
	a.cut(2)
	held := fixture.Hold(t, a.lock.Lock)
	require.NoError(t, servers[1].Kill())
	require.NoError(t, servers[1].Restart(ctx))
	b.cut(0)
	q := answersOf(t, b.lock, 2)
	require.Equal(t, 1, q.Acquired)
	require.Equal(t, 1, q.NoVote)
	fixture.AwaitGone(t, servers[1], t.Name()) // what it gave is given back
	fixture.AwaitGone(t, servers[2], t.Name())
	bounded.Receive(t, held.Done()) // A is told in time: before that B cannot have it
	waiting := time.Now()
	other := fixture.Hold(t, b.lock.Lock)
	require.False(t, held.Valid())
	require.True(t, held.Deadline().Before(time.Now()), "waited %v", time.Since(waiting))
	require.NoError(t, other.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

func TestMembersOnOneServerHaveOneVote(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	c, d, e := fixture.ClientOf(t, servers[0], redConfig()), fixture.ClientOf(t, servers[0], redConfig()), fixture.ClientOf(t, servers[1], redConfig())
	r, err := lock.NewRedLock(lock.RedLockConfig{}, c.Mutex(t.Name()+"1"), d.Mutex(t.Name()+"2"), e.Mutex(t.Name()))
	require.NoError(t, err)
	held, err := r.Lock(ctx)
	require.NoError(t, err, "two servers are a majority")
	require.NoError(t, held.Unlock(ctx))
	blocking := fixture.Hold(t, e.Mutex(t.Name()).Lock)
	q := answersOf(t, r, 3)
	require.Equal(t, 1, q.Acquired)
	require.Equal(t, 1, q.NoVote)
	require.NoError(t, blocking.Unlock(ctx))
}

func TestRedLockReentersAndEndsWithItsOwner(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	f := newRedFleet(t, servers, t.Name(), redConfig())
	outer := f.lockOnAll(t)
	f.cut(1) // a member that is lost on the way does not matter
	inner, err := f.lock.Lock(outer.Context(ctx))
	require.NoError(t, err)
	require.NoError(t, outer.Unlock(ctx))
	require.True(t, inner.Valid())
	require.GreaterOrEqual(t, fixture.Having(t, servers, t.Name()), 3)
	f.mend(1)
	require.NoError(t, inner.Unlock(ctx))
	require.Eventually(t, func() bool { return fixture.Having(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestReentryOfARedLockPassesThoseWhoWait(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	f := newRedFleet(t, servers, t.Name(), calmConfig())
	outer := fixture.Hold(t, f.lock.Lock)
	got := make(chan error, 1)
	go func() { got <- f.lock.Do(ctx, func(context.Context, *lock.MultiHeld) error { return nil }) }()
	require.Eventually(t, func() bool { return f.clients[0].Stats().Tries >= 3 }, time.Minute, time.Millisecond)
	require.NoError(t, f.lock.Do(outer.Context(ctx), func(context.Context, *lock.MultiHeld) error { return nil }))
	require.NoError(t, outer.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, got))
}

func TestRedLockForExpires(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	f := newRedFleet(t, servers, t.Name(), redConfig())
	held, err := f.lock.LockFor(ctx, 400*time.Millisecond)
	require.NoError(t, err)
	deadline := held.Deadline()
	bounded.Receive(t, held.Done())
	require.False(t, time.Now().Before(deadline), "not told early")
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.Expired, lost.Reason)
}

func TestUnlockOfARedLockNeedsAMajorityOnly(t *testing.T) {
	servers := fiveMasters(t)
	f := newRedFleet(t, servers, t.Name(), redConfig())
	held := f.lockOnAll(t)
	f.cut(0, 2)
	require.NoError(t, held.Unlock(bounded.Context(t)), "another can have a quorum")
	require.ErrorIs(t, held.Unlock(bounded.Context(t)), lock.ErrNotHeld)
	for _, i := range othersOf(0, 2) {
		require.False(t, fixture.Exists(t, servers[i], t.Name()))
	}
	f.mend(0, 2) // the members' clients keep trying
	require.Eventually(t, func() bool { return fixture.Having(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestUnlockOfARedLockThatAMajorityDoesNotAnswer(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := redConfig()
	cfg.UnlockTimeout = redLease / 5
	f := newRedFleet(t, servers, t.Name(), cfg)
	held := f.lockOnAll(t)
	f.cut(0, 2, 4)
	err := held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.False(t, held.Valid())
	require.False(t, fixture.Exists(t, servers[1], t.Name()))
	require.False(t, fixture.Exists(t, servers[3], t.Name()))
	f.mend(0, 2, 4)
	require.NoError(t, fixture.Known(func() error { return held.Unlock(ctx) }))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	require.Eventually(t, func() bool { return fixture.Having(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestAWaitForARedLockEndsWithItsContext(t *testing.T) {
	servers := fiveMasters(t)
	a, b := newRedFleet(t, servers, t.Name(), calmConfig()), newRedFleet(t, servers, t.Name(), calmConfig())
	held := fixture.Hold(t, a.lock.Lock)
	for _, cut := range []bool{false, true} {
		ctx, cancel := context.WithCancel(bounded.Context(t))
		failed := make(chan error, 2)
		for range 2 { // the head of the line, and one behind it
			go func() {
				_, err := b.lock.Lock(ctx)
				failed <- err
			}()
		}
		tries := b.clients[0].Stats().Tries
		require.Eventually(t, func() bool { return b.clients[0].Stats().Tries >= tries+2 }, time.Minute, time.Millisecond)
		if cut {
			b.cut(0, 1, 2, 3, 4)
		}
		cancel()
		for range 2 {
			err := bounded.Receive(t, failed)
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Zero(t, fixture.Having(t, servers, t.Name()))
}

func TestCloseOfAMajorityEndsAWaitForARedLock(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := calmConfig()
	cfg.MaxPoll = time.Hour
	a, b := newRedFleet(t, servers, t.Name(), calmConfig()), newRedFleet(t, servers, t.Name(), cfg)
	held, err := a.lock.LockFor(ctx, 20*time.Second)
	require.NoError(t, err)
	defer held.Unlock(ctx)
	failed := make(chan error, 2)
	for range 2 {
		go func() {
			_, err := b.lock.Lock(ctx)
			failed <- err
		}()
	}
	require.Eventually(t, func() bool { return b.clients[0].Stats().Tries >= 2 }, time.Minute, time.Millisecond)
	for _, c := range b.clients {
		require.NoError(t, c.Close(ctx))
	}
	for range 2 {
		err := bounded.Receive(t, failed)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NotErrorIs(t, err, lock.ErrUnknown)
	}
	require.True(t, held.Valid(), "they were woken, and did not wait for the lease to end")
}

// TestRedLockExcludesUnderContention: several processes and goroutines, and
// members that come and go.
func TestRedLockExcludesUnderContention(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	var l multiLedger
	var wg sync.WaitGroup
	for i := range 3 {
		f := newRedFleet(t, servers, t.Name(), redConfig())
		if i == 2 {
			f.cut(4)
		}
		for j := range 2 {
			wg.Go(func() {
				for n := range 6 {
					held := fixture.Hold(t, f.lock.Lock)
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
	if fixture.Briefly() {
		end = time.Now().Add(time.Second)
	}
	var l multiLedger
	var wg sync.WaitGroup
	var fleets []*redFleet
	for i := range 3 {
		f := newRedFleet(t, servers, t.Name(), redConfig())
		fleets = append(fleets, f)
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(7, uint64(i)))
			for n := 0; time.Now().Before(end); n++ {
				wait, cancel := context.WithTimeout(ctx, 2*time.Second)
				held, err := f.lock.Lock(wait)
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
				if err := held.Unlock(ctx); err != nil && !isAny(err, lock.ErrLost, lock.ErrUnknown) {
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
				f.cut(i)
			}
		}
		time.Sleep(time.Duration(rng.Int64N(int64(redLease)))) // how long the fault lasts
		for _, i := range down {
			if stop {
				require.NoError(t, servers[i].Resume())
			} else {
				f.mend(i)
			}
		}
	}
	bounded.Wait(t, &wg)
	l.check(t)
	require.Eventually(t, func() bool { return fixture.Having(t, servers, t.Name()) == 0 }, time.Minute, 10*time.Millisecond)
}
