package lock_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

func TestRedLockIsHeldByAMajority(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	a, b := fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig()), fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig())
	held := fixture.Hold(t, a.Lock.TryLock)
	require.True(t, held.Valid())
	require.Equal(t, 5, fixture.CountHaving(t, servers, t.Name()))

	_, err := b.Lock.TryLock(ctx)
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
		return fixture.CountHaving(t, servers, t.Name()) == 0
	}, time.Minute, time.Millisecond)
	other := fixture.Hold(t, b.Lock.TryLock)
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

// TestRedLockIsToldLostBeforeItsServersLoseTheQuorum: a majority is cut.
func TestRedLockIsToldLostBeforeItsServersLoseTheQuorum(t *testing.T) {
	t.Parallel()
	servers := fiveMasters(t)
	for _, down := range [][]int{{0, 1, 2}, {0, 1, 2, 3, 4}} {
		t.Run(fmt.Sprint(down), func(t *testing.T) {
			t.Parallel()
			ctx := bounded.Context(t)
			cfg := fixture.RedConfig()
			cfg.Margin = redLease / 4 // the longest, in which a busy machine looks at the servers
			f := fixture.NewRedFleet(t, servers, t.Name(), cfg)
			name := t.Name()
			held := f.LockOnAll(t)
			work := held.Context(ctx)
			f.AwaitRenewals(t, 1, 0, 1, 2, 3, 4)
			f.Cut(down...)
			bounded.Receive(t, held.Done())
			require.GreaterOrEqual(t, fixture.CountHaving(t, servers, name), 3, "told while a quorum of servers has the key")
			require.False(t, held.Valid())
			require.False(t, held.Deadline().After(time.Now()))
			bounded.Receive(t, work.Done())
			var lost *lock.LostError
			require.ErrorAs(t, context.Cause(work), &lost)
			require.Equal(t, name, lost.Name)
			require.Contains(t, []lock.Reason{lock.TrustEnded, lock.Suspended}, lost.Reason, "the latter where the machine is too busy")
			// The client does not renew the remaining members any more.
			require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, name) == 0 }, time.Minute, 5*time.Millisecond)
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			_, err := f.Lock.TryLock(ctx)
			require.True(t, fixture.IsNoAnswer(err), err)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
		})
	}
}

// TestTheTrustInARedLockEndsBeforeItsQuorum compares it with the TTLs on the servers,
// for holds on all members and for holds on a bare quorum.
func TestTheTrustInARedLockEndsBeforeItsQuorum(t *testing.T) {
	servers := fiveMasters(t)
	all, few := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig()), fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	few.Cut(1, 2)
	for n := range 20 {
		held, err := []*fixture.RedFleet{all, few}[n%2].Lock.LockFor(bounded.Context(t), 500*time.Millisecond)
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
	f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	held, err := f.Lock.LockFor(bounded.Context(t), redLease)
	require.NoError(t, err)
	defer held.Unlock(bounded.Context(t))
	margin, drift := max(25*time.Millisecond, redLease/50), redLease/100+2*time.Millisecond
	require.False(t, held.Deadline().After(time.Now().Add(redLease-margin-drift)))
}

func TestRedLockCountsLostMembers(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := fixture.RedConfig()
	cfg.Lease = 2 * redLease // a busy machine may lose renewals of more than the members that are deleted here
	f := fixture.NewRedFleet(t, servers, t.Name(), cfg)
	held := f.LockOnAll(t)
	fixture.Do(t, servers[0], "DEL", t.Name())
	fixture.Do(t, servers[3], "DEL", t.Name())
	f.AwaitRenewals(t, 3, 1, 2, 4)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx), "two of five may be lost")

	held = f.LockOnAll(t)
	for _, i := range []int{0, 3, 4} {
		fixture.Do(t, servers[i], "DEL", t.Name())
	}
	fixture.RequireLost(t, held, lock.NotOwner)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

	held = f.LockOnAll(t)
	for _, i := range []int{1, 2, 4} {
		fixture.Do(t, servers[i], "DEL", t.Name())
	}
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost, "Unlock is the first to notice")
}

