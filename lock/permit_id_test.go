package lock_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// javaTakes does to Redis what Redisson's acquire does.
func javaTakes(t *testing.T, s *redistest.Server, name, member string, deadline int64) {
	t.Helper()
	fixture.Do(t, s, "DECRBY", name, 1)
	fixture.Do(t, s, "ZADD", "{"+name+"}:timeout", deadline, member)
}

func TestPermitsAreReleasedByAnotherProcessByTheirIDs(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"}), fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	key, ctx := fixture.KeyOf(t), context.Background()
	taker, other := a.PermitSemaphore(key), b.PermitSemaphore(key)
	require.NoError(t, taker.Set(ctx, 5))
	held, err := taker.AcquireFor(ctx, 3, time.Hour)
	require.NoError(t, err)
	ids := held.Permits()
	psc := listener(t, s, "redisson_sc:{"+taker.Name()+"}")
	require.NoError(t, other.Release(ctx, ids[1]))
	requireMessage(t, psc, "3")
	requirePermits(t, taker, 3, 2)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, other.Release(ended, strings.ToUpper(ids[2]), ids[0]), "under a cancelled context too")
	requireMessage(t, psc, "5")
	requirePermits(t, taker, 5, 0)
	require.Equal(t, []byte("5"), fixture.Do(t, s, "GET", taker.Name()))
	require.False(t, fixture.Exists(t, s, "{"+taker.Name()+"}:timeout"))
	requireGone(t, other.Release(ctx, ids[0]), ids[0])
	requirePermits(t, taker, 5, 0)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	requirePermits(t, taker, 5, 0)
	require.NoError(t, other.Release(ctx), "without ids it does nothing")
}

func TestReleaseByIDIsOfAllPermitsOrOfNone(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), context.Background()
	require.NoError(t, sem.Set(ctx, 1000))
	held, n, err := sem.Drain(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1000, n)
	ids := held.Permits()
	absent, _ := javaID(1)
	over, member := javaID(2)
	javaTakes(t, s, sem.Name(), member, time.Now().UnixMilli()-1)
	psc := listener(t, s, "redisson_sc:{"+sem.Name()+"}")
	requireGone(t, sem.Release(ctx, ids[0], absent, ids[1], over), absent, over)
	requireGone(t, sem.Release(ctx, absent), absent)
	requirePermits(t, sem, 0, 1000) // what is over counts as free
	requireGone(t, sem.Release(ctx, append(ids[:999:999], absent)...), absent)
	requirePermits(t, sem, 0, 1000)
	require.NoError(t, sem.Release(ctx, ids...))
	requireMessage(t, psc, "999") // only now: the refused releases published nothing
	requirePermits(t, sem, 1000, 0)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

// TestAllIDsOfARefusedReleaseAreNamed: the answer is as long as the list of ids, and the connection
// that it comes over has the requests of other locks, too.
func TestAllIDsOfARefusedReleaseAreNamed(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Connections: 1})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), context.Background()
	require.NoError(t, sem.Set(ctx, 1))
	ids := make([]string, 1000)
	for i := range ids {
		ids[i] = fmt.Sprintf("%032x", i)
	}
	requireGone(t, sem.Release(ctx, ids[0]), ids[0]) // the script is loaded now
	requireGone(t, sem.Release(ctx, ids...), ids...)
	require.Zero(t, c.Stats().Unanswered)
}

