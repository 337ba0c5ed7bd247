package lock_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestPassingAnswersAreUnknownAndRetried(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		begin func(*testing.T, *redistest.Server)
		end   []any
	}{
		"READONLY": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "REPLICAOF", "127.0.0.1", "1") },
			[]any{"REPLICAOF", "NO", "ONE"},
		},
		"OOM": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1") },
			[]any{"CONFIG", "SET", "maxmemory", "0"},
		},
		"MISCONF": {breakSaves, []any{"CONFIG", "SET", "stop-writes-on-bgsave-error", "no"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			state.begin(t, s)
			_, err := c.Mutex("m").TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
			require.ErrorContains(t, err, name)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
			got := make(chan error, 1)
			go func() {
				held, err := c.Mutex("m").Lock(ctx)
				if err == nil {
					err = held.Unlock(ctx)
				}
				got <- err
			}()
			fixture.Do(t, s, state.end[0].(string), state.end[1:]...)
			require.NoError(t, bounded.Receive(t, got))
		})
	}
}

// breakSaves makes the server refuse writes because a background save failed.
func breakSaves(t *testing.T, s *redistest.Server) {
	fixture.Do(t, s, "CONFIG", "SET", "save", "3600 1")
	fixture.Do(t, s, "CONFIG", "SET", "stop-writes-on-bgsave-error", "yes")
	conn := fixture.Dial(t, s)
	dir, err := redis.Strings(conn.Do("CONFIG", "GET", "dir"))
	require.NoError(t, err)
	require.NoError(t, os.RemoveAll(dir[1]))
	_, err = conn.Do("SET", "x", 1)
	require.NoError(t, err)
	_, err = conn.Do("BGSAVE")
	require.NoError(t, err)
	require.Eventually(t, func() bool {
		info, err := s.Info("persistence")
		return err == nil && info["rdb_last_bgsave_status"] == "err"
	}, time.Minute, 5*time.Millisecond)
}

func TestAServerThatLoadsIsWaitedFor(t *testing.T) {
	t.Parallel()
	fixture.Needs(t, redistest.SlowLoading)
	s := fixture.Server(t, append(redistest.DebugArgs(), "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")...)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	before := fixture.Hold(t, c.Mutex("before").Lock)
	fixture.Do(t, s, "DEBUG", "POPULATE", 3000)
	loaded := make(chan error, 1)
	conn := fixture.Dial(t, s)
	go func() {
		_, err := conn.Do("DEBUG", "RELOAD")
		loaded <- err
	}()
	require.Eventually(t, func() bool {
		_, err := c.Mutex("m").TryLock(ctx)
		return fixture.IsAny(err, lock.ErrUnknown) && strings.Contains(err.Error(), "LOADING") && !fixture.IsAny(err, lock.ErrNotAcquired)
	}, time.Minute, time.Millisecond)
	held := fixture.Hold(t, c.Mutex("m2").Lock)
	require.NoError(t, bounded.Receive(t, loaded))
	require.NoError(t, held.Unlock(ctx))
	require.NoError(t, before.Err())
	require.NoError(t, before.Unlock(ctx))
}

func TestNOPERMIsFinal(t *testing.T) {
	fixture.Needs(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@all", "-hset")
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("reader"), redis.DialPassword("pw"))
	}}
	c := fixture.Client(t, pool, lock.Config{})
	_, err := c.Mutex("m").Lock(bounded.Context(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorContains(t, err, "Redis refused")
}

func TestABusyServerIsWaitedFor(t *testing.T) {
	s := fixture.Server(t, "--lua-time-limit", "1")
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	conn := fixture.Dial(t, s)
	require.NoError(t, conn.Send("EVAL", "while true do end", 0))
	require.NoError(t, conn.Flush())
	require.Eventually(t, func() bool {
		_, err := c.Mutex("m").TryLock(ctx)
		return err != nil && fixture.IsAny(err, lock.ErrUnknown)
	}, time.Minute, time.Millisecond)
	fixture.Do(t, s, "SCRIPT", "KILL")
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.NoError(t, held.Unlock(ctx))
}

func TestHeldLocksOutliveFullMemoryAndCanBeReleased(t *testing.T) {
	fixture.Slow(t)
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 6 * time.Second})
	ctx := bounded.Context(t)
	locks := 100_000
	if fixture.Briefly() {
		locks = 10_000
	}
	helds := make([]*lock.Held, locks)
	byMany(t, locks, func(i int) (err error) {
		helds[i], err = c.Mutex(fmt.Sprint("m", i)).Lock(ctx)
		return err
	})
	fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
	before := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool {
		require.Empty(t, c.Stats().Renewal.Lost)
		return c.Stats().Renewal.Renewed >= before+uint64(locks)
	}, 60*time.Second, 5*time.Millisecond)
	require.Equal(t, locks, c.Stats().Held)
	byMany(t, locks, func(i int) error { return helds[i].Unlock(ctx) })
	require.Zero(t, c.Stats().Held)
	info, err := s.Info("keyspace")
	require.NoError(t, err)
	require.Regexp(t, "^keys=1,", info["db0"], "the token counter is left")
}

