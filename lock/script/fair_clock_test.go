package script_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// TestAFairReleaseGoesByTheServersClock: a client whose clock is ahead of the server's must not sweep
// a waiter of Redisson's whose time is not over.
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

// TestAPlaceInTheQueueGoesByTheServersClock also if the call has no time limit, because the client does
// not know that clock. A client whose clock is ahead must not sweep a waiter of Redisson's whose time is
// not over.
func TestAPlaceInTheQueueGoesByTheServersClock(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	clock, err := redis.Int64s(conn.Do("TIME"))
	require.NoError(t, err)
	server := clock[0] * 1000
	queue, scores, signs := keys.FairQueue("f"), keys.FairScores("f"), keys.FairSigns("f")
	const me, patience, grace = "c:1:1", 300_000, 116_000
	for _, ahead := range []int64{-400_000, 400_000} {
		client := server + ahead
		requireSign := func(number int) {
			t.Helper()
			sign, err := redis.String(conn.Do("HGET", signs, me))
			require.NoError(t, err)
			var n int
			var at int64
			_, err = fmt.Sscanf(sign, "%d@%d a", &n, &at)
			require.NoError(t, err, sign)
			require.Equal(t, number, n)
			require.InDelta(t, server, at, 120_000)
		}
		fixture.DoOn(t, conn, "FLUSHALL")
		fixture.DoOn(t, conn, "HSET", "f", "o:1", "1")
		fixture.DoOn(t, conn, "RPUSH", queue, "java:1")
		fixture.DoOn(t, conn, "ZADD", scores, server+patience, "java:1")
		args := []any{script.FairTake.Text(), 5, "f", queue, scores, signs, keys.Counter, me, 30_000, 1, client, patience}
		fixture.DoOn(t, conn, "EVAL", append(args, "1 a", "", "", 100_000, "channel", "publish", grace, 0, 0)...)
		line, err := redis.Strings(conn.Do("LRANGE", queue, 0, -1))
		require.NoError(t, err)
		require.Equal(t, []string{"java:1", me}, line, "ahead by %d ms", ahead)
		requireSign(1)

		fixture.DoOn(t, conn, "LREM", queue, 1, "java:1")
		fixture.DoOn(t, conn, "ZREM", scores, "java:1")
		fixture.DoOn(t, conn, "ZADD", scores, server+grace, me)
		args = []any{script.FairSign.Text(), 4, "f", queue, scores, signs, client, patience, 100_000, grace, " a", me, 2}
		fixture.DoOn(t, conn, "EVAL", append(args, 0)...)
		requireSign(2)
	}
}

// TestAFairReleaseOfManyPlacesLeavesTheOthers in their order, with the TTL of the queue. A field that is
// named twice leaves once, and so does one that stands there twice.
func TestAFairReleaseOfManyPlacesLeavesTheOthers(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	clock, err := redis.Int64s(conn.Do("TIME"))
	require.NoError(t, err)
	now := clock[0] * 1000
	queue, scores, signs := keys.FairQueue("f"), keys.FairScores("f"), keys.FairSigns("f")
	for _, leave := range []int{1, 8, 9, 50, 51, 52} { // from 9 on the queue is written anew, in parts
		text := script.FairRelease.Text()
		switch leave {
		case 51: // as if the server were older than 6.2
			text = strings.ReplaceAll(text, "redis.pcall('lpop', queue, length)", "redis.pcall('lpop62')")
		case 52: // as if the user had no right to LPOP
			text = strings.ReplaceAll(text, "'lpop'", "'lpop0'")
		}
		for _, twice := range []bool{false, true} {
			fixture.DoOn(t, conn, "FLUSHALL")
			fixture.DoOn(t, conn, "HSET", "f", "c:1:1", "1")
			var want []string
			gone := []any{}
			for i := range 12_000 {
				field := fmt.Sprint("w", i)
				require.NoError(t, conn.Send("RPUSH", queue, field))
				require.NoError(t, conn.Send("ZADD", scores, now+60_000, field))
				require.NoError(t, conn.Send("HSET", signs, field, fmt.Sprint("1@", now)))
				if i%100 == 50 && len(gone) < leave {
					gone = append(gone, field)
				} else {
					want = append(want, field)
				}
			}
			_, err := conn.Do("")
			require.NoError(t, err)
			if twice {
				fixture.DoOn(t, conn, "RPUSH", queue, gone[0])
				want, gone = append(want, gone[0].(string)), append(gone, gone[0])
			} else {
				fixture.DoOn(t, conn, "PEXPIRE", queue, 50_000)
			}
			args := append([]any{text, 4, "f", queue, scores, signs, gone[0], "channel", now, 58_000, "publish"}, gone[1:]...)
			require.EqualValues(t, -1, fixture.DoOn(t, conn, "EVAL", args...))
			got, err := redis.Strings(conn.Do("LRANGE", queue, 0, -1))
			require.NoError(t, err)
			require.True(t, slices.Equal(want, got), "%d leave, twice: %v, %d are left", leave, twice, len(got))
			require.EqualValues(t, 12_000-leave, fixture.DoOn(t, conn, "ZCARD", scores))
			require.EqualValues(t, 12_000-leave, fixture.DoOn(t, conn, "HLEN", signs))
			if !twice {
				require.Greater(t, fixture.DoOn(t, conn, "PTTL", queue), int64(10_000))
			}
			require.EqualValues(t, 1, fixture.DoOn(t, conn, "HLEN", "f"))
		}
	}
}

