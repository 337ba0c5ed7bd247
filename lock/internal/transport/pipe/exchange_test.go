package pipe

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// stepped is a connection without a socket. It keeps what is sent, and the test gives its answers.
type stepped struct {
	redis.Conn // nil: nothing else of it is called
	sent       []string
	says       []any // an error is an error reply, or the end of the connection
}

func (c *stepped) Send(command string, args ...any) error {
	c.sent = append(c.sent, command)
	return nil
}

func (c *stepped) Flush() error { return nil }

func (c *stepped) DoWithTimeout(time.Duration, string, ...any) (any, error) { panic("not used") }

func (c *stepped) ReceiveWithTimeout(time.Duration) (any, error) {
	v := c.says[0]
	c.says = c.says[1:]
	if err, ok := v.(error); ok {
		return nil, err
	}
	return v, nil
}

// TestAnExchangeInEveryOrder: requests are written and answered one after the other, with questions of
// the connection between them. Whatever is answered, each answer belongs to the oldest request without
// one, and has the verdict that is written in the table of the package's document.
func TestAnExchangeInEveryOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const timeout = time.Second
		now := time.Now()
		conn := &stepped{}
		var redirected []*Request
		proved, timed, answered := 0, 0, 0
		cfg := &Config{
			Timeout: timeout, Epoch: func() uint32 { return 0 }, CheckMasterEvery: time.Minute, Dials: func() uint32 { return 1 },
			Answered: func() { answered++ }, MasterSeen: func(time.Time) { proved++ }, Timed: func(Clock, time.Duration) { timed++ },
			Redirect: func(r *Request, _ Redirection) { redirected = append(redirected, r) },
		}
		x := NewExchange(cfg, Connection{Conn: conn})
		x.clock.NoteQuestionSent(now)
		question := "TIME"
		if rapid.Bool().Draw(t, "a script asks for the time") {
			question = "EVAL"
			x.clock.AskByScript(now)
		}
		x.clock.Sample(now, now, now, 0)
		var requests Requests
		var inflight []any  // requests, and the answers to questions before them
		var free []*Request // answered, so they can be used again
		dead := false
		next := 0
		write := func(batch ...*Request) {
			conn.sent = nil
			all := x.registerLocked(batch, now)
			require.NoError(t, x.send(all))
			var want []string
			for _, q := range all[:len(all)-len(batch)] {
				if q.question == masterQuestion {
					want = append(want, "HDEL")
					inflight = append(inflight, int64(0))
				} else {
					want = append(want, question)
					inflight = append(inflight, []any{[]byte(fmt.Sprint(now.Unix())), []byte(fmt.Sprint(now.Nanosecond() / 1000))})
				}
			}
			for _, r := range batch {
				if r.needsAsking {
					want = append(want, "ASKING")
				}
				if r.asText {
					want = append(want, "EVAL")
				} else {
					want = append(want, "EVALSHA")
				}
				require.Equal(t, now, r.answer.Stamp)
				inflight = append(inflight, r)
			}
			require.Equal(t, want, conn.sent)
		}
		t.Repeat(map[string]func(*rapid.T){
			"write": func(t *rapid.T) {
				if dead {
					t.Skip("the connection has ended")
				}
				var batch []*Request
				for range rapid.IntRange(1, 3).Draw(t, "requests") {
					next++
					if len(free) > 0 && rapid.Bool().Draw(t, "uses a request again") {
						r := free[len(free)-1]
						free = free[:len(free)-1]
						*r = Request{args: r.args, askingAnswered: r.askingAnswered}
						r.Set(script.Renew, false, rapid.Bool().Draw(t, "asking"), 1, r.Emptied().AddString(fmt.Sprint(next)))
						batch = append(batch, r)
						continue
					}
					batch = append(batch, requests.New(fmt.Sprint(next), script.Acquire, 1, nil, resp.ArgsOf(fmt.Sprint(next))))
				}
				write(batch...)
			},
			"time passes": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(1, 70).Draw(t, "seconds")) * time.Second)
			},
			"answer": func(t *rapid.T) {
				if dead || len(inflight) == 0 {
					t.Skip("nothing is in flight")
				}
				first := slices.IndexFunc(inflight, isRequest)
				conn.says = slices.Clone(inflight[:first])
				want := inflight[first].(*Request)
				inflight = inflight[first+1:]
				says := rapid.SampledFrom([]string{"yes", "yes", "yes", "no", "NOSCRIPT", "LATE", "MOVED", "ASK", "READONLY", "TRYAGAIN", "WRONGTYPE", "end"}).Draw(t, "says")
				v, verdict := answerOf(says, now, want)
				if want.needsAsking {
					conn.says = append(conn.says, "OK")
				}
				conn.says = append(conn.says, v)
				asked := len(redirected)
				r, reply, refusal, err := x.Next()
				require.Empty(t, conn.says, "the questions before it are answered too")
				if says == "end" {
					require.ErrorIs(t, err, errEnd)
					dead = true
					inflight = append([]any{want}, inflight...)
					return
				}
				require.NoError(t, err)
				require.Same(t, want, r)
				require.Equal(t, verdict == Elsewhere && refusal != nil, x.judge(r, refusal) == Elsewhere)
				switch says {
				case "yes", "no":
					require.NoError(t, refusal)
					require.Equal(t, v, reply.Any())
				default:
					require.Equal(t, v, refusal)
				}
				switch verdict {
				case AsText:
					require.True(t, r.asText)
					write(r)
				case Late:
					require.Zero(t, r.answer.Stamp)
					write(r)
				case Elsewhere:
					require.Len(t, redirected, asked+1)
					require.Same(t, r, redirected[asked])
					require.Equal(t, says == "ASK", r.needsAsking)
					write(r) // as if it came back
				default:
					require.Len(t, redirected, asked)
					free = append(free, r)
				}
			},
		})
		require.LessOrEqual(t, answered, 1, "it is said once for a connection")
		answeredMemory := x.inflight.list[:x.inflight.answered]
		var left, wantLeft []any
		for _, r := range x.inflight.waiting() {
			if r.question == noQuestion {
				left = append(left, r)
			}
		}
		x.inflight = flight{}
		for _, r := range inflight {
			if isRequest(r) {
				wantLeft = append(wantLeft, r)
			}
		}
		require.Equal(t, wantLeft, left)
		for _, r := range answeredMemory {
			require.Nil(t, r, "an answered request stays in memory")
		}
		conn.says = []any{int64(1)}
		_, _, _, err := x.Next()
		require.ErrorContains(t, err, "unexpected answer", "nothing is in flight")
	})
}

func isRequest(v any) bool {
	_, is := v.(*Request)
	return is
}

var errEnd = errors.New("the end")

// answerOf returns an answer to r, and what follows from it.
func answerOf(says string, now time.Time, r *Request) (any, Verdict) {
	switch says {
	case "yes":
		return int64(1), Final
	case "no":
		return []any{int64(0), int64(7)}, Final
	case "end":
		return errEnd, Broken
	case "NOSCRIPT":
		if r.asText {
			return redis.Error("NOSCRIPT none"), Final
		}
		return redis.Error("NOSCRIPT none"), AsText
	case "LATE":
		v := redis.Error(fmt.Sprint("LATE ", now.UnixMilli()))
		if r.lates == MaxLates {
			return v, Final
		}
		return v, Late
	case "MOVED", "ASK":
		v := redis.Error(says + " 7 10.0.0.1:6379")
		if r.hops == maxHops || says == "ASK" && r.script.Concludes() {
			return v, Final
		}
		return v, Elsewhere
	case "READONLY":
		return redis.Error("READONLY a replica"), Demoted
	case "TRYAGAIN":
		return redis.Error("TRYAGAIN later"), Parted
	}
	return redis.Error(strings.ToUpper(says) + " of it"), Final
}
