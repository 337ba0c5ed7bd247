package script_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAFairReleaseGoesByTheServersClock: a client whose clock is ahead of Redis' sweeps no
// waiter of Redisson that may still stand there, and wakes it.
func TestAFairReleaseGoesByTheServersClock(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	clock, err := redis.Int64s(conn.Do("TIME"))
	require.NoError(t, err)
	now := clock[0] * 1000
	queue, scores := keys.FairQueue("f"), keys.FairScores("f")
	for _, ahead := range []time.Duration{400 * time.Second, -400 * time.Second} {
		for score, lives := range map[int64]bool{now + 300_000: true, now - 1000: false} {
			fixture.DoOn(t, conn, "FLUSHALL")
			fixture.DoOn(t, conn, "HSET", "f", "c:1:1", "1")
			fixture.DoOn(t, conn, "RPUSH", queue, "java:1")
			fixture.DoOn(t, conn, "ZADD", scores, score, "java:1")
			fixture.DoOn(t, conn, "EVAL", script.FairRelease.Text(), 4, "f", queue, scores, keys.FairSigns("f"),
				"c:1:1", "channel", now+ahead.Milliseconds(), 58_000, "publish")
			there, err := redis.Int(conn.Do("LLEN", queue))
			require.NoError(t, err)
			require.Equal(t, lives, there == 1, "ahead by %v, score in %d ms", ahead, score-now)
		}
	}
}