func TestRedissonsPermitsAreReleasedAndTheirLeasesSetByID(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), context.Background()
	taken := "{" + sem.Name() + "}:timeout"
	require.NoError(t, sem.Set(ctx, 3))
	id, member := javaID(0xa7)
	javaTakes(t, s, sem.Name(), member, javaNever)
	left, err := sem.Lease(ctx, id)
	require.NoError(t, err)
	require.EqualValues(t, -1, left, "it never ends")
	before := time.Now()
	require.NoError(t, sem.SetLease(ctx, id, time.Hour), "an earlier end")
	after := time.Now()
	score := fixture.Int(t, s, "ZSCORE", taken, member)
	require.GreaterOrEqual(t, score, before.Add(time.Hour).UnixMilli())
	require.LessOrEqual(t, score, after.Add(time.Hour).UnixMilli())
	left, err = sem.Lease(ctx, strings.ToUpper(id))
	require.NoError(t, err)
	require.Greater(t, left, 50*time.Minute)
	require.LessOrEqual(t, left, time.Hour)
	require.NoError(t, sem.SetLease(ctx, id, 30*24*time.Hour), "a later end")
	left, err = sem.Lease(ctx, id)
	require.NoError(t, err)
	require.Greater(t, left, 29*24*time.Hour)
	fixture.Do(t, s, "ZADD", taken, time.Now().Add(-time.Millisecond).UnixMilli(), member)
	_, err = sem.Lease(ctx, id)
	requireGone(t, err, id)
	requireGone(t, sem.SetLease(ctx, id, time.Hour), id) // it may be another's by now
	fixture.Do(t, s, "ZADD", taken, javaNever, member)
	require.NoError(t, sem.Release(ctx, id))
	requirePermits(t, sem, 3, 0)
	_, err = sem.Lease(ctx, id)
	requireGone(t, err, id)
	requireGone(t, sem.SetLease(ctx, id, time.Hour), id)
	require.False(t, fixture.Exists(t, s, taken), "nothing is made")

	// Before 3.17 the ids stood there as text.
	old := hex.EncodeToString([]byte("Java of long ago"))
	javaTakes(t, s, sem.Name(), old, javaNever)
	javaTakes(t, s, sem.Name(), member, javaNever)
	require.NoError(t, sem.SetLease(ctx, old, time.Hour))
	left, err = sem.Lease(ctx, old)
	require.NoError(t, err)
	require.Positive(t, left)
	require.NoError(t, sem.Release(ctx, id, old))
	requirePermits(t, sem, 3, 0)
}

func TestReleaseByIDWakesWaiters(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key, ctx := fixture.KeyOf(t), context.Background()
	require.NoError(t, a.PermitSemaphore(key).Set(ctx, 2))
	held, err := a.PermitSemaphore(key).AcquireFor(ctx, 2, time.Hour)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		held, err := b.PermitSemaphore(key).Acquire(ctx, 2)
		if err == nil {
			err = held.Unlock(ctx)
		}
		got <- err
	}()
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+key+"}", 1)
	require.NoError(t, a.PermitSemaphore(key).Release(ctx, held.Permits()...))
	require.NoError(t, <-got)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

// TestAHeldWhosePermitIsReleasedByIDIsToldAtItsNextRenewal, by its own client and by
// another one; the rest of it comes back with its Unlock.
func TestAHeldWhosePermitIsReleasedByIDIsToldAtItsNextRenewal(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for _, by := range []string{"own", "other"} {
		t.Run(by, func(t *testing.T) {
			t.Parallel()
			c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
			releaser := c
			if by == "other" {
				releaser = fixture.ClientOf(t, s, lock.Config{})
			}
			key, ctx := fixture.KeyOf(t), context.Background()
			sem := c.PermitSemaphore(key)
			require.NoError(t, sem.Set(ctx, 3))
			held, err := sem.Acquire(ctx, 3)
			require.NoError(t, err)
			require.True(t, held.Valid())
			require.NoError(t, releaser.PermitSemaphore(key).Release(ctx, held.Permits()[1]))
			<-held.Done()
			var lost *lock.LostError
			require.ErrorAs(t, held.Err(), &lost)
			require.Equal(t, lock.NotOwner, lost.Reason)
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			require.Eventually(t, func() bool {
				info, err := sem.Inspect(ctx)
				return err == nil && info == lock.PermitInfo{Exists: true, Available: 3}
			}, time.Minute, time.Millisecond)
			require.Equal(t, []byte("3"), fixture.Do(t, s, "GET", key))
			require.Zero(t, c.Stats().Held)
		})
	}
}

// TestARenewalGivesAPermitItsWholeLeaseAgain, whose lease somebody has set.
func TestARenewalGivesAPermitItsWholeLeaseAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		holder, other := v.client(lock.Config{}).PermitSemaphore("p"), v.client(lock.Config{}).PermitSemaphore("p")
		ctx := context.Background()
		require.NoError(t, holder.Set(ctx, 1))
		held, err := holder.Acquire(ctx, 1)
		require.NoError(t, err)
		id := held.Permits()[0]
		left, err := other.Lease(ctx, id)
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, left)
		time.Sleep(time.Second)
		left, err = other.Lease(ctx, id)
		require.NoError(t, err)
		require.GreaterOrEqual(t, left, 29*time.Second) // the first renewal may come at any time
		require.LessOrEqual(t, left, 30*time.Second)
		require.NoError(t, other.SetLease(ctx, id, 12*time.Second)) // a renewal comes before that
		time.Sleep(time.Hour)
		require.True(t, held.Valid())
		require.NoError(t, other.SetLease(ctx, id, time.Hour)) // renewals leave it
		time.Sleep(30 * time.Minute)
		left, err = other.Lease(ctx, id)
		require.NoError(t, err)
		require.Equal(t, 30*time.Minute, left)
		require.NoError(t, held.Unlock(ctx))
		_, err = other.Lease(ctx, id)
		requireGone(t, err, id)
	})
}

