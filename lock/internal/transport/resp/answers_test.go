package resp

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

// wire is a net.Conn whose reads return in, chunk bytes at a time. It keeps the bytes that are written.
type wire struct {
	net.Conn
	in      []byte
	chunk   int
	written bytes.Buffer
}

func (w *wire) Read(p []byte) (int, error) {
	if len(w.in) == 0 {
		return 0, net.ErrClosed
	}
	n := copy(p[:min(len(p), max(w.chunk, 1))], w.in)
	w.in = w.in[n:]
	return n, nil
}

func (w *wire) Write(p []byte) (int, error)      { return w.written.Write(p) }
func (w *wire) Close() error                     { return nil }
func (w *wire) SetReadDeadline(time.Time) error  { return nil }
func (w *wire) SetWriteDeadline(time.Time) error { return nil }

// answered is what redigo makes of a server's answers to some requests.
func answered(in string, chunk int, requests ...[]any) (replies []any, err error) {
	w := &wire{in: []byte(in), chunk: chunk}
	c := redis.NewConn(New(w), 0, 0)
	for _, r := range requests {
		if err := c.Send(r[0].(string), r[1:]...); err != nil {
			return nil, err
		}
	}
	if err := c.Flush(); err != nil {
		return nil, err
	}
	for {
		reply, err := c.Receive()
		var refused redis.Error
		if err != nil && !errors.As(err, &refused) {
			return replies, err
		}
		if err != nil {
			reply = refused
		}
		replies = append(replies, reply)
	}
}

func TestWhatRedisAnswersComesThrough(t *testing.T) {
	for _, test := range []struct {
		in   string
		want any
	}{
		{"+OK\r\n", "OK"},
		{"+a b c\r\n", "a b c"},
		{"-ERR no\r\n", redis.Error("ERR no")},
		{"-\r\n", redis.Error("")},
		{":-17\r\n", int64(-17)},
		{"$0\r\n\r\n", []byte{}},
		{"$5\r\na\r\nbc\r\n", []byte("a\r\nbc")},
		{"$-1\r\n", nil},
		{"*-1\r\n", nil},
		{"*0\r\n", []any{}},
		{"*2\r\n:1\r\n$1\r\nx\r\n", []any{int64(1), []byte("x")}},
		{"*2\r\n*0\r\n*1\r\n*1\r\n$-1\r\n", []any{[]any{}, []any{[]any{nil}}}},
		{strings.Repeat("*1\r\n", maxDepth) + ":1\r\n", []any{[]any{[]any{[]any{[]any{[]any{int64(1)}}}}}}},
		{"+" + strings.Repeat("x", smallBytes-2) + "\r\n", strings.Repeat("x", smallBytes-2)},
		{fmt.Sprintf("$%d\r\n%s\r\n", smallBytes, strings.Repeat("x", smallBytes)), []byte(strings.Repeat("x", smallBytes))},
		{fmt.Sprintf("*%d\r\n%s", smallElements, strings.Repeat(":1\r\n", smallElements)), slicesOf(int64(1), smallElements)},
	} {
		for _, chunk := range []int{1, 2, 3, 7, 4096} {
			got, err := answered(test.in+":9\r\n"+test.in, chunk)
			require.ErrorIs(t, err, net.ErrClosed)
			require.Equal(t, []any{test.want, int64(9), test.want}, got, "%.40q", test.in)
		}
	}
}

func slicesOf(v any, n int) []any {
	all := make([]any, n)
	for i := range all {
		all[i] = v
	}
	return all
}