// TestARestartedEmptyMemberHasNoVote is the case that Redlock's delayed restart
// is for: A holds two of three, one of them forgets it, and B can reach that one
// and the third.
func TestARestartedEmptyMemberHasNoVote(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	servers := fixture.Servers(t, 3)
	cfg := fixture.RedConfig()
	cfg.Lease = 2 * redLease // the restarted one must not get its vote back while a busy machine asks it
	fixture.AwaitVotes(t, cfg.Lease, servers...)
	ctx := bounded.Context(t)
	a, b := fixture.NewRedFleet(t, servers, t.Name(), cfg), fixture.NewRedFleet(t, servers, t.Name(), cfg)
	a.ReplaceLock(t, t.Name(), lock.RedLockConfig{}) // not durable
	b.ReplaceLock(t, t.Name(), lock.RedLockConfig{})
	a.Cut(2)
	held := fixture.Hold(t, a.Lock.Lock)
	require.NoError(t, servers[1].Kill())
	require.NoError(t, servers[1].Restart(ctx))
	b.Cut(0)
	q := answersOf(t, b.Lock, 2)
	require.Equal(t, 1, q.Acquired)
	require.Equal(t, 1, q.NoVote)
	fixture.AwaitGone(t, servers[1], t.Name()) // what it gave is given back
	fixture.AwaitGone(t, servers[2], t.Name())
	bounded.Receive(t, held.Done()) // A is told in time: before that B cannot have it
	waiting := time.Now()
	other := fixture.Hold(t, b.Lock.Lock)
	require.False(t, held.Valid())
	require.True(t, held.Deadline().Before(time.Now()), "waited %v", time.Since(waiting))
	require.NoError(t, other.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

func TestMembersOnOneServerHaveOneVote(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	c, d, e := fixture.ClientOf(t, servers[0], fixture.RedConfig()), fixture.ClientOf(t, servers[0], fixture.RedConfig()), fixture.ClientOf(t, servers[1], fixture.RedConfig())
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
	f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	outer := f.LockOnAll(t)
	f.Cut(1) // a member that is lost on the way does not matter
	inner, err := f.Lock.Lock(outer.Context(ctx))
	require.NoError(t, err)
	require.NoError(t, outer.Unlock(ctx))
	require.True(t, inner.Valid())
	require.GreaterOrEqual(t, fixture.CountHaving(t, servers, t.Name()), 3)
	f.Mend(1)
	require.NoError(t, inner.Unlock(ctx))
	require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestReentryOfARedLockPassesThoseWhoWait(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	f := fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig())
	outer := fixture.Hold(t, f.Lock.Lock)
	got := make(chan error, 1)
	go func() { got <- f.Lock.Do(ctx, func(context.Context, *lock.MultiHeld) error { return nil }) }()
	require.Eventually(t, func() bool { return f.Clients[0].Stats().Tries >= 3 }, time.Minute, time.Millisecond)
	require.NoError(t, f.Lock.Do(outer.Context(ctx), func(context.Context, *lock.MultiHeld) error { return nil }))
	require.NoError(t, outer.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, got))
}

func TestRedLockForExpires(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	held, err := f.Lock.LockFor(ctx, 400*time.Millisecond)
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
	f := fixture.NewRedFleet(t, servers, t.Name(), fixture.RedConfig())
	held := f.LockOnAll(t)
	f.Cut(0, 2)
	require.NoError(t, held.Unlock(bounded.Context(t)), "another can have a quorum")
	require.ErrorIs(t, held.Unlock(bounded.Context(t)), lock.ErrNotHeld)
	for _, i := range fixture.OthersOf(0, 2) {
		require.False(t, fixture.Exists(t, servers[i], t.Name()))
	}
	f.Mend(0, 2) // the members' clients keep trying
	require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestUnlockOfARedLockThatAMajorityDoesNotAnswer(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := fixture.RedConfig()
	cfg.UnlockTimeout = redLease / 5
	f := fixture.NewRedFleet(t, servers, t.Name(), cfg)
	held := f.LockOnAll(t)
	f.Cut(0, 2, 4)
	err := held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.False(t, held.Valid())
	require.False(t, fixture.Exists(t, servers[1], t.Name()))
	require.False(t, fixture.Exists(t, servers[3], t.Name()))
	f.Mend(0, 2, 4)
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	require.Eventually(t, func() bool { return fixture.CountHaving(t, servers, t.Name()) == 0 }, time.Minute, 5*time.Millisecond)
}

func TestAWaitForARedLockEndsWithItsContext(t *testing.T) {
	servers := fiveMasters(t)
	a, b := fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig()), fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig())
	held := fixture.Hold(t, a.Lock.Lock)
	for _, cut := range []bool{false, true} {
		ctx, cancel := context.WithCancel(bounded.Context(t))
		failed := make(chan error, 2)
		for range 2 { // the head of the line, and one behind it
			go func() {
				_, err := b.Lock.Lock(ctx)
				failed <- err
			}()
		}
		tries := b.Clients[0].Stats().Tries
		require.Eventually(t, func() bool { return b.Clients[0].Stats().Tries >= tries+2 }, time.Minute, time.Millisecond)
		if cut {
			b.Cut(0, 1, 2, 3, 4)
		}
		cancel()
		for range 2 {
			err := bounded.Receive(t, failed)
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.Zero(t, fixture.CountHaving(t, servers, t.Name()))
}

func TestCloseOfAMajorityEndsAWaitForARedLock(t *testing.T) {
	servers := fiveMasters(t)
	ctx := bounded.Context(t)
	cfg := fixture.CalmConfig()
	cfg.MaxPoll = time.Hour
	a, b := fixture.NewRedFleet(t, servers, t.Name(), fixture.CalmConfig()), fixture.NewRedFleet(t, servers, t.Name(), cfg)
	held, err := a.Lock.Lock(ctx) // it is renewed, so no pause of the machine gives it to those that wait
	require.NoError(t, err)
	defer held.Unlock(ctx)
	failed := make(chan error, 2)
	for range 2 {
		go func() {
			got, err := b.Lock.Lock(ctx)
			if err == nil {
				_ = got.Unlock(ctx) // else Close waits for it
			}
			failed <- err
		}()
	}
	require.Eventually(t, func() bool { return b.Clients[0].Stats().Tries >= 2 }, time.Minute, time.Millisecond)
	for _, c := range b.Clients {
		require.NoError(t, c.Close(ctx))
	}
	for range 2 {
		err := bounded.Receive(t, failed)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NotErrorIs(t, err, lock.ErrUnknown)
	}
	require.True(t, held.Valid(), "they were woken, and did not wait for its end")
}

// TestReadersShareARedLockAndAWriterWaitsForThem: the release wakes it.
func TestReadersShareARedLockAndAWriterWaitsForThem(t *testing.T) {
	servers := fiveMasters(t)[:3]
	ctx := bounded.Context(t)
	redLock := func(half func(*lock.RWMutex) *lock.Mutex) *lock.RedLock {
		var members []*lock.Mutex
		for _, s := range servers {
			c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // only a message wakes who waits
			members = append(members, half(c.RWMutex(t.Name())))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		return r
	}
	readers, others, writer := redLock((*lock.RWMutex).Reader), redLock((*lock.RWMutex).Reader), redLock((*lock.RWMutex).Writer)
	first, err := readers.Lock(ctx)
	require.NoError(t, err)
	second, err := others.TryLock(ctx)
	require.NoError(t, err, "readers share")
	_, err = writer.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	got := make(chan *lock.MultiHeld, 1)
	go func() {
		h, err := writer.Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
	written := bounded.Receive(t, got)
	_, err = readers.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, written.Unlock(ctx))
}

// TestARedLockOfAFairMutexIsRefused in words.
func TestARedLockOfAFairMutexIsRefused(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	_, err := lock.NewRedLock(lock.RedLockConfig{}, c.FairMutex("x"))
	require.ErrorContains(t, err, "member 0 of the RedLock is a FairMutex")
	_, err = lock.NewRedLock(lock.RedLockConfig{}, c.Mutex("x"))
	require.NoError(t, err)
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

// TestARedLockCallWhoseDeadlineIsOverPassesNobodyWhoWaits, but TryLock does.
func TestARedLockCallWhoseDeadlineIsOverPassesNobodyWhoWaits(t *testing.T) {
	s := onRedis(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	other := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).Lock)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex(t.Name()))
	require.NoError(t, err)
	waiting, leave := context.WithCancel(bg)
	left := make(chan error, 1)
	go func() {
		_, err := r.Lock(waiting)
		left <- err
	}()
	// It tries once, and once more when its subscription is confirmed.
	require.Eventually(t, func() bool { return c.Stats().Tries == 2 }, time.Minute, time.Millisecond)
	_, err = r.Lock(over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.EqualValues(t, 2, c.Stats().Tries)
	leave()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	require.NoError(t, other.Unlock(bg))
	held, err := r.Lock(over)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(bg))
}

// TestAShortLeaseOfARedLockIsHadThoughAMemberIsSilent: MemberTimeout is longer than the lease.
func TestAShortLeaseOfARedLockIsHadThoughAMemberIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, _ := redOnServers(t)
		servers[2].Pause()
		defer servers[2].Resume()
		const lease = 500 * time.Millisecond
		began, most := time.Now(), lease/10+time.Millisecond
		for name, take := range map[string]func(context.Context, time.Duration) (*lock.MultiHeld, error){"TryLockFor": red.TryLockFor, "LockFor": red.LockFor} {
			held, err := take(t.Context(), lease)
			require.NoError(t, err, name)
			require.LessOrEqual(t, time.Since(began), most, name)
			most = time.Since(began) + lease/50 // it is known to be silent
			require.Equal(t, 2, held.Members())
			require.Greater(t, time.Until(held.Deadline()), lease/2, name)
			unlocking := time.Now()
			require.NoError(t, held.Unlock(t.Context()), name)
			most += time.Since(unlocking)
		}
	})
}

