package script_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

// acquireOn tries to take x, which another owner has. It returns the third value of the
// answer, 0 if there is none. debts are fields of earlier attempts.
func acquireOn(t testing.TB, conn redis.Conn, debts ...any) int64 {
	args := append([]any{script.Acquire.Text(), 1, "x", "c:1:1", 1000, 1, 0, 0}, debts...)
	reply, err := redis.Int64s(conn.Do("EVAL", append(args, 0)...))
	require.NoError(t, err)
	require.Zero(t, reply[0])
	if len(reply) == 2 {
		return 0
	}
	return reply[2]
}

func TestARefusalSaysWhoseTheFieldIs(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	const id = "8743c9c0-0795-4907-87fd-6c719a6b4586"
	for name, c := range map[string]struct {
		fields []any
		owed   []any
		want   int64
	}{
		"Redisson's":                      {[]any{id + ":57"}, nil, 2},
		"Redisson's with another id":      {[]any{"java:1"}, nil, 2},
		"of one of its async calls":       {[]any{id + ":-57"}, nil, 2},
		"ours":                            {[]any{id + ":1:2"}, nil, 0},
		"of a named owner":                {[]any{id + ":worker:2"}, nil, 0},
		"of one with colons":              {[]any{id + ":a:7:2"}, nil, 0},
		"of one without a name":           {[]any{id + "::2"}, nil, 0},
		"a writer's":                      {[]any{id + ":1:2:write"}, nil, 0},
		"Redisson's writer's":             {[]any{id + ":57:write"}, nil, 0},
		"a mode":                          {[]any{"mode"}, nil, 0},
		"no thread":                       {[]any{id + ":"}, nil, 0},
		"no id":                           {[]any{":57"}, nil, 0},
		"a thread that is no number":      {[]any{id + ":5x"}, nil, 0},
		"two of Redisson":                 {[]any{id + ":57", id + ":58"}, nil, 0},
		"Redisson's and one that is owed": {[]any{id + ":57", "c:1:9"}, []any{"c:1:9"}, 2},
	} {
		fixture.DoOn(t, conn, "DEL", "x")
		for _, f := range c.fields {
			fixture.DoOn(t, conn, "HSET", "x", f, 1)
		}
		fixture.DoOn(t, conn, "PEXPIRE", "x", 1000)
		require.Equal(t, c.want, acquireOn(t, conn, c.owed...), name)
	}
	fixture.DoOn(t, conn, "SET", "x", id+":57", "PX", 1000)
	require.Equal(t, int64(1), acquireOn(t, conn), "a string is another library's")
	for _, put := range [][]any{{"RPUSH", "x", id + ":57"}, {"ZADD", "x", 1, id + ":57"}, {"SADD", "x", id + ":57"}} {
		fixture.DoOn(t, conn, "DEL", "x")
		fixture.DoOn(t, conn, put[0].(string), put[1:]...)
		_, err := conn.Do("EVAL", script.Acquire.Text(), 1, "x", "c:1:1", 1000, 1, 0, 0, 0)
		require.ErrorContains(t, err, "WRONGTYPE", put[0])
	}
}

// TestWithoutTheRightToReadTheFieldNobodyIsAStranger: the answer says only that the lock is held.
func TestWithoutTheRightToReadTheFieldNobodyIsAStranger(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	fixture.DoOn(t, conn, "HSET", "x", "java:1", 1)
	fixture.DoOn(t, conn, "PEXPIRE", "x", 1000)
	text := strings.ReplaceAll(script.Acquire.Text(), "'hgetall'", "'hgetall0'")
	reply, err := redis.Int64s(conn.Do("EVAL", text, 1, "x", "c:1:1", 1000, 1, 0, 0, 0))
	require.NoError(t, err)
	require.Len(t, reply, 2)
}

// FuzzFieldOfAStranger compares the script with an expression, for any field.
func FuzzFieldOfAStranger(f *testing.F) {
	for _, field := range []string{"java:1", "c:1:1", "9EZ-2paxEfOSyzhd@api-7f9c5d9b4d-x2k4j:1:1", "9EZ-2paxEfOSyzhd@api-7f9c5d9b4d-x2k4j:1", "mode", "", ":", "a:", ":1", "a:1 ", "a\n:1", "a:1\n", "a:\x00", "\xff:1", "a:b:1", "12:3", "aaaaaaaaaaaa1", "%d:1", "a:１"} {
		f.Add(field)
	}
	form := regexp.MustCompile(`\A(?s:[^:])+:[0-9]+\z`)
	conn := fixture.Dial(f, fixture.Server(f))
	f.Fuzz(func(t *testing.T, field string) {
		if field == "c:1:1" { // the one that is taken
			return
		}
		fixture.DoOn(t, conn, "DEL", "x")
		fixture.DoOn(t, conn, "HSET", "x", field, 1)
		fixture.DoOn(t, conn, "PEXPIRE", "x", 1000)
		want := int64(0)
		if matched := matches(form, field); matched {
			want = 2
		}
		require.Equal(t, want, acquireOn(t, conn), fmt.Sprintf("%q", field))
	})
}

// matches looks at bytes, as Lua does.
func matches(form *regexp.Regexp, field string) bool {
	latin := make([]rune, len(field))
	for i := range len(field) {
		latin[i] = rune(field[i])
	}
	return form.MatchString(string(latin))
}