func TestWhatNoAnswerCanBeIsRefused(t *testing.T) {
	for _, test := range []struct{ in, says string }{
		{"*4000000000\r\n", "an array of 400 elements or more, where at most 64 can come"},
		{"*65\r\n", "an array of 65 elements"},
		{"*2\r\n*40\r\n" + strings.Repeat(":1\r\n", 40) + "*40\r\n", "an array of 40 elements or more, where at most 22 can come"},
		{"$1099511627776\r\n", "a string of 109951 bytes or more, where at most 65536 can come"},
		{"*2\r\n$65536\r\n" + strings.Repeat("x", 65536) + "\r\n$1\r\n", "a string of 1 bytes or more, where at most 0 can come"},
		{"$99999999999999999999999\r\n", "a string of 99999 bytes"},
		{"$00000000000000000000000\r\n", "a string of 0 bytes or more"},
		{"*-2\r\n", `a length with a byte '2'`},
		{"*-\r\n", `a length with a byte '\r'`},
		{"*-11\r\n", `a length with a byte '1'`},
		{"*\r\n", `a length with a byte '\r'`},
		{"*1x\r\n", `a length with a byte 'x'`},
		{"$1\rx", "a length without a line feed"},
		{"$1\r\nxx\r\n", "a string that is longer than its length"},
		{"$1\r\nx\rx", "a string that is longer than its length"},
		{strings.Repeat("*1\r\n", maxDepth+1), "arrays more than 6 deep"},
		{"+" + strings.Repeat("x", smallBytes+1), "a line of more than 65536 bytes"},
		{"*2\r\n+" + strings.Repeat("x", smallBytes/2) + "\r\n+" + strings.Repeat("x", smallBytes/2) + "\r\n", "a line of more than 32766 bytes"},
		{"+x\n", "a line without a carriage return"},
		{"\n", `it begins with '\n'`},
		{"HTTP/1.1 400 Bad Request\r\n", `it begins with 'H'`},
		{"%1\r\n+a\r\n+b\r\n", `it begins with '%' as in RESP3`},
	} {
		for _, chunk := range []int{1, 2, 3, 7, 4096} {
			got, err := answered(":9\r\n"+test.in, chunk)
			var answer *AnswerError
			require.ErrorAs(t, err, &answer, "%.40q", test.in)
			require.ErrorContains(t, err, test.says, "%.40q", test.in)
			require.Equal(t, []any{int64(9)}, got, "%.40q", test.in)
		}
	}
}

func TestARequestSaysWhatItsAnswerMayBe(t *testing.T) {
	array := func(n int) string { return fmt.Sprintf("*%d\r\n%s", n, strings.Repeat(":1\r\n", n)) }
	bulk := func(n int) string { return fmt.Sprintf("$%d\r\n%s\r\n", n, strings.Repeat("x", n)) }
	evalsha := func(sha string, keys int, args ...any) []any { return append([]any{"EVALSHA", sha, keys}, args...) }
	small, big, foreign := script.Release.SHA(), script.Inspect.SHA(), strings.Repeat("a", 40)
	long := strings.Repeat("k", 1000)
	for _, test := range []struct {
		name     string
		requests [][]any
		in       string
		ok       bool
	}{
		{"elements of one key", [][]any{evalsha(small, 1, "k")}, array(68), true},
		{"one more", [][]any{evalsha(small, 1, "k")}, array(69), false},
		{"elements of many keys", [][]any{evalsha(small, 100, slicesOf("k", 100)...)}, array(464), true},
		{"one more", [][]any{evalsha(small, 100, slicesOf("k", 100)...)}, array(465), false},
		{"arguments are no keys", [][]any{evalsha(small, 1, slicesOf("k", 100)...)}, array(69), false},
		{"a string as long as the longest name and 64 KiB", [][]any{evalsha(small, 1, long)}, bulk(65536 + 32 + 1000), true},
		{"one more", [][]any{evalsha(small, 1, long)}, bulk(65536 + 32 + 1001), false},
		{"a text of many keys", [][]any{evalsha(small, 100, slicesOf("k", 100)...)}, bulk(65536 + 3200 + 40), true},
		{"one more", [][]any{evalsha(small, 100, slicesOf("k", 100)...)}, bulk(65536 + 3200 + 41), false},
		{"an earlier request counts", [][]any{evalsha(small, 100, slicesOf("k", 100)...), evalsha(small, 1, "k")}, ":1\r\n" + array(464), true},
		{"INFO", [][]any{{"INFO", "server"}}, bulk(16 << 20), true},
		{"one more", [][]any{{"INFO", "server"}}, bulk(16<<20 + 1), false},
		{"a layout", [][]any{{"CLUSTER", "SLOTS"}}, array(1 << 20), true},
		{"one more", [][]any{{"CLUSTER", "SLOTS"}}, array(1<<20 + 1), false},
		{"a line of it", [][]any{{"CLUSTER", "SLOTS"}}, "+" + strings.Repeat("x", 70000) + "\r\n", false},
		{"a script that is answered at length", [][]any{evalsha(big, 1, "k")}, array(2049), true},
		{"a script of the program", [][]any{evalsha(foreign, 0)}, array(100), true},
		{"a script as text", [][]any{{"EVAL", "return 1", 1, "k"}}, array(2049), true},
		{"the one before it is not", [][]any{{"PING"}, {"INFO"}}, bulk(70000) + bulk(70000), true},
		{"the one behind it is small again", [][]any{{"INFO"}, {"PING"}}, bulk(70000) + bulk(70000), false},
		{"an answer without a request is small", nil, bulk(70000), false},
		{"AUTH", [][]any{{"AUTH", "user", "password"}}, array(65), false},
		{"the connections of a server", [][]any{{"CLIENT", "LIST"}}, bulk(70000), true},
		{"the answer to a name", [][]any{{"CLIENT", "SETNAME", "n"}}, bulk(70000), false},
		{"a message", [][]any{{"PSUBSCRIBE", "c*"}}, array(3) + "*4\r\n$8\r\npmessage\r\n$2\r\nc*\r\n$1\r\nc\r\n" + bulk(70000), true},
		{"INFO behind messages", [][]any{{"SUBSCRIBE", "c"}, {"INFO"}}, array(3) + array(3) + array(3) + bulk(70000), true},
	} {
		for _, chunk := range []int{5, 4096} {
			got, err := answered(test.in, chunk, test.requests...)
			var answer *AnswerError
			require.Equal(t, !test.ok, errors.As(err, &answer), "%s: %v", test.name, err)
			if test.ok {
				require.NotEmpty(t, got, test.name)
			}
		}
	}
}