// TestUnlockOfARedLockWaitsUntilAQuorumIsFree: members that did not vote, and members that are lost because
// they did not answer, are not known to be free.
func TestUnlockOfARedLockWaitsUntilAQuorumIsFree(t *testing.T) {
	for name, c := range map[string]struct {
		members       int
		down          []int // at the attempt
		lost, deleted []int // while it is held
		silent        []int // at Unlock
		isFree        bool
	}{
		"one of three did not vote, and one is silent": {members: 3, down: []int{2}, silent: []int{1}},
		"one of three is silent":                       {members: 3, silent: []int{1}, isFree: true},
		"two of five are lost, and two are silent":     {members: 5, lost: []int{3, 4}, silent: []int{1, 2}},
		"one of five is lost, and one is silent":       {members: 5, lost: []int{4}, silent: []int{1}, isFree: true},
		"two of five are deleted, and two are silent":  {members: 5, deleted: []int{3, 4}, silent: []int{1, 2}, isFree: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				red, servers, _ := redOn(t, c.members)
				each := func(members []int, do func(*locktest.Server)) {
					for _, i := range members {
						do(servers[i])
					}
				}
				each(c.down, (*locktest.Server).Pause)
				held := fixture.Hold(t, red.Lock)
				require.Equal(t, c.members-len(c.down), held.Members())
				each(c.lost, (*locktest.Server).Pause)
				each(c.deleted, func(s *locktest.Server) { require.True(t, s.Delete("m")) })
				for held.Members() > c.members-len(c.down)-len(c.lost)-len(c.deleted) {
					time.Sleep(time.Second)
				}
				each(c.silent, (*locktest.Server).Pause)
				err := held.Unlock(t.Context())
				if !c.isFree {
					require.ErrorIs(t, err, lock.ErrUnknown)
					err = held.Unlock(t.Context())
				}
				each(slices.Concat(c.down, c.lost, c.silent), (*locktest.Server).Resume)
				if !c.isFree {
					require.ErrorIs(t, err, lock.ErrUnknown)
					err = held.Unlock(t.Context())
				}
				require.NoError(t, err)
				require.ErrorIs(t, held.Unlock(t.Context()), lock.ErrNotHeld)
			})
		})
	}
}

