package twin

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// keepText returns the arguments of RESTORE for all keys: {key, TTL, dump}.
const keepText = `
local out = {}
for _, key in ipairs(redis.call('keys', '*')) do
  out[#out + 1] = {key, math.max(redis.call('pttl', key), 0), redis.call('dump', key)}
end
return out`

var literal = regexp.MustCompile(`'([a-z]+)'`)

// commands returns the commands that a script may call.
func commands(s *script.Script) []string {
	known := map[string]bool{}
	for _, found := range literal.FindAllStringSubmatch(s.Text(), -1) {
		known[found[1]] = true
	}
	all := []string{}
	for _, c := range slices.Sorted(maps.Keys(known)) {
		if slices.Contains(redisCommands, c) {
			all = append(all, c)
		}
	}
	return all
}

// redisCommands are the commands of all scripts.
var redisCommands = strings.Fields(`decr decrby del exists get getset hdel hexists hget hgetall hlen hrandfield hscan hset
	incrby lindex linsert llen lpop lrange lrem persist pexpire pttl publish rpush set zadd zcard zcount zmscore zrange
	zrangebyscore zrem zscore`)

// limited returns, by command, the connection of a user who may call all other commands.
func limited(t *testing.T, s *redistest.Server) map[string]redis.Conn {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	all := map[string]redis.Conn{}
	for _, command := range redisCommands {
		fixture.Do(t, s, "ACL", "SETUSER", "no-"+command, "reset", "on", ">pw", "~*", "&*", "+@all", "-"+command)
		all[command] = fixture.Dial(t, s)
		fixture.DoOn(t, all[command], "AUTH", "no-"+command, "pw")
	}
	return all
}

// changedNothing reports whether a call at now has changed nothing between the two states. Some changes do not
// count: tokens that no caller gets, longer TTLs, the removal of fields that the caller owes, and that
// permits are free whose deadline has passed.
func changedNothing(c call, now int64, one, other []entry) bool {
	var given []string
	for i, arg := range c.args {
		switch {
		case i > 0 && c.script != script.PermitTake:
			given = append(given, arg)
		case i >= 7:
			given = append(given, idsOf(arg)...)
		}
	}
	owed := func(field string) bool {
		return slices.Contains(given, field) || field == "mode" && slices.ContainsFunc(given, ofWriter)
	}
	if c.script == script.FairTake {
		if !allHavePlaces(one) || !allHavePlaces(other) {
			return false
		}
		if c.args[5] != "" || c.args[12] != "0" {
			given = append(given, c.args[0]) // it may have the place of its earlier attempt, and gives it up when it leaves
		}
	}
	readable := func(all []entry) string {
		all = slices.Clone(all)
		if i := slices.IndexFunc(all, func(e entry) bool { return e.key == name && e.kind == text }); i >= 0 && c.script == script.PermitTake {
			// No permit is lost: each is free or taken.
			n, _ := strconv.Atoi(all[i].text)
			for _, e := range all {
				if e.kind == zset {
					n += len(e.pairs)
				}
			}
			all[i].text = strconv.Itoa(n)
		}
		for i := range all {
			e := &all[i]
			e.pairs = slices.DeleteFunc(slices.Clone(e.pairs), func(p pair) bool {
				return owed(p.name) || c.script == script.PermitTake && e.kind == zset && p.name != "" && p.score <= float64(now)
			})
			if i := e.find(append(c.args, "")[0]); i >= 0 && c.script.Acquires() {
				e.pairs[i].value = "" // a copy of its request sets the count of a hold, which stays
			}
			if e.end > 0 {
				e.end = 1
			}
		}
		own := append(c.args, "")[0]
		reads := slices.ContainsFunc(all, func(e entry) bool { return e.key == name && e.find(own) >= 0 })
		all = slices.DeleteFunc(all, func(e entry) bool {
			if e.key == keys.RWReader(name, own) && !reads {
				return true // a timeout without a field means nothing
			}
			for _, field := range given {
				if e.key == keys.RWReader(name, field) || e.key == keys.RWWriters(name) && ofWriter(field) {
					return true
				}
			}
			return e.key == keys.Polls(name) || e.key == keys.Counter || e.kind != text && !slices.ContainsFunc(e.pairs, func(p pair) bool { return p.name != "mode" })
		})
		return (&server{all}).String()
	}
	return readable(one) == readable(other)
}