// TestTheLongestLayoutComesThrough: each slot was moved by itself, so it is a range with its
// master, two replicas, and their names.
func TestTheLongestLayoutComesThrough(t *testing.T) {
	text := func(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }
	node := "*4\r\n" + text("redis-123.some-cluster.example.internal") + ":7000\r\n" + text(strings.Repeat("f", 40)) + "*2\r\n" + text("ip") + text("10.100.100.100")
	slot := "*5\r\n:16383\r\n:16383\r\n" + node + node + node
	got, err := answered("*16384\r\n"+strings.Repeat(slot, 16384), 4096, []any{"CLUSTER", "SLOTS"})
	require.ErrorIs(t, err, net.ErrClosed)
	require.Len(t, got, 1)
	require.Len(t, got[0], 16384)
}

// TestRequestsAreReadAlongInPieces: redigo writes its buffer whenever that is full.
func TestRequestsAreReadAlongInPieces(t *testing.T) {
	w := &wire{}
	c := redis.NewConn(w, 0, 0)
	for _, r := range [][]any{
		{"PING"},
		{"EVALSHA", script.Release.SHA(), 7, "k", strings.Repeat("k", 9000), "", 3.5},
		{"INFO"},
		{"SET", "k", []byte{0, '\r', '\n', '*'}},
		{"TIME"},
	} {
		require.NoError(t, c.Send(r[0].(string), r[1:]...))
	}
	require.NoError(t, c.Flush())
	text := w.written.Bytes()
	for _, piece := range []int{1, 2, 3, 5, 8, 4096, len(text)} {
		var r requestReader
		for rest := text; len(rest) > 0; {
			n := min(piece, len(rest))
			r.scan(rest[:n])
			rest = rest[n:]
		}
		require.Equal(t, atRequest, r.state)
		require.EqualValues(t, 5, r.sentCount)
		require.EqualValues(t, 7, r.keys.Load())
		require.EqualValues(t, 9000, r.longest.Load())
		require.EqualValues(t, 4, r.largeUntil.Load(), "SET is not known to be answered in few words")
	}
	var r requestReader
	r.scan([]byte("what redigo does not write"))
	require.Equal(t, int64(largeElements), r.bounds(1000).elements)
}

