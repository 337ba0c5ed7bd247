package lock_test

import (
	"context"
	"fmt"
	"math/rand/v2"
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
	"github.com/wheellock/wheellock/lock/script"
)

// TestManyFairWaitersThatLeaveGoTogether: each place is found by a walk along the
// queue, so a script for each would hold up all of Redis.
func TestManyFairWaitersThatLeaveGoTogether(t *testing.T) {
	s := fixture.Server(t)
	key := fixture.KeyOf(t)
	holder, c := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	held := fixture.Hold(t, holder.FairMutex(key).Lock)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	const waiters = 400
	for range waiters {
		wg.Go(func() { _, _ = c.FairMutex(key).Lock(ctx) })
	}
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == waiters }, time.Minute, time.Millisecond)
	before := statOf(t, s, "lrem", "calls") + statOf(t, s, "lrange", "calls")
	cancel()
	bounded.Wait(t, &wg)
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == 0 }, time.Minute, time.Millisecond)
	require.Less(t, statOf(t, s, "lrem", "calls")+statOf(t, s, "lrange", "calls")-before, waiters/4)
	_, scores, signs, _ := fairKeys(key)
	require.False(t, fixture.Exists(t, s, scores))
	require.False(t, fixture.Exists(t, s, signs))
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// statOf is what the server counts of a command, in scripts too: calls, or usec.
func statOf(t testing.TB, s *redistest.Server, command, what string) (n int) {
	t.Helper()
	info, err := redis.String(fixture.Do(t, s, "INFO", "commandstats"), nil)
	require.NoError(t, err)
	_, rest, _ := strings.Cut(info, "cmdstat_"+command+":")
	line, _, _ := strings.Cut(rest, "\r\n")
	if _, rest, found := strings.Cut(","+line, ","+what+"="); found {
		_, err = fmt.Sscanf(rest, "%d", &n)
		require.NoError(t, err)
	}
	return n
}

// TestPlacesThatAreGivenUpTogetherLeaveWhatOneByOneLeaves runs both on random queues.
func TestPlacesThatAreGivenUpTogetherLeaveWhatOneByOneLeaves(t *testing.T) {
	s := onRedis(t)
	c, err := s.Dial()
	require.NoError(t, err)
	defer c.Close()
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 2))
		n := rng.IntN(40)
		taken, now := rng.IntN(2) == 0, time.Now().UnixMilli()
		var leavers []string
		keysOf := func(i int) []any {
			tag := fmt.Sprintf("{%s%d:%d}", t.Name(), seed, i)
			return []any{tag, tag + "q", tag + "z", tag + "s"}
		}
		for i := range n {
			field := fmt.Sprint("field ", i)
			leaves := rng.IntN(2) == 0
			signs := leaves || rng.IntN(3) > 0 // those of Redisson give none
			for k := range 2 {
				keys := keysOf(k)
				fixture.DoOn(t, c, "RPUSH", keys[1], field)
				fixture.DoOn(t, c, "ZADD", keys[2], now+int64(i)*1000, field)
				if signs {
					fixture.DoOn(t, c, "HSET", keys[3], field, "1/2000")
				}
			}
			if leaves {
				leavers = append(leavers, field)
			}
		}
		leavers = append(leavers, "nobody")
		for k := range 2 {
			keys := keysOf(k)
			if taken {
				fixture.DoOn(t, c, "HSET", keys[0], "the holder", 1)
			}
			if n > 0 {
				for _, key := range keys[1:3] {
					fixture.DoOn(t, c, "PEXPIRE", key, 100_000)
				}
			}
		}
		release := func(k int, fields ...string) {
			args := append([]any{script.FairRelease.Text(), 4}, keysOf(k)...)
			args = append(args, fields[0], t.Name(), now, 5000, "publish")
			for _, f := range fields[1:] {
				args = append(args, f)
			}
			fixture.DoOn(t, c, "EVAL", args...)
		}
		for _, f := range leavers {
			release(0, f)
		}
		release(1, leavers...)
		state := func(k int) (out []any) {
			keys := keysOf(k)
			for _, cmd := range [][]any{
				{"LRANGE", keys[1], 0, -1}, {"ZRANGE", keys[2], 0, -1, "WITHSCORES"}, {"HKEYS", keys[3]}, {"HGETALL", keys[0]},
			} {
				out = append(out, fixture.DoOn(t, c, cmd[0].(string), cmd[1:]...))
			}
			ttl, err := redis.Int64(c.Do("PTTL", keys[1]))
			require.NoError(t, err)
			return append(out, ttl > 0)
		}
		require.Equal(t, state(0), state(1), "seed %d", seed)
	}
}

// BenchmarkFairWaitersLeave is how long Redis works when 10,000 waiters of one
// FairMutex leave at once.
func BenchmarkFairWaitersLeave(b *testing.B) {
	const waiters = 10_000
	s := fixture.Server(b)
	holder, c := fixture.ClientOf(b, s, lock.Config{}), fixture.ClientOf(b, s, lock.Config{})
	held, err := holder.FairMutex("f").Lock(context.Background())
	require.NoError(b, err)
	queue, _, _, _ := fairKeys("f")
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { _, _ = c.FairMutex("f").Lock(ctx) })
		}
		for fixture.Int(b, s, "LLEN", queue) < waiters {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // those who listen look once more
		fixture.Do(b, s, "CONFIG", "RESETSTAT")
		cancel()
		wg.Wait()
		for fixture.Int(b, s, "LLEN", queue) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		b.ReportMetric(float64(statOf(b, s, "evalsha", "usec"))/1000, "redis-ms")
		b.ReportMetric(float64(statOf(b, s, "evalsha", "calls")), "scripts")
	}
	require.NoError(b, held.Unlock(context.Background()))
}