// TestAFairReleaseWakesTheNextToo if the first waiter may be dead, because its last sign of life is old.
func TestAFairReleaseWakesTheNextToo(t *testing.T) {
	server := fixture.Server(t)
	conn, ears := fixture.Dial(t, server), redis.PubSubConn{Conn: fixture.Dial(t, server)}
	require.NoError(t, ears.Subscribe("channel:w0", "channel:w1", "channel:w2"))
	for range 3 {
		ears.Receive()
	}
	clock, err := redis.Int64s(conn.Do("TIME"))
	require.NoError(t, err)
	now := clock[0] * 1000
	queue, scores, signs := keys.FairQueue("f"), keys.FairScores("f"), keys.FairSigns("f")
	const doubt = 50_000
	for _, test := range []struct {
		ahead []int64 // how far the scores are ahead of the clock
		told  int64
	}{
		{[]int64{2 * doubt, 2 * doubt, 2 * doubt}, 1},
		{[]int64{doubt / 2, 2 * doubt, 2 * doubt}, 2},
		{[]int64{doubt / 2, doubt / 2, 2 * doubt}, 3},
		{[]int64{2 * doubt, doubt / 2, doubt / 2}, 1},
	} {
		fixture.DoOn(t, conn, "FLUSHALL")
		fixture.DoOn(t, conn, "HSET", "f", "c:1:1", "1")
		for i, ahead := range test.ahead {
			field := fmt.Sprint("w", i)
			fixture.DoOn(t, conn, "RPUSH", queue, field)
			fixture.DoOn(t, conn, "ZADD", scores, now+ahead, field)
			fixture.DoOn(t, conn, "HSET", signs, field, fmt.Sprint("1@", now))
		}
		require.EqualValues(t, 1+test.told, fixture.DoOn(t, conn, "EVAL", script.FairRelease.Text(), 4, "f", queue, scores, signs,
			"c:1:1", "channel", now, doubt, "publish"), "%v", test.ahead)
	}
}

// TestAFairWaiterWithoutAPlaceGetsOneAgain at the end, if somebody removed it from the queue and left its
// score. Otherwise those that come later would all go first.
func TestAFairWaiterWithoutAPlaceGetsOneAgain(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	queue, scores, signs := keys.FairQueue("x"), keys.FairScores("x"), keys.FairSigns("x")
	fixture.DoOn(t, conn, "HSET", "x", "o:1", "1")
	for _, field := range []string{"c:1:1", "w1", "w2"} {
		fixture.DoOn(t, conn, "ZADD", scores, now+100_000, field)
		fixture.DoOn(t, conn, "HSET", signs, field, fmt.Sprintf("1@%d a", now))
	}
	fixture.DoOn(t, conn, "RPUSH", queue, "w1", "w2")
	for sign := 2; sign <= 3; sign++ {
		args := append([]any{byClientsClock(script.FairTake), 5, "x", queue, scores, signs, keys.Counter}, fairTake(fmt.Sprint(sign, " a"))...)
		fixture.DoOn(t, conn, "EVAL", append(args, 0)...)
		line, err := redis.Strings(conn.Do("LRANGE", queue, 0, -1))
		require.NoError(t, err)
		require.Equal(t, []string{"w1", "w2", "c:1:1"}, line)
		score, err := redis.Int64(conn.Do("ZSCORE", scores, "c:1:1"))
		require.NoError(t, err)
		require.EqualValues(t, now+116_000, score, "it gives a sign of life too")
	}
}

// TestAFairWaiterOfALongQueueGetsAPlaceAgain, though each second of its signs goes to fair_sign, so that
// the numbers of the others are all odd, or all even.
func TestAFairWaiterOfALongQueueGetsAPlaceAgain(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	queue, scores, signs := keys.FairQueue("x"), keys.FairScores("x"), keys.FairSigns("x")
	for _, first := range []int{2, 3} {
		fixture.DoOn(t, conn, "FLUSHALL")
		fixture.DoOn(t, conn, "HSET", "x", "o:1", "1")
		for i := range 21 {
			name := fmt.Sprint("w", i)
			if i == 20 {
				name = "c:1:1"
			} else {
				fixture.DoOn(t, conn, "RPUSH", queue, name)
			}
			fixture.DoOn(t, conn, "ZADD", scores, now+100_000, name)
			fixture.DoOn(t, conn, "HSET", signs, name, fmt.Sprintf("1@%d a", now))
		}
		for sign := first; sign <= 9; sign += 2 {
			args := append([]any{byClientsClock(script.FairTake), 5, "x", queue, scores, signs, keys.Counter}, fairTake(fmt.Sprint(sign, " a"))...)
			fixture.DoOn(t, conn, "EVAL", append(args, 0)...)
		}
		require.EqualValues(t, 21, fixture.DoOn(t, conn, "LLEN", queue))
	}
}