// TestAShortLeaseOfARedLockIsHadFromSlowMembers though another is silent.
func TestAShortLeaseOfARedLockIsHadFromSlowMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, _ := redOnServers(t)
		require.NoError(t, fixture.Hold(t, red.Lock).Unlock(t.Context())) // it dials
		for _, s := range servers[:2] {
			s.SetDelay(260 * time.Millisecond)
		}
		servers[2].Pause()
		defer servers[2].Resume()
		for range 2 { // the second time it is known to be silent
			held, err := red.TryLockFor(t.Context(), 600*time.Millisecond)
			require.NoError(t, err)
			require.Greater(t, time.Until(held.Deadline()), 250*time.Millisecond)
			require.NoError(t, held.Unlock(t.Context()))
		}
	})
}

// TestAMemberThatIsTooSlowForAShortLeaseIsWaitedForByOthers: a hold that is renewed should have it.
func TestAMemberThatIsTooSlowForAShortLeaseIsWaitedForByOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		red, servers, _ := redOnServers(t)
		require.NoError(t, fixture.Hold(t, red.Lock).Unlock(t.Context()))
		servers[2].SetDelay(20 * time.Millisecond)
		held, err := red.LockFor(t.Context(), lock.MinLease)
		require.NoError(t, err)
		require.Equal(t, 2, held.Members())
		require.NoError(t, held.Unlock(t.Context()))
		time.Sleep(time.Second) // what the slow member has given is released
		held = fixture.Hold(t, red.Lock)
		require.Equal(t, 3, held.Members())
		require.NoError(t, held.Unlock(t.Context()))
	})
}
