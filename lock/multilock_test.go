package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/locktest"
)

func TestMultiLockTakesAllOrNone(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	names := []string{t.Name() + "1", t.Name() + "2", t.Name() + "3"}
	m := fixture.MultiLock(t, a.Mutex(names[2]), b.Mutex(names[0]), a.Mutex(names[1]))

	held := fixture.Hold(t, m.TryLock)
	require.True(t, held.Valid())
	require.NoError(t, held.Err())
	for _, name := range names {
		require.True(t, fixture.Exists(t, s, name))
	}
	require.NoError(t, held.Unlock(ctx))
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Err(), lock.ErrNotHeld)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	for _, name := range names {
		require.False(t, fixture.Exists(t, s, name))
	}

	other := fixture.Hold(t, b.Mutex(names[2]).Lock)
	_, err := m.TryLock(ctx)
	var refused *lock.HeldError
	require.ErrorAs(t, err, &refused)
	require.Equal(t, names[2], refused.Name)
	require.False(t, fixture.Exists(t, s, names[0]))
	require.False(t, fixture.Exists(t, s, names[1]))
	require.NoError(t, other.Unlock(ctx))
}

func TestMultiLockMembersThatCannotBeUsedAreRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	_, err := lock.NewMultiLock()
	require.ErrorContains(t, err, "lock: the MultiLock has no members")
	_, err = lock.NewMultiLock(c.Mutex("a"), nil, c.Mutex(""))
	require.ErrorContains(t, err, "member 1 of the MultiLock is nil")
	require.ErrorContains(t, err, "member 2 of the MultiLock: lock: the name is empty")
	_, err = fixture.MultiLock(t, c.Mutex("a")).LockFor(ctx, time.Millisecond)
	require.ErrorContains(t, err, "lease")
	_, err = fixture.MultiLock(t, c.Mutex("a")).Lock(lock.WithOwner(ctx, ""))
	require.ErrorContains(t, err, "owner")
}

func TestMultiLockHoldsNothingWhileItWaits(t *testing.T) {
	s := onRedis(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	a, b := t.Name()+"a", t.Name()+"b"
	blocking := fixture.Hold(t, other.Mutex(b).Lock)
	got := make(chan *lock.MultiHeld, 1)
	go func() {
		held := fixture.Hold(t, fixture.MultiLock(t, c.Mutex(a), c.Mutex(b)).Lock)
		got <- held
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	free, err := other.Mutex(a).TryLock(ctx)
	require.NoError(t, err, "the first member is not held while the second is waited for")
	require.NoError(t, free.Unlock(ctx))
	require.NoError(t, blocking.Unlock(ctx))
	require.NoError(t, bounded.Receive(t, got).Unlock(ctx))
}

func TestMultiLockReentersAllAndSingleMembers(t *testing.T) {
	s := onRedis(t)
	c, d := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	m := fixture.MultiLock(t, c.Mutex(t.Name()+"a"), d.Mutex(t.Name()+"b"), c.Mutex(t.Name()+"a"))
	outer := fixture.Hold(t, m.Lock)
	work := outer.Context(ctx)
	inner, err := m.Lock(work)
	require.NoError(t, err)
	one, err := d.Mutex(t.Name() + "b").TryLock(work)
	require.NoError(t, err)
	_, err = d.Mutex(t.Name() + "b").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "another owner")
	require.NoError(t, outer.Unlock(ctx))
	require.Error(t, work.Err())
	require.True(t, inner.Valid())
	require.NoError(t, inner.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()+"a"))
	require.True(t, one.Valid(), "a member may outlast the whole")
	require.NoError(t, one.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()+"b"))
}

func TestLossOfOneMemberLosesTheMultiLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	cfg := lock.Config{Lease: time.Second}
	c, d := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	ctx := bounded.Context(t)
	a, b := t.Name()+"a", t.Name()+"b"
	held := fixture.Hold(t, fixture.MultiLock(t, c.Mutex(a), d.Mutex(b)).Lock)
	work := held.Context(ctx)
	fixture.Do(t, s, "DEL", b)
	bounded.Receive(t, held.Done())
	require.False(t, held.Valid())
	require.False(t, held.Deadline().After(time.Now()))
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, b, lost.Name)
	require.Equal(t, lock.NotOwner, lost.Reason)
	bounded.Receive(t, work.Done())
	require.ErrorIs(t, context.Cause(work), lock.ErrLost)
	// A holder that was told of the loss need not unlock, because the other member is not renewed any more.
	fixture.AwaitGone(t, s, a)
	err := held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
}

