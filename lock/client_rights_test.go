package lock_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// TestAMissingRightNeverTakesTokensBack: a token is minted by one command where the
// server's clock is above the last one, and by two elsewhere.
func TestAMissingRightNeverTakesTokensBack(t *testing.T) {
	s, ctx := fixture.Server(t), bounded.Context(t)
	for _, command := range []string{"get", "getset", "set"} {
		c := fixture.UserOf(t, s, "u", lock.Config{FailFast: true}, "-"+command)
		for counter, mu := range map[string]*lock.Mutex{
			"redisson_lock_token:{fenced}": c.FencedMutex("fenced"), "wheellock_token": c.Mutex("plain"),
		} {
			last := int64(41)
			if counter == "wheellock_token" {
				last = 1 << 52 // the clock shows it in many years
			}
			fixture.Do(t, s, "SET", counter, last)
			held, err := mu.Lock(ctx)
			if err == nil {
				require.Equal(t, last+1, held.Token(), "%s without %s", counter, command)
				require.NoError(t, held.Unlock(ctx))
			}
			now, err := redis.Int64(fixture.Do(t, s, "GET", counter), nil)
			require.NoError(t, err)
			require.GreaterOrEqual(t, now, last, "%s without %s", counter, command)
		}
	}
}

// endless are the keys without a TTL, but for counters, which need none.
func endless(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	keys := fixture.Keys(t, s, "*")
	var found []string
	for _, key := range keys {
		if kind := fixture.Do(t, s, "TYPE", key); kind != "string" && fixture.PTTL(t, s, key) == -1 {
			found = append(found, key)
		}
	}
	return found
}

func TestNoLockIsLeftWithoutATTLByAUserWhoMayNotSetOne(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-pexpire", "-pttl"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			c := fixture.UserOf(t, s, "u", lock.Config{}, right)
			ctx := bounded.Context(t)
			for kind, lk := range fixture.Sorts(t, c) {
				if kind == "permits" || right == "-pttl" && (kind == "mutex" || kind == "fenced") {
					continue // these do not need it
				}
				short, cancel := context.WithTimeout(ctx, time.Minute)
				_, err := lk.Lock(short)
				cancel()
				require.ErrorContains(t, err, "Redis refused", kind)
				require.NotErrorIs(t, err, lock.ErrUnknown, kind)
				require.Empty(t, endless(t, s), kind)
				require.False(t, fixture.Exists(t, s, lk.Key), kind)
			}
		})
	}
}

// TestAWaiterWhoMayNotSetATTLLeavesNothingBehind: what says that it waits would
// keep others out.
func TestAWaiterWhoMayNotSetATTLLeavesNothingBehind(t *testing.T) {
	s := fixture.Server(t)
	free := fixture.ClientOf(t, s, lock.Config{})
	c := fixture.UserOf(t, s, "u", lock.Config{MaxPoll: 50 * time.Millisecond}, "-pexpire")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := free.RWMutex("rw").Reader().Lock(ctx)
	require.NoError(t, err)
	_, err = c.RWMutex("rw").Writer().Lock(ctx)
	require.ErrorContains(t, err, "Redis refused")
	f, err := free.FairMutex("fair").Lock(ctx)
	require.NoError(t, err)
	_, err = c.FairMutex("fair").Lock(ctx)
	require.ErrorContains(t, err, "Redis refused")
	require.Empty(t, endless(t, s))
	require.False(t, fixture.Exists(t, s, "{rw}:wheellock_writers"))
	require.False(t, fixture.Exists(t, s, "redisson_lock_queue:{fair}"))
	require.True(t, r.Valid())
	require.NoError(t, r.Unlock(ctx))
	require.NoError(t, f.Unlock(ctx))
}

func TestAHandOffThatMayNotSetATTLIsAPlainRelease(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.UserOf(t, s, "u", lock.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, err := c.Mutex("m").Lock(ctx)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").Lock(ctx)
		got <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	fixture.May(t, s, "u", "-pexpire")
	require.NoError(t, held.Unlock(ctx), "the hold was there to be released")
	require.ErrorContains(t, bounded.Receive(t, got), "Redis refused")
	require.False(t, fixture.Exists(t, s, "m"))
}

func TestARenewalThatIsRefusedIsLoggedAndNoLoss(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-hexists", "-pexpire", "-pttl", "-zscore", "-zadd", "-evalsha"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			var out fixture.Log
			cfg := lock.Config{Lease: 2 * time.Second, Logger: out.Logger()}
			c := fixture.UserOf(t, s, "u", cfg)
			out.Flush = lock.FlushLog(c)
			ctx := bounded.Context(t)
			var helds []*lock.Held
			for kind, lk := range fixture.Sorts(t, c) {
				z := right == "-zscore" || right == "-zadd"
				if right == "-pttl" && kind != "read" || z != (kind == "permits") && right != "-evalsha" || kind == "read" && right == "-pexpire" {
					continue // they do not need it, or share a key with one that does
				}
				if kind == "write" {
					continue // "read" has the key
				}
				held, err := lk.Lock(ctx)
				require.NoError(t, err, kind)
				helds = append(helds, held)
			}
			require.NotEmpty(t, helds)
			less := []any{right}
			if right == "-zscore" {
				less = append(less, "-zmscore") // either will do
			}
			fixture.May(t, s, "u", less...)
			if right == "-evalsha" {
				require.Eventually(t, func() bool { return strings.Count(out.String(), "lock: renewal is refused") > 0 }, time.Minute, 5*time.Millisecond)
			}
			for _, held := range helds {
				fixture.RequireLost(t, held, lock.TrustEnded)
			}
			require.Equal(t, 1, strings.Count(out.String(), "lock: renewal is refused"), out.String())
			require.Contains(t, out.String(), " server="+s.Addr()+" ", "a pool's server is named")
			require.Positive(t, strings.Count(out.String(), "NOPERM")+strings.Count(out.String(), "permissions")+strings.Count(out.String(), "can't run"), out.String())
			fixture.May(t, s, "u")
			held := fixture.Hold(t, c.Mutex("again").Lock)
			before := c.Stats().Renewal.Renewed
			require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > before+1 }, time.Minute, 5*time.Millisecond)
			if right == "-hexists" {
				fixture.May(t, s, "u", right)
				bounded.Receive(t, held.Done())
				require.Equal(t, 2, strings.Count(out.String(), "lock: renewal is refused"), "once until it worked again")
			}
		})
	}
}

