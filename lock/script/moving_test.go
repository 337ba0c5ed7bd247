package script_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// moving precedes a script that is to run while the slot of its keys moves to another server of a
// Cluster, key by key. Redis carries such a script out as long as all its KEYS are here. If the script
// deletes one of them, it cannot use that key any more, not even to make it again.
const moving = `
local real, were = redis, {}
local redis = setmetatable({}, {__index = real})
for _, key in ipairs(KEYS) do
  were[key] = true
end
local keyless = {publish = true, time = true}
redis.pcall = function(command, key, ...)
  if keyless[string.lower(command)] then
    return real.pcall(command, key, ...)
  end
  local there = real.call('exists', key) == 1
  if were[key] and not there then
    return {err = 'ERR Script attempted to access a non local key in a cluster node'}
  end
  were[key] = were[key] or there
  return real.pcall(command, key, ...)
end
redis.call = function(...)
  local answer = redis.pcall(...)
  if type(answer) == 'table' and answer.err then
    error(answer.err)
  end
  return answer
end
`

// TestNoScriptUsesAKeyThatItHasDeleted: while a slot moves, its answer and its effects are the same as
// elsewhere.
func TestNoScriptUsesAKeyThatItHasDeleted(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	const held = `redis.call('hset', name, 'o:1', '1') redis.call('pexpire', name, 1000000) `
	place := func(i int) any { return fmt.Sprint("j:", i+1) }
	fairRelease := func(what, fill string, more ...any) cost {
		return cost{
			script: script.FairRelease, there: what, fill: held + fill, keys: fairKeys,
			args: append([]any{"o:1", "channel", now, 58_000, "publish"}, more...),
		}
	}
	const noPlace = ` redis.call('del', KEYS[2]) redis.call('rpush', KEYS[2], 'j:1')`
	all := append(costs(),
		fairRelease("all waiters leave", queueOurs, names(20, place)...),
		fairRelease("all but one leave", queueOurs, names(19, place)...),
		fairRelease("all leave, and some had no place", queueOurs+noPlace, names(5, place)...),
		fairRelease("all leave, and most had no place", queueOurs+noPlace, names(20, place)...),
		fairRelease("all are swept", queueSwept+` redis.call('hset', KEYS[4], 'other', '1@1 a')`),
		fairRelease("all are swept, and most had no score", queueSwept+` redis.call('del', KEYS[3]) redis.call('zadd', KEYS[3], 1, 'j:1') redis.call('hset', KEYS[4], 'other', '1@1 a')`),
		fairRelease("the only waiter leaves", `redis.call('rpush', KEYS[2], 'j:1') redis.call('zadd', KEYS[3], 5, 'j:1') redis.call('hset', KEYS[4], 'j:1', '1@5 a') `, "j:1", "j:2"),
		cost{script: script.Force, there: "more than are there", fill: fillHash, keys: []string{costly}, args: append([]any{"channel", "publish"}, names(25, field)...)},
		cost{script: script.FairForce, there: "more than are there", fill: fillHash + queueOurs, keys: fairKeys, args: append([]any{"channel", "publish"}, names(25, field)...)},
		cost{script: script.RwForce, there: "more than are there", fill: fillDead + ` redis.call('hset', KEYS[2], 'w', '1')`, keys: []string{costly, keys.RWWriters(costly)}, args: append([]any{"channel", "publish", keys.Prefix(costly)}, names(25, field)...)},
		cost{script: script.LatchDown, there: "the last count", fill: `redis.call('set', name, 1) redis.call('set', 'result', '0') redis.call('del', 'result')`, keys: []string{costly, "result"}, args: []any{"channel", 1000}},
		cost{script: script.Release, there: "the last hold", fill: held, keys: []string{costly}, args: []any{"o:1", "channel", "publish", "o:2"}},
		cost{script: script.Handoff, there: "the last hold", fill: held, keys: []string{costly, keys.Counter}, args: []any{"o:1", "c:1:1", 1000, 1, 0, "channel", 5, "publish", 5, "1"}},
	)
	for _, c := range all {
		if c.perKey || c.script == script.PermitTake && c.there == "expired permits" {
			continue // it names no KEYS, and TestAPermitTakeTellsOfFreePermits
		}
		c.hidesTime = c.script.Expires()
		t.Run(c.script.Name()+" "+c.there, func(t *testing.T) {
			want, wantKeys, there := c.effects(t, conn, "")
			if !there {
				return // the server would send the client to the other one
			}
			got, gotKeys, _ := c.effects(t, conn, moving)
			require.Equal(t, want, got)
			require.Equal(t, wantKeys, gotKeys)
		})
	}
	_, err := conn.Do("EVAL", moving+"redis.call('del', KEYS[1]) redis.call('set', KEYS[1], '1')", 1, "k")
	require.ErrorContains(t, err, "non local key")
}

// TestAPermitTakeTellsOfFreePermits: while a slot moves, it gives back permits that have expired. With
// them their key goes, so it cannot take one, and others must hear of the permits.
func TestAPermitTakeTellsOfFreePermits(t *testing.T) {
	server := fixture.Server(t)
	conn, ears := fixture.Dial(t, server), redis.PubSubConn{Conn: fixture.Dial(t, server)}
	require.NoError(t, ears.Subscribe("channel"))
	ears.Receive()
	taken := keys.PermitsTaken(costly)
	for _, owed := range [][]any{nil, {"aaaaaaaaaaab2"}, {"aaaaaaaaaaab1", "aaaaaaaaaaab2"}, {"aaaaaaaaaaab2", "aaaaaaaaaaab2"}} {
		fixture.DoOn(t, conn, "SET", costly, 5)
		deadline := 1
		if owed != nil {
			deadline = now + 1000
		}
		fixture.DoOn(t, conn, "ZADD", taken, deadline, "aaaaaaaaaaab\x00\x00\x00\x01", deadline, "aaaaaaaaaaab\x00\x00\x00\x02")
		text := moving + byClientsClock(script.PermitTake)
		args := append([]any{text, 2, costly, taken, "aaaaaaaaaaaa", 3, 0, now + 1000, now, "channel", "publish"}, owed...)
		_, err := conn.Do("EVAL", append(args, 0)...)
		require.ErrorContains(t, err, "non local key")
		require.Equal(t, "7", string(fixture.DoOn(t, conn, "GET", costly).([]byte)))
		require.Equal(t, redis.Message{Channel: "channel", Data: []byte("7")}, ears.ReceiveWithTimeout(time.Minute))
	}
}

// names returns the first n of what per makes.
func names(n int, per func(int) any) (all []any) {
	for i := range n {
		all = append(all, per(i))
	}
	return slices.Clip(all)
}