func TestALostMultiLockDoesNotEndWhatItsOwnerHoldsBeside(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	ctx := bounded.Context(t)
	a, b := t.Name()+"a", t.Name()+"b"
	outer := fixture.Hold(t, c.Mutex(a).Lock)
	held, err := fixture.MultiLock(t, c.Mutex(a), c.Mutex(b)).Lock(outer.Context(ctx))
	require.NoError(t, err)
	fixture.Do(t, s, "DEL", b)
	bounded.Receive(t, held.Done())
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return !outer.Valid() || c.Stats().Renewal.Renewed > renewed+1 }, time.Minute, time.Millisecond)
	require.NoError(t, outer.Err(), "it is renewed for its own sake")
	require.True(t, outer.Valid())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.True(t, outer.Valid())
	require.NoError(t, outer.Unlock(ctx))
}

func TestMultiLockForEndsWithItsFirstLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c := fixture.ClientOf(t, s, lock.Config{})
		ctx := t.Context()
		a, b := t.Name()+"a", t.Name()+"b"
		const lease = 600 * time.Millisecond
		// b is taken away again and again, so that a is taken more than once.
		other := fixture.ClientOf(t, s, lock.Config{})
		blocking, err := other.Mutex(b).LockFor(ctx, 2*lease)
		require.NoError(t, err)
		held, err := fixture.MultiLock(t, c.Mutex(a), c.Mutex(b)).LockFor(ctx, lease)
		require.NoError(t, err)
		require.LessOrEqual(t, time.Until(held.Deadline()), lease)
		for _, name := range []string{a, b} {
			pttl := fixture.PTTL(t, s, name)
			require.LessOrEqual(t, pttl, lease.Milliseconds(), "the lease is as asked for, however long the wait was")
			require.GreaterOrEqual(t, pttl, time.Until(held.Deadline()).Milliseconds())
		}
		bounded.Receive(t, held.Done())
		require.True(t, fixture.Exists(t, s, a) || fixture.Exists(t, s, b), "told before both have expired")
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.Expired, lost.Reason)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
		require.ErrorIs(t, blocking.Unlock(ctx), lock.ErrLost)
	})
}

// TestAMultiLockWhoseFirstLeaseIsOverIsNotHad: the second member's connection
// comes when the first member's lease is over.
func TestAMultiLockWhoseFirstLeaseIsOverIsNotHad(t *testing.T) {
	s := onRedis(t)
	a, b := t.Name()+"a", t.Name()+"b"
	first := fixture.ClientOf(t, s, lock.Config{})
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		for taken := false; !taken || fixture.Exists(t, s, a); {
			taken = taken || fixture.Exists(t, s, a)
		}
		return s.DialContext(ctx)
	}}
	second := fixture.Client(t, pool, lock.Config{IOTimeout: 3 * time.Second})
	_, err := fixture.MultiLock(t, first.Mutex(a), second.Mutex(b)).TryLockFor(bounded.Context(t), 200*time.Millisecond)
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.False(t, fixture.Exists(t, s, b))
}

func TestAWaitForAMultiLockEndsWithItsContext(t *testing.T) {
	s := onRedis(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	a, b := t.Name()+"a", t.Name()+"b"
	blocking := fixture.Hold(t, other.Mutex(b).Lock)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	failed := make(chan error, 1)
	go func() {
		_, err := fixture.MultiLock(t, c.Mutex(a), c.Mutex(b)).Lock(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	cancel()
	err := bounded.Receive(t, failed)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.Zero(t, c.Stats().Held)
	require.False(t, fixture.Exists(t, s, a))
	require.NoError(t, blocking.Unlock(bounded.Context(t)))
}

func TestCancelOfAMultiLockIsNotHeldUpByADeadMember(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	p.BlackHole()
	good := fixture.ClientOf(t, s, lock.Config{})
	bad := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond, UnlockTimeout: time.Hour})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	failed := make(chan error, 1)
	a, b := t.Name()+"a", t.Name()+"b"
	go func() {
		_, err := fixture.MultiLock(t, good.Mutex(a), bad.Mutex(b)).Lock(ctx)
		failed <- err
	}()
	require.Eventually(t, func() bool { return bad.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	require.False(t, fixture.Exists(t, s, a), "nothing is held while it waits for a member that does not answer")
	cancel()
	err := bounded.Receive(t, failed)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, fixture.IsNoAnswer(err), err)
}

// TestAMultiLockTakesAWriterBeforeItsReader, also when only the reader was not answered.
func TestAMultiLockTakesAWriterBeforeItsReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		link := srv.Link()
		c := link.Client(lock.Config{})
		rw := c.RWMutex("m")
		m := fixture.MultiLock(t, rw.Reader(), c.Mutex("a"), rw.Writer())
		link.CutAfter("rw_read")
		held := fixture.Hold(t, m.Lock)
		require.Equal(t, 3, held.Members())
		require.NoError(t, held.Unlock(t.Context()))
		require.Empty(t, srv.Locks())
	})
}