// TestAPermitIsOverAtItsLeasesEndAndStaysSo: after that no call can extend the permit,
// because another caller may have it.
func TestAPermitIsOverAtItsLeasesEndAndStaysSo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		sem, ctx := v.client(lock.Config{}).PermitSemaphore("p"), context.Background()
		require.NoError(t, sem.Set(ctx, 1))
		id, member := javaID(9)
		v.do("DECRBY", "p", 1)
		v.do("ZADD", "{p}:timeout", javaNever, member)
		require.NoError(t, sem.SetLease(ctx, id, 10*time.Second))
		time.Sleep(10*time.Second - time.Millisecond)
		left, err := sem.Lease(ctx, id)
		require.NoError(t, err)
		require.Equal(t, time.Millisecond, left)
		time.Sleep(time.Millisecond)
		_, err = sem.Lease(ctx, id)
		requireGone(t, err, id)
		requireGone(t, sem.SetLease(ctx, id, time.Hour), id)
		requireGone(t, sem.Release(ctx, id), id)
		held, err := sem.TryAcquire(ctx, 1)
		require.NoError(t, err, "and it is free")
		require.NoError(t, held.Unlock(ctx))
		require.Equal(t, []byte("1"), v.do("GET", "p"))
	})
}

// TestAReleaseByIDInALongOutageTakesEffectOnceWhenItIsOver.
func TestAReleaseByIDInALongOutageTakesEffectOnceWhenItIsOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		sem, ctx := v.client(lock.Config{}).PermitSemaphore("p"), context.Background()
		require.NoError(t, sem.Set(ctx, 2))
		held, err := sem.AcquireFor(ctx, 2, time.Hour)
		require.NoError(t, err)
		require.NoError(t, v.s.Pause())
		require.ErrorIs(t, sem.Release(ctx, held.Permits()[0]), lock.ErrUnknown)
		require.ErrorIs(t, sem.SetLease(ctx, held.Permits()[1], 2*time.Hour), lock.ErrUnknown)
		_, err = sem.Lease(ctx, held.Permits()[1])
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotHeld)
		time.Sleep(5 * time.Second)
		require.NoError(t, v.s.Resume())
		time.Sleep(5 * time.Second)
		requirePermits(t, sem, 1, 1)
		left, err := sem.Lease(ctx, held.Permits()[1])
		require.NoError(t, err)
		require.Greater(t, left, 119*time.Minute)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
		requirePermits(t, sem, 2, 0)
	})
}

func TestBadIDsOfPermitsAreRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), context.Background()
	sem := c.PermitSemaphore(key)
	good, _ := javaID(1)
	for _, id := range []string{"", "x", good[1:], good + "00", strings.Repeat("z", 32), strings.Repeat("\x00", 16)} {
		_, err := sem.Lease(ctx, id)
		for _, err := range []error{err, sem.Release(ctx, good, id), sem.SetLease(ctx, id, time.Minute)} {
			require.ErrorContains(t, err, "must be 32 hexadecimal digits")
			require.NotErrorIs(t, err, lock.ErrNotHeld)
		}
	}
	require.ErrorContains(t, sem.Release(ctx, good, strings.ToUpper(good)), "is given twice")
	require.ErrorContains(t, sem.Release(ctx, make([]string, 1001)...), "number of permit ids is 1001")
	for _, d := range []time.Duration{0, -1, time.Millisecond, time.Second + 1, 31 * 24 * time.Hour} {
		require.ErrorContains(t, sem.SetLease(ctx, good, d), "lease is")
	}
	_, err := c.PermitSemaphore("").Lease(ctx, good)
	for _, err := range []error{err, c.PermitSemaphore("").Release(ctx, good), c.PermitSemaphore("").Release(ctx), c.PermitSemaphore("").SetLease(ctx, good, time.Minute)} {
		require.ErrorContains(t, err, "name is empty")
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, sem.SetLease(ended, good, time.Minute), context.Canceled)
	requireGone(t, sem.Release(ctx, good), good) // of a semaphore that does not exist
	require.False(t, fixture.Exists(t, s, key))

	require.NoError(t, c.Close(ctx))
	_, err = sem.Lease(ctx, good)
	for _, err := range []error{err, sem.Release(ctx, good), sem.SetLease(ctx, good, time.Minute)} {
		require.ErrorIs(t, err, lock.ErrClosed)
	}
}

