package resp

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

// request is what redigo writes of a command.
func request(words ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(words))
	for _, w := range words {
		fmt.Fprintf(&b, "$%d\r\n%s\r\n", len(w), w)
	}
	return b.String()
}

// TestACommandSaysHowLongItsAnswerMayBe. After a subscription of a program, every answer may be as long
// as the longest.
func TestACommandSaysHowLongItsAnswerMayBe(t *testing.T) {
	const few, many = smallElements, largeElements
	sha, foreign := script.Release.SHA(), strings.Repeat("a", 40)
	for _, c := range []struct {
		written             string
		first, next, always int64
	}{
		{request("AUTH", "u", "p"), few, few, few},
		{request("SELECT", "1"), few, few, few},
		{request("CLIENT", "SETNAME", "n"), few, few, few},
		{request("CLIENT", "LIST"), many, few, few},
		{request("CLIENT", "SETNAME", "n") + request("CLIENT", "LIST"), many, many, few},
		{request("CLIENT", "SETNAME", "n") + request("PING", "LIST"), few, few, few},
		{request("ASKING"), few, few, few},
		{request("READONLY"), few, few, few},
		{request("PING"), few, few, few},
		{request("TIME"), few, few, few},
		{request("WAIT", "1", "2"), few, few, few},
		{request("PUBLISH", "c", "m"), few, few, few},
		{request("SPUBLISH", "c", "m"), few, few, few},
		{request("EVALSHA", sha, "0"), few, few, few},
		{request("EVALSHA", sha, "10", "k"), few + 40, few + 40, few + 40},
		{request("EVALSHA", foreign, "0"), many, few, few},
		{request("EVALSHA", sha, "0") + request("EVALSHA", foreign, "0"), many, many, few},
		{request("EVALSHA", script.Inspect.SHA(), "0"), many, few, few},
		{request("PING", sha, "10"), few, few, few},
		{request("PING", foreign), few, few, few},
		{request("EVALSHA", sha, "0") + request("PING", sha, "10"), few, few, few},
		{request("EVALSHA", sha, "99999999999999999999"), few + 4*math.MaxInt32, few + 4*math.MaxInt32, few + 4*math.MaxInt32},
		{request("EVALSHA", sha, "9") + request("EVALSHA", sha, "1"), few + 36, few + 36, few + 36},
		{request("INFO"), many, few, few},
		{request("PING") + request("INFO"), many, many, few},
		{request("INFO") + request("PING"), many, few, few},
		{request("SUBSCRIBE", "c") + request("INFO"), many, many, many},
		{request("SSUBSCRIBE", "c") + request("INFO"), many, many, many},
		{request("UNSUBSCRIBE") + request("INFO"), many, many, many},
		{request("SUNSUBSCRIBE") + request("INFO"), many, many, many},
		{request("SUBSCRIBE", "c") + request("PING"), many, many, many},
		{request("PSUBSCRIBE", "c*") + request("PING"), many, many, many},
		{request("SSUBSCRIBE", "c") + request("PING"), many, many, many},
		{request("psubscribe", "c*") + request("PING"), many, many, many},
		{"*0\r\n" + request("INFO"), many, many, few},
		// What redigo does not write may be anything.
		{"PING\r\n", many, many, many},
		{"*x", many, many, many},
		{"*1\r\nPING", many, many, many},
		{"*1\r\n$x", many, many, many},
		{"PING\r\n" + request("PING"), many, many, many},
	} {
		for _, piece := range []int{1, 3, 7, len(c.written)} {
			var r requestReader
			for rest := c.written; rest != ""; {
				n := min(piece, len(rest))
				r.scan([]byte(rest[:n]))
				rest = rest[n:]
			}
			require.Equal(t, []int64{c.first, c.next, c.always}, []int64{r.bounds(1).elements, r.bounds(2).elements, r.bounds(1 << 40).elements},
				"%.80q in pieces of %d", c.written, piece)
		}
	}
}

// TestMessagesOfALimitedSubscriptionAreSmall: the channels of the library have short messages.
func TestMessagesOfALimitedSubscriptionAreSmall(t *testing.T) {
	var w written
	c := New(&w)
	conn := Over(c)
	LimitMessages(conn)
	for _, command := range []string{"SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE", "PING"} {
		require.NoError(t, conn.Send(command, "c"))
		require.NoError(t, conn.Flush())
		require.EqualValues(t, smallElements, c.requests.bounds(1).elements, command)
		require.EqualValues(t, smallElements, c.requests.bounds(1<<40).elements, command)
	}
	require.NoError(t, conn.Send("INFO"))
	require.NoError(t, conn.Flush())
	require.EqualValues(t, largeElements, c.requests.bounds(1<<40).elements, "its answer may come behind any number of messages")
	LimitMessages(redis.NewConn(&written{}, 0, 0)) // has no effect
}
