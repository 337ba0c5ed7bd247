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
	"pgregory.net/rapid"
)

// TestAReplyIsWhatRedigoReturns, and tells its type.
func TestAReplyIsWhatRedigoReturns(t *testing.T) {
	for _, test := range []struct {
		v       any
		numbers []int64
	}{
		{v: nil},
		{v: "OK"},
		{v: []byte("x")},
		{v: int64(0)},
		{v: int64(-5)},
		{v: []any{}},
		{v: []any{int64(7)}, numbers: []int64{7}},
		{v: []any{int64(0), int64(-1)}, numbers: []int64{0, -1}},
		{v: []any{int64(1), int64(2), int64(3)}, numbers: []int64{1, 2, 3}},
		{v: []any{int64(1), int64(2), int64(3), int64(4)}},
		{v: []any{int64(1), []byte("2")}},
		{v: []any{nil}},
		{v: []any{[]any{int64(1)}}},
	} {
		r := ReplyOf(test.v)
		require.Equal(t, test.v, r.Any())
		require.Equal(t, test.numbers, r.Numbers(), "%v", test.v)
		n, ok := r.Number()
		want, is := test.v.(int64)
		require.Equal(t, is, ok, "%v", test.v)
		if is {
			require.Equal(t, want, n)
		}
		if is || test.numbers != nil {
			require.Nil(t, r.Other())
		} else {
			require.Equal(t, test.v, r.Other())
		}
	}
	require.Nil(t, new(Reply).Any())
}

// received returns answers as a Conn reads them. The Conn reads some of them without redigo.
func received(in string, chunk int) (replies []any, err error) {
	c := New(&wire{in: []byte(in), chunk: chunk})
	conn := Over(c)
	for {
		reply, err := ReceiveReply(conn, c)
		var refused redis.Error
		switch {
		case errors.As(err, &refused):
			replies = append(replies, refused)
		case err != nil:
			return replies, err
		default:
			replies = append(replies, reply.Any())
		}
	}
}

// TestAConnReadsWhatRedigoDoes: answers of every form, one behind the other, however they come.
func TestAConnReadsWhatRedigoDoes(t *testing.T) {
	long := strings.Repeat("x", 3*readAheadSize)
	forms := []string{
		":1\r\n", ":-17\r\n", ":123456789012345678\r\n", ":9223372036854775807\r\n", ":-9223372036854775808\r\n", ":007\r\n", ":-0\r\n",
		"*1\r\n:5\r\n", "*2\r\n:1\r\n:1234567890123\r\n", "*3\r\n:0\r\n:-1\r\n:2\r\n", "*4\r\n:1\r\n:2\r\n:3\r\n:4\r\n",
		"*0\r\n", "*-1\r\n", "$-1\r\n", "+OK\r\n", "-ERR no\r\n", "-LATE 5\r\n", "$3\r\na\nb\r\n", "$2\r\n:1\r\n",
		"*2\r\n:1\r\n$2\r\nab\r\n", "*2\r\n$1\r\n1\r\n:1\r\n", "*1\r\n*1\r\n:1\r\n", "*2\r\n:1\r\n$-1\r\n", "*1\r\n-ERR in it\r\n", "*2\r\n+1\r\n:2\r\n",
		fmt.Sprintf("$%d\r\n%s\r\n", len(long), long),
		"*" + fmt.Sprint(smallElements) + "\r\n" + strings.Repeat(":12345678901234567\r\n", smallElements),
	}
	rapid.Check(t, func(t *rapid.T) {
		in := strings.Join(rapid.SliceOfN(rapid.SampledFrom(forms), 1, 400).Draw(t, "answers"), "")
		chunk := rapid.SampledFrom([]int{1, 2, 3, 7, 100, readAheadSize - 1, 1 << 20}).Draw(t, "chunk")
		want, _ := answered(in, 1<<20)
		got, err := received(in, chunk)
		require.ErrorIs(t, err, net.ErrClosed)
		require.Equal(t, want, got)
	})
}

// FuzzReceive compares a Conn's own reading with redigo's, up to the first fault of an answer.
func FuzzReceive(f *testing.F) {
	for _, in := range []string{
		":1\r\n*2\r\n:1\r\n:2\r\n", ":\r\n", ":-\r\n", ":1x\r\n:2\r\n", ":+1\r\n", "*1\r\n:\r\n", "*3\r\n:1\r\n:2\r\n$1\r\n3\r\n",
		":99999999999999999999\r\n", "*2\r\n:1\r\n:--1\r\n", "+\r\n:1\r\n", "*1\n:1\r\n", ":1\n", "*9\r\n", "*03\r\n:1\r\n:2\r\n:3\r\n",
	} {
		f.Add(in, uint16(3))
	}
	f.Fuzz(func(t *testing.T, in string, chunk uint16) {
		want, wanted := answered(in, int(chunk))
		got, err := received(in, int(chunk))
		require.Equal(t, want, got)
		require.Equal(t, wanted.Error(), err.Error())
	})
}

// TestRedigoGetsOneAnswerAtATime: the bytes behind that answer are left to Receive.
func TestRedigoGetsOneAnswerAtATime(t *testing.T) {
	c := New(&wire{in: []byte("+OK\r\n:1\r\n*1\r\n:2\r\n"), chunk: 1 << 20})
	p := make([]byte, 100)
	for _, want := range []string{"+OK\r\n", ":1\r\n", "*1\r\n:2\r\n"} {
		n, err := c.Read(p)
		require.NoError(t, err)
		require.Equal(t, want, string(p[:n]))
	}
	_, err := c.Read(p)
	require.ErrorIs(t, err, net.ErrClosed)
}

// TestAnAnswerOfIntegersNeedsNoMemory of its own.
func TestAnAnswerOfIntegersNeedsNoMemory(t *testing.T) {
	const n = 1000
	c := New(&wire{in: bytes.Repeat([]byte(":1\r\n*2\r\n:1\r\n:1234567890123\r\n"), 2*n), chunk: 1 << 20})
	conn := Over(c)
	read := func() {
		for range 2 {
			if _, err := ReceiveReply(conn, c); err != nil {
				panic(err)
			}
		}
	}
	read()
	require.Zero(t, testing.AllocsPerRun(n, read))
}

// TestADeadlineOfRedigosIsNotThatOfReceive: redigo's deadline counts for one answer, which redigo reads.
func TestADeadlineOfRedigosIsNotThatOfReceive(t *testing.T) {
	a, b := net.Pipe()
	defer b.Close()
	c := New(a)
	conn := Over(c)
	defer conn.Close()
	done := make(chan error, 1)
	go func() {
		_, err := b.Write([]byte("+OK\r\n"))
		done <- err
	}()
	_, err := Receive(conn, time.Minute)
	require.NoError(t, err)
	require.NoError(t, <-done)
	require.NoError(t, c.SetReadDeadline(time.Now().Add(-time.Second)))
	go func() {
		_, err := b.Write([]byte(":7\r\n"))
		done <- err
	}()
	r, err := ReceiveReply(conn, c)
	require.NoError(t, err)
	n, _ := r.Number()
	require.EqualValues(t, 7, n)
	require.NoError(t, <-done)
}