func ofWriter(field string) bool { return strings.HasSuffix(field, ":write") }

// allHavePlaces reports whether all who wait for a fair lock have their place in all three keys.
func allHavePlaces(all []entry) bool {
	var of [3][]string
	for i, key := range fairKeys()[1:] {
		for _, e := range all {
			if e.key == key {
				for _, p := range e.pairs {
					of[i] = append(of[i], p.name)
				}
			}
		}
		slices.Sort(of[i])
	}
	return slices.Equal(of[0], of[1]) && slices.Equal(of[0], of[2])
}

// harmless says, by script and missing right, why it may do something else without that right.
var harmless = map[string]string{
	"handoff without pttl":      "who tries is not known, so the lock is handed over, or released",
	"fair_take without pexpire": "who may set no TTL stands nowhere; a hold that is there stays",
}

// keep returns a function that restores the present keys of the server.
func (r *both) keep() func() {
	kept, err := redis.Values(r.do("EVAL", keepText, 0), nil)
	require.NoError(r.t, err)
	return func() {
		r.do("FLUSHDB")
		for _, key := range kept {
			r.do("RESTORE", key.([]any)...)
		}
	}
}

// TestAMissingRightLeavesNothingHalfDone takes one right away from a script. The script then does all
// that it does with the right, or nothing. If it would take a lock and returns a refusal, it has done
// nothing, because no client releases a lock after a definite refusal.
func TestAMissingRightLeavesNothingHalfDone(t *testing.T) {
	s := fixture.Server(t)
	users, conn := limited(t, s), fixture.Dial(t, s)
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			half, refused := map[string]string{}, 0
			rapid.Check(t, func(rt *rapid.T) {
				r := newBoth(rt, conn, redis.PubSubConn{})
				for range rapid.IntRange(10, 40).Draw(rt, "calls") {
					c := rapid.SampledFrom(f.calls).Draw(rt, "script")
					one := c.call(&draw{rt, r.now})
					one.script = c.script
					one.notAfter = r.now + rapid.SampledFrom([]int64{leaseUnit, -r.now}).Draw(rt, "not after")
					without := rapid.SampledFrom(commands(c.script)).Draw(rt, "without")
					source := strings.ReplaceAll(one.script.Text(), "redis.pcall('time')", fmt.Sprintf("{'%d', '%06d'}", r.now/1000, r.now%1000*1000))
					args := append([]any{source}, wire(one)...)
					before, back := r.dump(), r.keep()
					_, err := users[without].Do("EVAL", args...)
					var no redis.Error
					require.True(rt, err == nil || errors.As(err, &no), "%v", err)
					if err != nil && strings.Contains(err.Error(), "can't run this command") {
						refused++
					}
					after := r.dump()
					back()
					_, _ = conn.Do("EVAL", args...)
					whole := r.dump()
					if r.slow() {
						return
					}
					what := one.script.Name() + " without " + without
					if harmless[what] == "" && !changedNothing(one, r.now, before, after) && (err != nil && one.script.Acquires() || !changedNothing(one, r.now, whole, after)) {
						half[what] = fmt.Sprintf("%q\nbefore %v\nafter  %v\nwhole  %v\n%v", one.args, &server{before}, &server{after}, &server{whole}, err)
					}
				}
			})
			require.Greater(t, refused, 100)
			for _, what := range slices.Sorted(maps.Keys(half)) {
				t.Errorf("%s: %s", what, half[what])
			}
		})
	}
}
