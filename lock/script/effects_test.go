package script_test

import (
	"regexp"
	"slices"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

// strict precedes a script that is to run as on Redis 5 and 6 with lua-replicate-commands no. After
// a command whose answer may differ on a replica, such a server refuses writes, unless the script
// has said before its first write that its effects are replicated.
const strict = `
local real, effects, asked, wrote = redis, false, false, false
local redis = setmetatable({}, {__index = real})
redis.replicate_commands = function()
  effects = effects or not wrote
  return effects
end
local random, writes = {}, {}
for word in string.gmatch('time pttl hgetall hrandfield hscan info', '%a+') do random[word] = true end
for word in string.gmatch('set getset del hset hdel pexpire persist incrby decrby decr rpush lpop lrem linsert zadd zrem', '%a+') do writes[word] = true end
local function may(command)
  if writes[command] and asked and not effects then
    return {err = 'Write commands not allowed after non deterministic commands'}
  end
  asked, wrote = asked or random[command], wrote or writes[command]
end
redis.pcall = function(command, ...)
  return may(command) or real.pcall(command, ...)
end
redis.call = function(command, ...)
  local never = may(command)
  if never then
    error(never.err)
  end
  return real.call(command, ...)
end
`

// TestScriptsWorkWhereScriptsAreReplicated calls every script among some holders and waiters, as
// Redis 5 and 6 do with lua-replicate-commands no, with a time limit and without. The answers and
// effects are the same as elsewhere.
func TestScriptsWorkWhereScriptsAreReplicated(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	for _, c := range costs() {
		if c.perKey {
			continue
		}
		for _, limit := range []int64{0, 1 << 50} {
			c.notAfter = limit
			want, wantKeys, _ := c.effects(t, conn, "")
			got, gotKeys, _ := c.effects(t, conn, strict)
			require.Equal(t, want, got, "%s %s, limit %d", c.script.Name(), c.there, limit)
			require.Equal(t, wantKeys, gotKeys, "%s %s, limit %d", c.script.Name(), c.there, limit)
		}
	}
	conn2 := fixture.Dial(t, fixture.Server(t))
	_, err := conn2.Do("EVAL", strict+"redis.call('hgetall', 'k') redis.call('set', 'k', '1')", 0)
	require.ErrorContains(t, err, "not allowed after non deterministic")
	_, err = conn2.Do("EVAL", append([]any{strict + script.Check.Text(), 1, "k"}, 10000, 2, "hgetall", "k", 0)...)
	require.NoError(t, err)
}

// effects runs the script among 20 others, behind the Lua text before. It returns the answer, which
// keys are there after it, and whether all KEYS were there before it.
func (c cost) effects(t *testing.T, conn redis.Conn, before string) (reply, left any, there bool) {
	t.Helper()
	fixture.DoOn(t, conn, "FLUSHALL")
	args, names := slices.Clone(c.args), []any{}
	for _, name := range c.keys {
		names = append(names, name)
	}
	for i := range 20 {
		if c.per != nil && !c.perKey {
			args = append(args, c.per(i))
		}
	}
	if c.script.Expires() {
		args = append(args, c.notAfter)
	}
	eval := func(text string, args ...any) any {
		t.Helper()
		return fixture.DoOn(t, conn, "EVAL", append(append([]any{text, len(names)}, names...), args...)...)
	}
	eval("local name, n = 'x', tonumber(ARGV[1]) "+c.fill, 20)
	there = eval("return redis.call('exists', unpack(KEYS))") == int64(len(names))
	text := c.script.Text()
	if c.hidesTime {
		text = byClientsClock(c.script)
	}
	reply = withoutTime(eval(before+text, args...))
	left = eval(`
local all = redis.call('keys', '*')
table.sort(all)
for i, key in ipairs(all) do
  all[i] = key .. ' ' .. redis.call('type', key).ok .. ' ' .. (redis.call('pttl', key) < 0 and 'no end' or 'an end')
end
return all`)
	return reply, left, there
}

// withoutTime replaces what the clock changes in an answer: what is left of a TTL of 1,000 s, and the time
// in a sign of life.
func withoutTime(answer any) any {
	switch answer := answer.(type) {
	case int64:
		if answer > 900_000 && answer <= 1_000_000 {
			return "a TTL"
		}
	case []byte:
		return signTime.ReplaceAllString(string(answer), "@now")
	case []any:
		for i := range answer {
			answer[i] = withoutTime(answer[i])
		}
	}
	return answer
}

var signTime = regexp.MustCompile(`@\d{13}`)