// TestPermitIDsOfKeysThatAreNoSemaphore are refused, and the keys stay as they are.
func TestPermitIDsOfKeysThatAreNoSemaphore(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := context.Background()
	id, member := javaID(1)
	for i, at := range [][2][]any{
		{{"HSET", "a", 1}, {"ZADD", 1e15, member}}, // no counter
		{{"SET", "bob"}, {"ZADD", 1e15, member}},
		{{"SET", "1"}, {"HSET", member, 1e15}}, // no permits
		{{"SET", "1"}, {"SET", "bob"}},
	} {
		key := fixture.KeyOf(t)
		var before []any
		for n, key := range []string{key, "{" + key + "}:timeout"} {
			fixture.Do(t, s, at[n][0].(string), append([]any{key}, at[n][1:]...)...)
			before = append(before, fixture.Do(t, s, "DUMP", key))
		}
		sem := c.PermitSemaphore(key)
		errs := []error{sem.Release(ctx, id)}
		if i > 1 {
			_, err := sem.Lease(ctx, id)
			errs = append(errs, err, sem.SetLease(ctx, id, time.Minute))
		}
		for _, err := range errs {
			require.Error(t, err)
			require.False(t, fixture.IsAny(err, lock.ErrUnknown, lock.ErrNotHeld), err)
			require.ErrorIs(t, err, lock.ErrNotALock)
		}
		require.Equal(t, before, []any{fixture.Do(t, s, "DUMP", key), fixture.Do(t, s, "DUMP", "{"+key+"}:timeout")})
	}
}

// TestReleaseByIDThatMayNotPublishIsLogged: the permits go back all the same.
func TestReleaseByIDThatMayNotPublishIsLogged(t *testing.T) {
	s := fixture.Server(t)
	var out fixture.Log
	c := fixture.ClientWithout(t, s, "u", lock.Config{Logger: out.Logger()}, "-publish")
	out.Flush = lock.FlushLog(c)
	ctx := context.Background()
	fixture.Do(t, s, "SET", "s", 1)
	for range 2 {
		held, err := c.PermitSemaphore("s").AcquireFor(ctx, 1, time.Hour)
		require.NoError(t, err)
		require.NoError(t, c.PermitSemaphore("s").Release(ctx, held.Permits()...))
		done, err := c.Semaphore("s").ReleaseIfExists(ctx, 1)
		require.NoError(t, err)
		require.True(t, done)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	}
	require.Equal(t, []byte("3"), fixture.Do(t, s, "GET", "s"))
	require.Equal(t, 1, strings.Count(out.String(), "lock: PUBLISH is refused"))
}

// TestAnswersAboutIDsThatAreNoneAreUnknown.
func TestAnswersAboutIDsThatAreNoneAreUnknown(t *testing.T) {
	s := onRedis(t)
	type odd struct {
		script string
		reply  any
	}
	var mangled atomic.Pointer[odd]
	c := fixture.ClientOver(t, fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if m := mangled.Load(); m != nil && m.script == c.Script {
			return faultproxy.Mangle(m.reply)
		}
		return faultproxy.Pass
	}), lock.Config{})
	ctx := context.Background()
	id, _ := javaID(1)
	sem := c.PermitSemaphore(fixture.KeyOf(t))
	calls := map[string]func() error{
		"permit_free":      func() error { return sem.Release(ctx, id) },
		"permit_set_lease": func() error { return sem.SetLease(ctx, id, time.Minute) },
		"permit_deadline":  func() error { _, err := sem.Lease(ctx, id); return err },
		"semaphore_ttl":    func() error { _, err := sem.TTL(ctx); return err },
		"semaphore_delete": func() error { _, err := sem.Delete(ctx); return err },
		"semaphore_expire": func() error { _, err := sem.Expire(ctx, time.Minute); return err },
	}
	for name, call := range calls {
		for _, reply := range []any{"OK", []byte("x"), []any{}, []any{int64(2)}, []any{int64(0)}, []any{[]byte("1"), int64(1), int64(1)}} {
			mangled.Store(&odd{name, reply})
			err := call()
			require.ErrorIs(t, err, lock.ErrUnknown, "%s: %v", name, reply)
			require.NotErrorIs(t, err, lock.ErrNotHeld)
		}
	}
}