// byMany calls f for 0 to n-1 from many goroutines.
func byMany(t *testing.T, n int, f func(i int) error) {
	t.Helper()
	const goroutines = 64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				if err := f(i); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	bounded.Wait(t, &wg)
	require.False(t, t.Failed())
}

func TestTokensRiseOverAnEmptyRestartAndOneWithAOF(t *testing.T) {
	t.Parallel()
	for _, aof := range []string{"no", "yes"} {
		t.Run("appendonly="+aof, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t, "--appendonly", aof, "--appendfsync", "always")
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			held := fixture.Hold(t, c.Mutex("m").Lock)
			last := held.Token()
			require.NoError(t, held.Unlock(ctx))
			require.NoError(t, s.Kill())
			require.NoError(t, s.Restart(ctx))
			held = fixture.Hold(t, c.Mutex("m").Lock)
			require.Greater(t, held.Token(), last)
			require.NoError(t, held.Unlock(ctx))
		})
	}
}

func TestDocumentedACLLineIsEnough(t *testing.T) {
	fixture.Needs(t, redistest.ChannelRights)
	s := fixture.Server(t)
	page, err := os.ReadFile("SERVERS.md")
	require.NoError(t, err)
	_, line, found := strings.Cut(string(page), "\n    ACL SETUSER ")
	require.True(t, found, "lock/SERVERS.md documents the line")
	line, _, _ = strings.Cut(line, "\n\n")
	args := []any{"SETUSER"}
	for _, word := range strings.Fields(strings.ReplaceAll(line, "\\\n", " ")) {
		args = append(args, word)
	}
	fixture.Do(t, s, "ACL", args...)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
	}}
	c, err := lock.New(pool, lock.Config{KeyPrefix: "app:", Lease: 300 * time.Millisecond, MaxPoll: time.Hour})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	defer fixture.CloseNow(c)
	mu := c.Mutex("m")
	held, err := mu.Lock(ctx)
	require.NoError(t, err)
	inner, err := mu.Lock(held.Context(ctx))
	require.NoError(t, err)
	fixture.AwaitRenewed(t, c, 1)
	require.NoError(t, inner.Unlock(ctx))
	_, err = held.Guard(ctx, "INCR", []string{"app:{m}:x"})
	require.ErrorContains(t, err, "Redis refused") // the guarded commands need rights of their own
	other := fixture.Client(t, pool, lock.Config{KeyPrefix: "app:", MaxPoll: time.Hour})
	wg := fixture.InTurn(t, other, "m", 1, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{app:m}", 1)
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, wg)
	_, err = mu.Inspect(ctx)
	require.NoError(t, err)
	_, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
	log, err := redis.Values(fixture.Do(t, s, "ACL", "LOG"), nil)
	require.NoError(t, err)
	for _, entry := range log {
		m, err := redis.StringMap(entry, nil)
		if err == nil {
			require.Equal(t, "incr", m["object"], "%v", m)
		}
	}
}

func TestAServerThatMayEvictLocksIsWarnedAbout(t *testing.T) {
	for policy, warned := range map[string]bool{"noeviction": false, "volatile-ttl": true, "allkeys-lru": true} {
		s := fixture.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		var log fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{Connections: 1, Logger: log.Logger()})
		log.Flush = lock.FlushLog(c)
		for range 3 {
			held := fixture.Hold(t, c.Mutex("m").Lock)
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		fixture.CloseNow(c)
		want := 0
		if warned {
			want = 1
		}
		require.Equal(t, want, strings.Count(log.String(), "maxmemory_policy="+policy), log.String())
	}
}

// TestAnUnansweredInnerUnlockLeavesNothingBehind: the inner Unlock is unknown
// and never repeated; the outer one is the last all the same.
func TestAnUnansweredInnerUnlockLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: 100 * time.Millisecond, UnlockTimeout: 200 * time.Millisecond})
	for _, repeated := range []string{"", "before", "after"} {
		name := t.Name() + repeated
		outer := fixture.Hold(t, c.Mutex(name).Lock)
		inner, err := c.Mutex(name).Lock(outer.Context(ctx))
		require.NoError(t, err)
		require.Equal(t, 2, outer.Count())
		require.NoError(t, s.Pause())
		require.ErrorIs(t, inner.Unlock(ctx), lock.ErrUnknown)
		require.NoError(t, s.Resume())
		require.Equal(t, 1, outer.Count())
		require.True(t, outer.Valid())
		require.False(t, inner.Valid())
		if repeated == "before" {
			require.NoError(t, fixture.Known(func() error { return inner.Unlock(ctx) }))
			require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
		}
		require.NoError(t, fixture.Known(func() error { return outer.Unlock(ctx) }))
		require.False(t, fixture.Exists(t, s, name))
		if repeated == "after" {
			require.NoError(t, inner.Unlock(ctx))
			require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
		}
	}
	require.Zero(t, c.Stats().Held)
}