// TestALockWhoseRenewalIsRefusedDoesNotHoldUpOthers: the user may use some keys.
func TestALockWhoseRenewalIsRefusedDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.UserOf(t, s, "u", lock.Config{Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
	ctx := bounded.Context(t)
	var helds []*lock.Held
	for i := range 20 {
		held := fixture.Hold(t, c.Mutex(fmt.Sprint("good:", i)).Lock)
		helds = append(helds, held)
	}
	bad := fixture.Hold(t, c.Mutex("bad").Lock)
	fixture.May(t, s, "u", "resetkeys", "~good:*", "~wheellock_token")
	bounded.Receive(t, bad.Done())
	require.ErrorContains(t, bad.Err(), "no renewal was acknowledged in time")
	for _, held := range helds {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
}

// TestABusyLockNeedsNoOtherKeyThanItsOwn: without the right to that of those whom no
// message reaches, the end of a run is a release.
func TestABusyLockNeedsNoOtherKeyThanItsOwn(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.UserOf(t, s, "u", lock.Config{})
	fixture.May(t, s, "u", "resetkeys", "~m", "~wheellock_token")
	turns := 0 // guarded by the lock
	first := fixture.Hold(t, c.Mutex("m").Lock)
	wg := fixture.InTurn(t, c, "m", 200, func(*lock.Held) { turns++ })
	require.Eventually(t, func() bool { return c.Stats().Waiting == 200 }, time.Minute, time.Millisecond)
	require.NoError(t, first.Unlock(bounded.Context(t)))
	bounded.Wait(t, wg)
	require.Equal(t, 200, turns)
}

func TestAMessageThatIsRefusedIsLoggedOnce(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	for kind := range map[string]bool{"mutex": true, "fair": true, "read": true, "write": true, "permits": true, "semaphore": true, "latch": true, "force": true} {
		var out fixture.Log
		c := fixture.UserOf(t, s, "u"+kind, lock.Config{Logger: out.Logger()}, "-publish")
		out.Flush = lock.FlushLog(c)
		ctx := bounded.Context(t)
		for range 2 {
			switch kind {
			case "semaphore":
				_, err := c.Semaphore("s").TrySet(ctx, 1)
				require.NoError(t, err)
				require.NoError(t, c.Semaphore("s").Release(ctx, 2))
			case "latch":
				_, err := c.CountDownLatch("l").TrySet(ctx, 1)
				require.NoError(t, err)
				require.NoError(t, c.CountDownLatch("l").CountDown(ctx))
			case "force":
				_ = fixture.Hold(t, c.Mutex("f").Lock)
				ok, err := c.Mutex("f").ForceUnlock(ctx)
				require.NoError(t, err)
				require.True(t, ok)
			case "fair":
				fixture.Do(t, s, "RPUSH", "redisson_lock_queue:{"+t.Name()+":fair}", "java:1")
				fixture.Do(t, s, "ZADD", "redisson_lock_timeout:{"+t.Name()+":fair}", time.Now().Add(time.Hour).UnixMilli(), "java:1")
				held := fixture.Hold(t, c.Mutex(t.Name()+":fair").Lock)
				_, err := c.FairMutex(t.Name() + ":fair").ForceUnlock(ctx)
				require.NoError(t, err)
				_ = held.Unlock(ctx)
			default:
				held, err := fixture.Sorts(t, c)[kind].Lock(ctx)
				require.NoError(t, err, kind)
				require.NoError(t, held.Unlock(ctx), kind)
			}
		}
		require.Equal(t, 1, strings.Count(out.String(), "lock: PUBLISH is refused"), "%s %s", kind, out.String())
		require.Contains(t, out.String(), " server="+s.Addr()+" ", "a pool's server is named")
		fixture.CloseNow(c)
	}
}
