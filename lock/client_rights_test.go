package lock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

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
