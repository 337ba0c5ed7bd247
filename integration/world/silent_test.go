package world_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestAHoldWhoseRenewalsAreNotAnsweredIsReleasedWhenItIsLost: Redis has carried the
// renewals out. Without a release it would keep the lock for another lease.
func TestAHoldWhoseRenewalsAreNotAnsweredIsReleasedWhenItIsLost(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var silent atomic.Bool
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if silent.Load() && c.Script == "renew" {
			return faultproxy.LoseReply
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{Lease: 3 * time.Second, IOTimeout: 300 * time.Millisecond})
	name := t.Name()
	held, err := c.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > 0 }, time.Minute, time.Millisecond, "the script is known to the server")
	silent.Store(true)
	<-held.Done()
	fixture.RequireLost(t, held, lock.TrustEnded)
	lost := time.Now()
	require.Eventually(t, func() bool { return !fixture.Exists(t, s, name) }, time.Minute, time.Millisecond)
	t.Logf("free %v after its loss", time.Since(lost))
	require.Positive(t, p.Arrived("release"))
}

// manyOf takes n locks of a client. On a busy machine some answers are late.
func manyOf(t *testing.T, c *lock.Client, n int) (helds []*lock.Held) {
	t.Helper()
	ctx := bounded.Context(t)
	for names := fixture.Names("n:", n); len(names) > 0; {
		require.NoError(t, ctx.Err())
		var left []string
		for i, try := range c.TryLockMany(ctx, names) {
			if try.Err != nil {
				left = append(left, names[i])
				continue
			}
			helds = append(helds, try.Held)
		}
		names = left
	}
	return helds
}

// outcomes counts errors.
func outcomes(errs []error) (released, unknown, other int) {
	for _, err := range errs {
		switch {
		case err == nil:
			released++
		case errors.Is(err, lock.ErrUnknown):
			unknown++
		default:
			other++
		}
	}
	return released, unknown, other
}

// TestManyUnlocksWaitForASilentServerOnce: 10,000 unlocks take no longer than one, and nothing is left
// when the server goes on.
func TestManyUnlocksWaitForASilentServerOnce(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 10_000
		if fixture.IsBrief() {
			n = 2_000
		}
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{Lease: 10 * time.Minute})
		helds := manyOf(t, c, n)
		srv.Pause()
		began := time.Now()
		released, unknown, other := outcomes(lock.UnlockMany(t.Context(), helds))
		require.LessOrEqual(t, time.Since(began), lock.DefaultUnlockTimeout)
		require.Equal(t, []int{0, n, 0}, []int{released, unknown, other})
		require.EqualValues(t, n, c.Stats().Unreleased)
		srv.Resume()
		began = time.Now()
		for keys := n; keys > 1; time.Sleep(time.Second) { // the counter of tokens stays
			require.Less(t, time.Since(began), 30*time.Second, "the client releases them by itself")
			var err error
			keys, err = redis.Int(srv.Do("DBSIZE"))
			require.NoError(t, err)
		}
		require.Empty(t, srv.Locks())
	})
}

// TestManyUnlocksAgainWaitForASilentServerOnce: each lock is held twice. The first round leaves every lock to
// its last Held. In the second round the Unlock of the other Held asks nobody, and says nothing of the server.
func TestManyUnlocksAgainWaitForASilentServerOnce(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		n := 10_000
		if fixture.IsBrief() {
			n = 3_000
		}
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{Lease: 10 * time.Minute})
		ctx := lock.WithOwner(t.Context(), "owner")
		var helds []*lock.Held // the two of a lock are neighbours
		first, second := c.TryLockMany(ctx, fixture.Names("n:", n)), c.TryLockMany(ctx, fixture.Names("n:", n))
		for i := range n {
			require.NoError(t, errors.Join(first[i].Err, second[i].Err))
			helds = append(helds, first[i].Held, second[i].Held)
		}
		srv.Pause()
		defer srv.Resume()
		released, unknown, other := outcomes(lock.UnlockMany(t.Context(), helds))
		require.Equal(t, []int{0, 2 * n, 0}, []int{released, unknown, other})
		time.Sleep(time.Minute) // the connections have failed, so the holds' turns have ended
		began := time.Now()
		released, unknown, other = outcomes(lock.UnlockMany(t.Context(), helds))
		require.LessOrEqual(t, time.Since(began), 2*lock.DefaultUnlockTimeout)
		require.Equal(t, []int{n, n, 0}, []int{released, unknown, other})
	})
}

