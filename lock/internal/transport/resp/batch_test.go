package resp

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/script"
)

// said is an argument that chooses its text when it is written.
type said struct{ text *string }

func (s said) RedisArg() any { return *s.text }

func TestArgumentsAreWrittenAsRedigoDoes(t *testing.T) {
	later := "PUBLISH"
	values := []any{
		"", "m", "a\r\nb$3\r\n", []byte{0, 255}, 7, int64(-9), int64(math.MinInt64), 1.5, float32(0.1), 1e300, true, false, nil, fmt.Errorf("x"), said{&later}, strings.Repeat("y", 5000),
	}
	a := ArgsOf().AddAny(values...)
	require.Equal(t, len(values), a.Len())
	for _, first := range []string{"PUBLISH", "SPUBLISH", ""} {
		later = first
		require.Equal(t, writtenByRedigo(t, "EVALSHA", append([]any{script.Release.SHA(), 2}, values...)), writtenBy(t, a))
	}
}

// writtenByRedigo returns what redigo writes of a command.
func writtenByRedigo(t require.TestingT, command string, all []any) string {
	var w written
	conn := redis.NewConn(&w, 0, 0)
	require.NoError(t, conn.Send(command, all...))
	require.NoError(t, conn.Flush())
	return w.String()
}

// writtenBy returns what a Batch writes of release with two keys.
func writtenBy(t require.TestingT, list Args) string {
	var w, foreign written
	b := NewBatch(Over(New(&w)))
	require.NoError(t, b.Script(script.Release, false, 2, list, 0))
	require.NoError(t, b.Flush())
	b = NewBatch(redis.NewConn(&foreign, 0, 0))
	require.NoError(t, b.Script(script.Release, false, 2, list, 0))
	require.NoError(t, b.Flush())
	require.Equal(t, foreign.String(), w.String(), "over redigo and below it")
	return w.String()
}

// written is a connection that keeps the bytes that are written.
type written struct {
	net.Conn
	bytes.Buffer
}

func (w *written) Read(p []byte) (int, error)  { return w.Buffer.Read(p) }
func (w *written) Write(p []byte) (int, error) { return w.Buffer.Write(p) }

// TestWhatABatchWritesBoundsItsAnswers: a request of a Batch raises the limits as the same request of
// redigo does, and its answers are counted in the same way.
func TestWhatABatchWritesBoundsItsAnswers(t *testing.T) {
	long := strings.Repeat("z", 3000)
	for name, send := range map[string]func(b *Batch, conn redis.Conn) (error, error){
		"a script": func(b *Batch, conn redis.Conn) (error, error) {
			return b.Script(script.Release, false, 5, ArgsOf("a", "b", "c", "d", "e", long), 0), conn.Send("EVALSHA", script.Release.SHA(), 5, "a", "b", "c", "d", "e", long)
		},
		"a large one": func(b *Batch, conn redis.Conn) (error, error) {
			return b.Script(script.Inspect, false, 1, ArgsOf("a"), 0), conn.Send("EVALSHA", script.Inspect.SHA(), 1, "a")
		},
		"a text": func(b *Batch, conn redis.Conn) (error, error) {
			return b.Script(script.Release, true, 1, ArgsOf("a"), 0), conn.Send("EVAL", script.Release.Text(), 1, "a")
		},
		"with a limit": func(b *Batch, conn redis.Conn) (error, error) {
			return b.Script(script.Acquire, false, 1, ArgsOf("a"), 7), conn.Send("EVALSHA", script.Acquire.SHA(), 1, "a", 7)
		},
		"a command": func(b *Batch, conn redis.Conn) (error, error) {
			return b.Command("WAIT", "2", "100"), conn.Send("WAIT", 2, 100)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var ours, foreign, redigos written
			below, other := New(&ours), New(&redigos)
			b, over, conn := NewBatch(Over(below)), NewBatch(redis.NewConn(&foreign, 0, 0)), Over(other)
			for range 2 {
				err1, err2 := send(b, conn)
				require.NoError(t, err1)
				require.NoError(t, err2)
				err1, _ = send(over, redis.NewConn(&written{}, 0, 0))
				require.NoError(t, err1)
			}
			require.NoError(t, b.Flush())
			require.NoError(t, over.Flush())
			require.NoError(t, conn.Flush())
			require.Equal(t, redigos.String(), ours.String())
			require.Equal(t, redigos.String(), foreign.String(), "a Batch over a connection that is not bounded")
			require.Equal(t, other.requests.sentCount, below.requests.sentCount)
			for answer := range uint64(4) {
				require.GreaterOrEqual(t, below.requests.bounds(answer).elements, other.requests.bounds(answer).elements)
				require.Less(t, below.requests.bounds(answer).elements, other.requests.bounds(answer).elements+100)
				require.GreaterOrEqual(t, below.requests.bounds(answer).bytes, other.requests.bounds(answer).bytes)
			}
		})
	}
}

// TestABatchKeepsLittle: scripts that were sent as text do not stay in memory.
func TestABatchKeepsLittle(t *testing.T) {
	var w written
	b := NewBatch(Over(New(&w)))
	for range 100 {
		require.NoError(t, b.Script(script.Acquire, true, 1, ArgsOf("a"), 0))
	}
	require.NoError(t, b.Flush())
	require.LessOrEqual(t, cap(b.text), keptBatch)
	require.NoError(t, b.Script(script.Acquire, false, 1, ArgsOf("a"), 0))
	require.NoError(t, b.Flush())
	require.NotZero(t, cap(b.text))
}

// TestABatchOverRedigoKeepsLittle: neither the memory of its longest call nor texts of its last one.
func TestABatchOverRedigoKeepsLittle(t *testing.T) {
	b := NewBatch(redis.NewConn(&written{}, 0, 0))
	send := func(n, length int) {
		list := ArgsOf()
		for range n {
			list = list.AddString(strings.Repeat("z", length))
		}
		require.NoError(t, b.Script(script.Release, false, 1, list, 0))
		require.NoError(t, b.Flush())
	}
	for _, length := range []int{20, maxBoxed + 1} {
		send(10*keptBoxes, length)
		kept := 0
		for _, l := range b.boxes.byLen {
			kept += cap(l.all)
		}
		require.Less(t, kept, 2*keptBoxes)
		require.Less(t, cap(b.args), 2*keptBoxes)
		send(10, length)
		for _, arg := range b.args[:cap(b.args)] {
			require.Nil(t, arg)
		}
	}
	require.NotZero(t, cap(b.args), "what a short call needs is kept")
	send(10, 20)
	require.Len(t, b.boxes.byLen[20].all, 10)
}

// TestADeadlineOfRedigosWritesIsNotThatOfOthers: redigo sets a deadline for each of its writes and does
// not remove it, so a Batch must.
func TestADeadlineOfRedigosWritesIsNotThatOfOthers(t *testing.T) {
	conn, err := Dialer{NetDial: (&net.Dialer{}).DialContext}.Dial(t.Context(), "tcp", server(t, false, "+PONG\r\n", ":1\r\n"), Login{}, redis.DialWriteTimeout(20*time.Millisecond))
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("PING")
	require.NoError(t, err)
	time.Sleep(30 * time.Millisecond)
	b := NewBatch(conn)
	require.NoError(t, b.Script(script.Release, false, 1, ArgsOf("m"), 0))
	require.NoError(t, b.Flush())
	answer, err := redis.Int(Receive(conn, 0))
	require.NoError(t, err)
	require.Equal(t, 1, answer)
}
