package hold_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// TestFairWaitersThatCameTogetherDoNotReadTheQueueTogether, where Redisson waits too: each reads the whole
// queue by the number of its sign, the more seldom the longer the queue is.
func TestFairWaitersThatCameTogetherDoNotReadTheQueueTogether(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		const n, each = 64, 4 // one of each of 4 reads it
		fixture.Do(b, b.s, "HSET", "f", "java:1", 1)
		fixture.Do(b, b.s, "PEXPIRE", "f", 3_600_000)
		fixture.Do(b, b.s, "RPUSH", keys.FairQueue("f"), "java:2")
		fixture.Do(b, b.s, "ZADD", keys.FairScores("f"), time.Now().Add(time.Hour).UnixMilli(), "java:2")
		ctx, cancel := context.WithCancel(context.Background())
		var waiters sync.WaitGroup
		for range n {
			waiters.Go(func() { _, _ = b.c.FairMutex("f").Lock(ctx) })
		}
		for range 5 {
			time.Sleep(2 * time.Second)
			signs, err := redis.StringMap(fixture.Do(b, b.s, "HGETALL", keys.FairSigns("f")), nil)
			require.NoError(b, err)
			require.Len(b, signs, n)
			readers := map[int]int{}
			for _, sign := range signs {
				digits, _, _ := strings.Cut(sign, "@")
				number, err := strconv.Atoi(digits)
				require.NoError(b, err)
				readers[(number+1)/2%each]++
			}
			require.Len(b, readers, each)
			for _, some := range readers {
				require.InDelta(b, n/each, some, 2)
			}
		}
		cancel()
		waiters.Wait()
	})
}
