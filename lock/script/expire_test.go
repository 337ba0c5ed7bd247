package script_test

import (
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// older precedes a script that is to run as on Redis 5 and 6 with lua-replicate-commands no. After
// TIME such a server refuses writes, unless the script has said before that its effects are
// replicated.
const older = `
local real, effects, asked = redis, false, false
local redis = setmetatable({}, {__index = real})
redis.replicate_commands = function()
  effects = not asked
  return effects
end
local random = {time = true, pttl = true, hrandfield = true, hscan = true, hgetall = true}
redis.pcall = function(command, ...)
  asked = asked or random[command]
  return real.pcall(command, ...)
end
local reads = {exists = true, get = true, hget = true, hexists = true, hlen = true}
redis.call = function(command, ...)
  if asked and not effects and not reads[command] and not random[command] then
    error('Write commands not allowed after non deterministic commands')
  end
  asked = asked or random[command]
  return real.call(command, ...)
end
`

// newer removes replicate_commands, which Redis 7 calls deprecated.
const newer = `
local redis = setmetatable({replicate_commands = false}, {__index = redis})
`

const write = `
return redis.call('set', KEYS[1], ARGV[1])`

func TestAScriptMayWriteThoughItAskedForTheTime(t *testing.T) {
	s := fixture.RedisOrMini(t)
	limit := time.Now().Add(time.Hour).UnixMilli()
	for name, before := range map[string]string{"as it is": "", "older": older, "newer": newer} {
		reply, err := redis.String(fixture.Do(t, s, "EVAL", before+script.ExpireText+write, 1, name, "v", limit), nil)
		require.NoError(t, err, name)
		require.Equal(t, "OK", reply, name)
		require.Equal(t, []byte("v"), fixture.Do(t, s, "GET", name))
	}
	// older does refuse a write after TIME.
	conn := fixture.Dial(t, s)
	_, err := conn.Do("EVAL", older+"redis.pcall('time')"+write, 1, "k", "v")
	require.ErrorContains(t, err, "not allowed after non deterministic")
}
