package script_test

import (
	"testing"

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
		for _, limit := range []int64{0, 1 << 50} {
			run := func(before string) (any, any) {
				fixture.DoOn(t, conn, "FLUSHALL")
				args := append([]any{}, c.args...)
				names := append([]any{}, "x")[:0]
				for _, name := range c.keys {
					names = append(names, name)
				}
				for i := range 20 {
					if c.per != nil {
						if args = append(args, c.per(i)); c.perKey {
							return nil, nil
						}
					}
				}
				fixture.DoOn(t, conn, "EVAL", append(append([]any{"local name, n = 'x', tonumber(ARGV[1]) " + c.fill, len(names)}, names...), 20)...)
				if c.script.Expires() {
					args = append(args, limit)
				}
				reply, err := conn.Do("EVAL", append(append([]any{before + c.script.Text(), len(names)}, names...), args...)...)
				require.NoError(t, err, "%s %s, limit %d", c.script.Name(), c.there, limit)
				return reply, fixture.DoOn(t, conn, "EVAL", `
local all = redis.call('keys', '*')
table.sort(all)
for i, key in ipairs(all) do
  all[i] = key .. ' ' .. redis.call('type', key).ok .. ' ' .. (redis.call('pttl', key) < 0 and 'no end' or 'an end')
end
return all`, 0)
			}
			_, want := run("")
			_, got := run(strict)
			require.Equal(t, want, got, "%s %s, limit %d", c.script.Name(), c.there, limit)
		}
	}
	conn2 := fixture.Dial(t, fixture.Server(t))
	_, err := conn2.Do("EVAL", strict+"redis.call('hgetall', 'k') redis.call('set', 'k', '1')", 0)
	require.ErrorContains(t, err, "not allowed after non deterministic")
	_, err = conn2.Do("EVAL", append([]any{strict + script.Check.Text(), 1, "k"}, 10000, 2, "hgetall", "k", 0)...)
	require.NoError(t, err)
}
