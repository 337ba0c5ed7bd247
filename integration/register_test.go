package integration_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

// TestTokensFollowRedisAndThenTheClocks shows a case that is not promised: the server's time is not
// known, and Redis loses its data. Then an old holder keeps the higher token if its client's clock
// was ahead by more than the time between the two acquisitions. As long as Redis keeps its data, clocks
// do not matter. The matrix of faults has the case in which the server tells its time.
func TestTokensFollowRedisAndThenTheClocks(t *testing.T) {
	server := startOwn(t, processes(t))
	conn := fixture.Dial(t, server)
	field := 0
	take := func(clock time.Time) int64 {
		field++
		floor := fmt.Sprint(clock.Unix() << 20)
		fixture.DoOn(t, conn, "DEL", "key")
		reply, err := redis.Int64s(conn.Do("EVAL", script.Acquire.Text(), 2, "key", "counter", fmt.Sprintf("holder:%d", field), 1000, floor, 0))
		require.NoError(t, err)
		require.EqualValues(t, 1, reply[0])
		return reply[1]
	}
	now := time.Now()
	ahead, behind := now.Add(time.Minute), now

	old := take(ahead)
	require.Greater(t, take(behind), old, "Redis knows the counter")

	old = take(ahead)
	fixture.DoOn(t, conn, "FLUSHALL")
	require.Less(t, take(behind), old, "it has forgotten it, and the clocks are a minute apart")
	require.Greater(t, take(behind.Add(2*time.Minute)), old, "that is over when the clock behind has passed the other")
}
