package script_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// TestWhatOthersWroteIsCut: a client closes a connection if an answer is larger than it can be. A
// program that fills one key must not end the connection of all locks.
func TestWhatOthersWroteIsCut(t *testing.T) {
	c := newCrowd(t, func(text string) string { return text })
	long := strings.Repeat("x", 1<<20)
	cut := []byte(long[:1024])
	c.do("HSET", "m", long, long)
	require.Equal(t, []any{int64(-1), []byte(long[:8192]), cut}, c.run(script.Inspect, []string{"m"}))
	c.do("HSET", "m", "mode", long)
	for i := range 1100 {
		c.do("HSET", "m", i, "1")
	}
	answer := c.run(script.Inspect, []string{"m"}).([]any)
	require.Equal(t, []any{[]byte("mode"), cut}, answer[1:3])
	for _, v := range answer[3:] {
		require.LessOrEqual(t, len(v.([]byte)), 8192)
	}
	c.do("SET", "count", long)
	require.Equal(t, cut[:64], c.run(script.Count, []string{"count"}))
	require.Nil(t, c.run(script.Count, []string{"none"}))

	c.do("HSET", "f", "other:1", "1")
	c.do("PEXPIRE", "f", 60000)
	c.do("RPUSH", keys.FairQueue("f"), long)
	c.do("ZADD", keys.FairScores("f"), int64(1)<<60, long)
	c.do("HSET", keys.FairSigns("f"), long, long)
	take := c.run(script.FairTake, []string{"f", keys.FairQueue("f"), keys.FairScores("f"), keys.FairSigns("f"), "token"}, fairTake("1 a")...)
	require.Equal(t, []any{cut, cut, int64(0)}, take.([]any)[2:])
}