func TestTryLockOfAMultiLockGivesBackWhenAMemberIsUnknown(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	good := fixture.ClientOf(t, s, lock.Config{})
	bad := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	p.SetReplies(faultproxy.Lose)
	ctx := bounded.Context(t)
	a, b := t.Name()+"a", t.Name()+"b"
	_, err := fixture.MultiLock(t, good.Mutex(a), bad.Mutex(b)).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.False(t, fixture.Exists(t, s, a))
	p.Heal()
	fixture.AwaitGone(t, s, b)
}

func TestUnlockOfAMultiLockReleasesWhatItCanAndMayBeCalledAgain(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	good := fixture.ClientOf(t, s, lock.Config{})
	bad := fixture.ClientOver(t, p, lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := bounded.Context(t)
	a, b := t.Name()+"a", t.Name()+"b"
	held := fixture.Hold(t, fixture.MultiLock(t, bad.Mutex(a), good.Mutex(b)).Lock)
	work := held.Context(ctx)
	p.BlackHole()
	err := held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrUnknown)
	var unknown *lock.UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, a, unknown.Name)
	require.Error(t, work.Err())
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Err(), lock.ErrNotHeld)
	require.False(t, fixture.Exists(t, s, b), "the other member is free")
	p.Heal()
	require.NoError(t, fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }))
	require.False(t, fixture.Exists(t, s, a))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
}

func TestUnlockOfAMultiLockJoinsTheErrorsOfItsMembers(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	good := fixture.ClientOf(t, s, lock.Config{})
	bad := fixture.ClientOver(t, p, lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, fixture.MultiLock(t, bad.Mutex(t.Name()+"a"), good.Mutex(t.Name()+"b")).Lock)
	fixture.Do(t, s, "DEL", t.Name()+"b") // not noticed yet
	p.BlackHole()
	err := held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorIs(t, err, lock.ErrUnknown)
	var lost *lock.LostError
	require.ErrorAs(t, err, &lost)
	require.Equal(t, t.Name()+"b", lost.Name)
	var unknown *lock.UnknownError
	require.ErrorAs(t, err, &unknown)
	require.Equal(t, t.Name()+"a", unknown.Name)
	require.Regexp(t, `^lock: unlock of 2 members: 1 lost, 1 not known to be released: "`+t.Name()+`b" is lost: not the owner any more; `+
		`release of "`+t.Name()+`a": outcome unknown: [^\n]*: check what the work has done, because another owner may have had the lock; `+
		`the members' clients keep trying$`, err.Error())
	p.Heal()
	require.ErrorIs(t, fixture.RetryUntilKnown(func() error { return held.Unlock(ctx) }), lock.ErrLost, "the whole stays lost")
}