// TestCloseWaitsForReleasesThatAreUnknown, but not longer than its context or an UnlockTimeout.
func TestCloseWaitsForReleasesThatAreUnknown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, w := range []struct{ resumed, limit, want time.Duration }{
			{resumed: time.Second, limit: time.Minute, want: time.Second},
			{resumed: time.Hour, limit: time.Minute, want: lock.DefaultUnlockTimeout},
			{resumed: time.Hour, limit: time.Second, want: time.Second},
		} {
			srv := locktest.NewServer(t)
			c := srv.Client(lock.Config{Lease: time.Minute})
			helds := manyOf(t, c, 100)
			srv.Pause()
			require.ErrorIs(t, errors.Join(lock.UnlockMany(t.Context(), helds)...), lock.ErrUnknown)
			go func() {
				time.Sleep(w.resumed)
				srv.Resume()
			}()
			ctx, cancel := context.WithTimeout(t.Context(), w.limit)
			began := time.Now()
			require.NoError(t, c.Close(ctx))
			took := time.Since(began)
			cancel()
			require.GreaterOrEqual(t, took, w.want, "%+v", w)
			require.LessOrEqual(t, took, w.want+lock.DefaultIOTimeout, "%+v", w)
			if w.resumed < w.limit {
				require.Empty(t, srv.Locks())
			}
			time.Sleep(w.resumed)
		}
	})
}

// TestManyUnlocksWaitForSilentServersTogether, in whatever order their Helds are, and a server that
// answers is not kept waiting.
func TestManyUnlocksWaitForSilentServersTogether(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	const each, silent = 700, 4 // each is more than the 512 unlocks that may be under way
	for order, server := range map[string]func(i int) int{
		"one server after the other": func(i int) int { return i / each },
		"mixed":                      func(i int) int { return i % (silent + 1) },
	} {
		t.Run(order, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var servers []*locktest.Server
				var of [][]*lock.Held
				for range silent + 1 {
					srv := locktest.NewServer(t)
					servers, of = append(servers, srv), append(of, manyOf(t, srv.Client(lock.Config{Lease: 10 * time.Minute}), each))
				}
				var helds []*lock.Held
				for i := range each * len(servers) {
					s := server(i)
					helds, of[s] = append(helds, of[s][0]), of[s][1:]
				}
				answers := servers[silent]
				for _, s := range servers[:silent] {
					s.Pause()
				}
				began := time.Now()
				errs := lock.UnlockMany(t.Context(), helds)
				require.LessOrEqual(t, time.Since(began), 2*lock.DefaultUnlockTimeout)
				for i, err := range errs {
					require.Equal(t, server(i) < silent, errors.Is(err, lock.ErrUnknown), "%d: %v", i, err)
					require.Equal(t, server(i) == silent, err == nil, "%d: %v", i, err)
				}
				require.Empty(t, answers.Locks())
				for _, s := range servers[:silent] {
					s.Resume()
				}
			})
		})
	}
}

// TestAServerThatFallsSilentAmongManyUnlocks: the answered unlocks are released, and the client
// waits for the rest at most twice.
func TestAServerThatFallsSilentAmongManyUnlocks(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const n = 5000
		var done atomic.Int64
		var silentSince time.Time
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{Lease: 10 * time.Minute, Hooks: lock.Hooks{Released: func(e lock.Event) {
			if e.Err == nil && done.Add(1) == 2000 {
				srv.Pause()
				silentSince = time.Now()
			}
		}}})
		released, unknown, other := outcomes(lock.UnlockMany(t.Context(), manyOf(t, c, n)))
		require.LessOrEqual(t, time.Since(silentSince), 2*lock.DefaultUnlockTimeout)
		require.GreaterOrEqual(t, released, 2000)
		require.Less(t, released, n)
		require.Equal(t, n-released, unknown)
		require.Zero(t, other)
		srv.Resume()
	})
}

// TestAServerThatAnswersManyUnlocksIsWaitedFor: if one Held is not released in time, the
// client still waits for the others, even for Unlocks that begin later.
func TestAServerThatAnswersManyUnlocksIsWaitedFor(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	const n = 1500
	s, ctx := fixture.Server(t), bounded.Context(t)
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script == "release" && strings.HasPrefix(c.Args[3], "stuck") {
			return faultproxy.Answer(redis.Error("BUSY Redis is busy running a script"))
		}
		return faultproxy.Pass
	})
	var released atomic.Int64
	gaveUp := make(chan struct{})
	c := fixture.ClientOver(t, p, lock.Config{Lease: time.Minute, Hooks: lock.Hooks{Released: func(e lock.Event) {
		switch {
		case e.Name == "stuck":
			close(gaveUp)
		case released.Add(1) > 512:
			select {
			case <-gaveUp:
			case <-ctx.Done():
			}
		}
	}}})
	stuck := fixture.Hold(t, c.Mutex("stuck").Lock)
	errs := lock.UnlockMany(ctx, append([]*lock.Held{stuck}, manyOf(t, c, n)...))
	require.ErrorIs(t, errs[0], lock.ErrUnknown)
	for i, err := range errs[1:] {
		require.NoError(t, err, fmt.Sprint(i))
	}
}
