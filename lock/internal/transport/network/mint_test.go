package network_test

import (
	"context"
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/network"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
)

// scripted is a Sender that gives one answer after the other.
type scripted struct {
	answers []pipe.Answer
	sent    []string // the names of the scripts, each with its number of keys
	keys    []string
}

func (s *scripted) Send(_ context.Context, key string, call wire.Call, _ func(pipe.Answer)) pipe.Answer {
	s.sent = append(s.sent, call.Script.Name()+" "+string(rune('0'+call.Keys)))
	s.keys = append(s.keys, key)
	a := s.answers[0]
	s.answers = s.answers[1:]
	return a
}

func (s *scripted) Post(string, wire.Call, func(pipe.Answer)) { panic("nothing is posted") }

func TestALockIsTakenWithoutItsTokenWhileItsSlotMoves(t *testing.T) {
	pair := func(a, b int64) pipe.Answer { return pipe.Answer{Reply: resp.ReplyOf([]any{a, b})} }
	again := pipe.Answer{Err: redis.Error("TRYAGAIN Multiple keys request during rehashing of slot")}
	no := errors.New("no")
	for name, test := range map[string]struct {
		answers []pipe.Answer
		reply   any
		err     string
		sent    []string
	}{
		"taken at once":       {[]pipe.Answer{pair(1, 7)}, []any{int64(1), int64(7)}, "", []string{"acquire 2"}},
		"refused":             {[]pipe.Answer{pair(0, 500)}, []any{int64(0), int64(500)}, "", []string{"acquire 2"}},
		"unanswered":          {[]pipe.Answer{{Err: no}}, nil, "no", []string{"acquire 2"}},
		"minted afterwards":   {[]pipe.Answer{again, pair(1, 0), {Reply: resp.ReplyOf(int64(9))}}, []any{int64(1), int64(9)}, "", []string{"acquire 2", "acquire 1", "token 1"}},
		"refused, then":       {[]pipe.Answer{again, pair(0, 500)}, []any{int64(0), int64(500)}, "", []string{"acquire 2", "acquire 1"}},
		"unanswered, then":    {[]pipe.Answer{again, {Err: no}}, nil, "no", []string{"acquire 2", "acquire 1"}},
		"the counter is gone": {[]pipe.Answer{again, pair(1, 0), {Err: no}}, []any{int64(1), int64(0)}, "minting the token: no", []string{"acquire 2", "acquire 1", "token 1"}},
		"it is refused": {
			[]pipe.Answer{again, pair(1, 0), {Err: redis.Error("ERR x")}},
			[]any{int64(1), int64(0)},
			"minting the token: ERR x",
			[]string{"acquire 2", "acquire 1", "token 1"},
		},
		"it is no number": {
			[]pipe.Answer{again, pair(1, 0), {Reply: resp.ReplyOf("OK")}},
			[]any{int64(1), int64(0)},
			"minting the token: the answer is no number",
			[]string{"acquire 2", "acquire 1", "token 1"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &scripted{answers: test.answers}
			a := network.Mint(t.Context(), s, "m", wire.Acquire{Name: "m", Counter: "c", Field: []byte("f"), Least: 5}.Call(), nil)
			require.Equal(t, test.reply, a.Reply.Any())
			require.Equal(t, test.sent, s.sent)
			if len(s.keys) == 3 {
				require.Equal(t, []string{"m", "m", "c"}, s.keys)
			}
			if test.err == "" {
				require.NoError(t, a.Err)
				return
			}
			require.EqualError(t, a.Err, test.err)
			var reply redis.Error
			require.False(t, errors.As(a.Err, &reply), "it would read as a refusal of the lock")
		})
	}
}