// TestMultiLocksInOppositeOrderAllFinish: the servers of one name have no
// common order in two processes; here they stand for two clients each.
func TestMultiLocksInOppositeOrderAllFinish(t *testing.T) {
	t.Parallel()
	servers := fixture.Servers(t, 2)
	ctx := bounded.Context(t)
	counter := 0 // guarded by the locks alone; the race detector watches
	turns := 6
	if testing.Short() {
		turns = 2
	}
	var wg sync.WaitGroup
	var fleets []fixture.Fleet
	for i := range 4 { // two of them have another order inside: their ids are random
		f := fixture.NewFleet(t, servers, lock.Config{})
		fleets = append(fleets, f)
		ms := append(f.Mutexes(t.Name()), f.Clients[0].Mutex(t.Name()+"x"))
		if i%2 == 1 {
			ms[0], ms[1] = ms[1], ms[0]
		}
		m := fixture.MultiLock(t, ms...)
		for range 3 {
			wg.Go(func() {
				for range turns {
					held := fixture.Hold(t, m.Lock)
					counter++
					require.Equal(t, 1, counter)
					require.True(t, held.Valid())
					counter--
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	for _, f := range fleets {
		for _, c := range f.Clients {
			require.Zero(t, c.Stats().Held)
			require.Zero(t, c.Stats().Waiting)
		}
	}
}

// TestAMultiLockIsHadThoughItsMembersAreAlwaysTaken: others take each member
// alone, all the time.
func TestAMultiLockIsHadThoughItsMembersAreAlwaysTaken(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	c, busy := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	var ms []*lock.Mutex
	var wg sync.WaitGroup
	for i := range 3 {
		name := fmt.Sprint(t.Name(), i)
		ms = append(ms, c.Mutex(name))
		for range 3 {
			wg.Go(func() {
				for ctx.Err() == nil {
					held, err := busy.Mutex(name).Lock(ctx)
					if err != nil {
						require.ErrorIs(t, err, context.Canceled)
						return
					}
					time.Sleep(time.Millisecond) // as work would
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	for range 3 {
		held := fixture.Hold(t, fixture.MultiLock(t, ms...).Lock)
		require.NoError(t, held.Unlock(bounded.Context(t)))
	}
	cancel()
	bounded.Wait(t, &wg)
}

// TestTheWaitForAMemberWithOthersInHandIsLimited: early passes do not wait, and late
// passes wait as long as Redisson. Most of a fixed lease is left for the work.
func TestTheWaitForAMemberWithOthersInHandIsLimited(t *testing.T) {
	longest := time.Duration(0)
	for n := range 40 {
		for range 20 {
			d := lock.PassLimit(wait.Random(nil), n, 0, 3)
			require.Equal(t, n < 3, d == 0, "pass %d", n)
			longest = max(longest, d)
			require.LessOrEqual(t, lock.PassLimit(wait.Random(nil), n, 600*time.Millisecond, 3), 50*time.Millisecond)
		}
	}
	require.LessOrEqual(t, longest, 1500*time.Millisecond)
	require.Greater(t, longest, 750*time.Millisecond)
}

func TestMultiLockEndsWhenAClientCloses(t *testing.T) {
	s := onRedis(t)
	c, d := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	m := fixture.MultiLock(t, c.Mutex(t.Name()+"a"), d.Mutex(t.Name()+"b"))
	held := fixture.Hold(t, m.Lock)
	closed := make(chan error, 1)
	go func() { closed <- d.Close(ctx) }()
	bounded.Receive(t, held.Done())
	require.ErrorIs(t, held.Err(), lock.ErrClosed)
	require.ErrorIs(t, held.Err(), lock.ErrLost)
	_, err := m.TryLock(ctx)
	require.Error(t, err)
	_, err = fixture.MultiLock(t, d.Mutex("x"), d.Mutex("y")).Lock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)
	_ = held.Unlock(ctx)
	require.NoError(t, bounded.Receive(t, closed))
	require.False(t, fixture.Exists(t, s, t.Name()+"a"))
	require.False(t, fixture.Exists(t, s, t.Name()+"b"))
}

func TestMultiLockDoUnlocksAlsoAfterAPanic(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	m := fixture.MultiLock(t, c.Mutex(t.Name()+"a"), c.Mutex(t.Name()+"b"))
	sentinel := errors.New("from f")
	require.ErrorIs(t, m.Do(ctx, func(ctx context.Context, _ *lock.MultiHeld) error {
		return errors.Join(sentinel, m.Do(ctx, func(context.Context, *lock.MultiHeld) error { return nil }))
	}), sentinel)
	require.Panics(t, func() { _ = m.Do(ctx, func(context.Context, *lock.MultiHeld) error { panic("f") }) })
	require.False(t, fixture.Exists(t, s, t.Name()+"a"))
	require.False(t, fixture.Exists(t, s, t.Name()+"b"))
}

func TestAMultiLockOfEveryKindIsTakenAndGivenBackAsAWhole(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	members := func(c *lock.Client) []*lock.Mutex {
		rw := c.RWMutex(t.Name() + "rw")
		return []*lock.Mutex{
			rw.Reader(), rw.Writer(), // of one lock: who writes may read, in whatever order they are given
			c.FairMutex(t.Name() + "fair"), c.FencedMutex(t.Name() + "fenced"), c.Mutex(t.Name() + "mutex"), c.RWMutex(t.Name() + "read").Reader(),
		}
	}
	held, err := fixture.MultiLock(t, members(a)...).Lock(ctx)
	require.NoError(t, err)
	fixture.AwaitRenewed(t, a, 6)
	for i, m := range members(b) {
		shared := i == 5 // readers share
		h, err := m.TryLock(ctx)
		if shared {
			require.NoError(t, err)
			require.NoError(t, h.Unlock(ctx))
			continue
		}
		require.ErrorIs(t, err, lock.ErrNotAcquired, "member %d", i)
	}
	got := make(chan *lock.MultiHeld, 1)
	go func() {
		h, err := fixture.MultiLock(t, members(b)...).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- h
	}()
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
	err = held.Unlock(ctx)
	require.ErrorIs(t, err, lock.ErrNotHeld)
	require.ErrorContains(t, err, t.Name(), "it names a lock")
	require.NoError(t, bounded.Receive(t, got).Unlock(ctx))
	for _, m := range members(b) {
		locked, err := m.IsLocked(ctx)
		require.NoError(t, err)
		require.False(t, locked)
	}
}

// requireLosses requires that err counts n members that are lost, and says so n times.
func requireLosses(t *testing.T, err error, members, n int) {
	t.Helper()
	require.ErrorIs(t, err, lock.ErrLost)
	require.ErrorContains(t, err, fmt.Sprintf("unlock of %d members: %d lost: ", members, n))
	require.Equal(t, n, strings.Count(err.Error(), " is lost: "), err)
}

// TestALostMultiHeldTellsEachLossOnce, though its members and it know of the loss.
func TestALostMultiHeldTellsEachLossOnce(t *testing.T) {
	for members := 1; members <= 3; members++ {
		for gone := 1; gone <= members; gone++ {
			t.Run(fmt.Sprint(gone, " of ", members), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					srv := locktest.NewServer(t)
					c := srv.Client(lock.Config{})
					names := fixture.Names("m", members)
					var ms []*lock.Mutex
					for _, name := range names {
						ms = append(ms, c.Mutex(name))
					}
					held := fixture.Hold(t, fixture.MultiLock(t, ms...).Lock)
					for _, name := range names[members-gone:] {
						require.True(t, srv.Delete(name))
					}
					<-held.Done()
					requireLosses(t, held.Unlock(t.Context()), members, gone)
				})
			})
		}
	}
}

// TestAMultiHeldWhoseClientClosesTellsThatOnce: the members are released, and its loss is told.
func TestAMultiHeldWhoseClientClosesTellsThatOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, other := srv.Client(lock.Config{}), srv.Client(lock.Config{})
		held := fixture.Hold(t, fixture.MultiLock(t, c.Mutex("a"), other.Mutex("b")).Lock)
		closed := make(chan error)
		go func() { closed <- c.Close(context.Background()) }()
		<-held.Done()
		err := held.Unlock(t.Context())
		requireLosses(t, err, 2, 1)
		require.ErrorIs(t, err, lock.ErrClosed)
		require.NoError(t, <-closed)
		require.Empty(t, srv.Locks())
	})
}

// TestALostRedLockTellsEachLossOnce, although its trust ends a little before the trust in its
// members.
func TestALostRedLockTellsEachLossOnce(t *testing.T) {
	for after, lost := range map[time.Duration]int{0: 1, time.Second: 3} {
		synctest.Test(t, func(t *testing.T) {
			var ms []*lock.Mutex
			for range 3 {
				ms = append(ms, locktest.NewServer(t).Client(lock.Config{}).Mutex("m"))
			}
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, ms...)
			require.NoError(t, err)
			held, err := r.LockFor(t.Context(), 10*time.Second)
			require.NoError(t, err)
			<-held.Done()
			time.Sleep(after)
			requireLosses(t, held.Unlock(t.Context()), 3, lost)
		})
	}
}

// TestAMultiLockWaitsForTheAnswerOfAFreeMember: late passes limit how long they wait for a member that
// another owner has, and not how long its server takes to answer.
func TestAMultiLockWaitsForTheAnswerOfAFreeMember(t *testing.T) {
	for name, take := range map[string]func(m *lock.MultiLock, ctx context.Context) (*lock.MultiHeld, error){
		"Lock": (*lock.MultiLock).Lock,
		"LockFor": func(m *lock.MultiLock, ctx context.Context) (*lock.MultiHeld, error) {
			return m.LockFor(ctx, 200*time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				other, c := srv.Client(lock.Config{}), srv.Client(lock.Config{FailFast: true})
				names := []string{"a", "b"}
				theirs := fixture.Hold(t, other.Mutex(names[1]).Lock)
				srv.SetDelay(30 * time.Millisecond)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				type result struct {
					held *lock.MultiHeld
					err  error
				}
				got := make(chan result, 1)
				go func() {
					held, err := take(fixture.MultiLock(t, c.Mutex(names[0]), c.Mutex(names[1])), ctx)
					got <- result{held, err}
				}()
				for pass := range 3 { // in each of which it collides
					bounded.Until(t, func() bool { return c.Stats().Waiting == 1 })
					next := fixture.Hold(t, other.Mutex(names[pass%2]).Lock)
					require.NoError(t, theirs.Unlock(t.Context()))
					theirs = next
					time.Sleep(time.Second)
				}
				require.NoError(t, theirs.Unlock(t.Context()))
				had := <-got
				require.NoError(t, had.err)
				require.NoError(t, had.held.Unlock(t.Context()))
			})
		})
	}
}
