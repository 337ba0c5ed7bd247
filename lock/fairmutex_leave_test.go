package lock_test

import (
	"context"
	"fmt"
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