// FuzzAnswers: whatever a server sends, redigo gets bytes that it understands as the same answers,
// in pieces of any size, and no answer is larger than its bounds.
func FuzzAnswers(f *testing.F) {
	for _, seed := range []string{
		"+OK\r\n:1\r\n", "*2\r\n$1\r\nx\r\n*0\r\n", "$-1\r\n*-1\r\n", "*4000000000\r\n", "$9999999999999999999\r\n",
		strings.Repeat("*1\r\n", 9), "+" + strings.Repeat("x", 99), "*3\r\n$7\r\nmessage\r\n", "-ERR\r\n\r\n", "*1\r\n$1\r\nxx\r\n",
	} {
		f.Add([]byte(seed), 3)
	}
	f.Fuzz(func(t *testing.T, in []byte, chunk int) {
		whole, wholeErr := answered(string(in), len(in))
		pieces, piecesErr := answered(string(in), chunk)
		require.Equal(t, whole, pieces)
		require.Equal(t, wholeErr.Error(), piecesErr.Error())
		var answer *AnswerError
		if !errors.Is(wholeErr, net.ErrClosed) && !errors.As(wholeErr, &answer) {
			require.Regexp(t, "malformed integer|illegal bytes", wholeErr.Error()) // which costs nothing
		}
		for _, reply := range whole {
			elements, size := measure(reply)
			require.LessOrEqual(t, elements, smallElements)
			require.LessOrEqual(t, size, smallBytes)
		}
	})
}

func measure(reply any) (elements, size int) {
	switch v := reply.(type) {
	case []any:
		elements = len(v)
		for _, e := range v {
			n, s := measure(e)
			elements, size = elements+n, size+s
		}
	case []byte:
		size = len(v)
	case string:
		size = len(v)
	case redis.Error:
		size = len(v)
	}
	return elements, size
}

// FuzzRequests: what redigo writes is read along to its end, in pieces of any size.
func FuzzRequests(f *testing.F) {
	f.Add("EVALSHA", "a", []byte("b"), int64(3), 4)
	f.Add("GET", "*1\r\n$4\r\nINFO\r\n", []byte("\r\n"), int64(-3), 1)
	f.Fuzz(func(t *testing.T, cmd, a string, b []byte, n int64, piece int) {
		w := &wire{}
		c := redis.NewConn(w, 0, 0)
		for range 2 {
			require.NoError(t, c.Send(cmd, a, n, b))
		}
		require.NoError(t, c.Flush())
		var r requestReader
		for rest := w.written.Bytes(); len(rest) > 0; {
			k := min(max(piece, 1), len(rest))
			r.scan(rest[:k])
			rest = rest[k:]
		}
		require.Equal(t, atRequest, r.state)
		require.EqualValues(t, 2, r.sentCount)
		require.EqualValues(t, max(len(cmd), len(a), len(b), len(fmt.Sprint(n))), r.longest.Load())
	})
}

func TestReceiveMakesAnErrorOfAPanic(t *testing.T) {
	c := redis.NewConn(&wire{in: []byte("*99999999999999999\r\n"), chunk: 4096}, 0, 0)
	_, err := Receive(c, time.Second)
	require.ErrorIs(t, err, errPanic)
	require.ErrorContains(t, err, "makeslice")
}

// BenchmarkReadAlong measures what a Conn adds to the cost of a request and its answer.
func BenchmarkReadAlong(b *testing.B) {
	request := func(keys int) []byte {
		w := &wire{}
		c := redis.NewConn(w, 0, 0)
		args := []any{script.Renew.SHA(), keys}
		for i := range 2*keys + 4 {
			args = append(args, fmt.Sprintf("some-lock-or-field-%d", i))
		}
		_ = c.Send("EVALSHA", args...)
		_ = c.Flush()
		return w.written.Bytes()
	}
	for _, test := range []struct {
		name   string
		keys   int
		answer string
	}{
		{"pair", 2, "*2\r\n:1\r\n:1234567890123\r\n"},
		{"renewal of 128", 128, "*0\r\n"},
	} {
		text, answer := request(test.keys), []byte(test.answer)
		b.Run(test.name, func(b *testing.B) {
			b.ReportAllocs()
			var c Conn
			for b.Loop() {
				c.requests.scan(text)
				if _, err := c.answers.scan(answer, c.requests.bounds); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
