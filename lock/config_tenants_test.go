package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
)

// tenant is a user of Redis with lock/SERVERS.md's rights for a prefix.
type tenant struct {
	s            *redistest.Server
	user, prefix string
}

func newTenant(t *testing.T, s *redistest.Server, user, prefix string) tenant {
	t.Helper()
	for _, line := range fixture.RightsOfPage(t, "SERVERS.md") {
		for _, word := range line[1:] { // behind its own name of the user
			fixture.SetUser(t, s, user, strings.ReplaceAll(word, "app:", prefix))
		}
	}
	fixture.SetUser(t, s, user, "+spublish", "+ssubscribe", "+sunsubscribe", "+asking", "+cluster|slots", "+role",
		"&redisson_countdownlatch__channel__:"+prefix+"*")
	return tenant{s, user, prefix}
}

func (u tenant) dial(t *testing.T) redis.Conn {
	t.Helper()
	conn, err := u.s.DialContext(bounded.Context(t), redis.DialUsername(u.user), redis.DialPassword("secret"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func (u tenant) client(t *testing.T) *lock.Client {
	t.Helper()
	return fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return u.s.DialContext(ctx, redis.DialUsername(u.user), redis.DialPassword("secret"))
	}}, lock.Config{KeyPrefix: u.prefix})
}

// make makes all keys that the tenant's locks can have, and returns them.
func (u tenant) make(t *testing.T) (made []string) {
	t.Helper()
	fill := func(key, command string, args ...any) {
		fixture.Do(t, u.s, command, append([]any{key}, args...)...)
		made = append(made, key)
	}
	fill(keys.CountersOf(u.prefix, false).Key(u.prefix+"m"), "SET", 7)
	for i, name := range []string{u.prefix + "m", u.prefix + "{g}m"} {
		if slotted := keys.CountersOf(u.prefix, true).Key(name); slotted != made[0] {
			fill(slotted, "SET", 7)
		}
		fill(name, "HSET", "c:1:1", 1)
		fill(fmt.Sprint(name, "s"), "SET", 3)
		fill(keys.FencedCounter(name), "SET", 7)
		fill(keys.FairQueue(name), "RPUSH", "c:1:1", "c:1:2")
		fill(keys.FairScores(name), "ZADD", 1, "c:1:1")
		fill(keys.FairSigns(name), "HSET", "c:1:1", 1)
		fill(keys.Polls(name), "SET", 1)
		fill(keys.RWReader(name, "c:1:1"), "SET", 1)
		fill(keys.RWWriters(name), "HSET", "w", 1)
		fill(keys.PermitsTaken(name), "ZADD", 1, "p")
		fill(keys.Result(name, "c", uint64(i)), "SET", 1)
	}
	return made
}

func (u tenant) channels() (found []string) {
	for _, name := range []string{u.prefix + "m", u.prefix + "{g}m"} {
		found = append(found, keys.Channel(name), keys.FairChannel(name, "c:1:1"), keys.RWChannel(name), keys.SemaphoreChannel(name),
			keys.LatchChannel(name, false), keys.LatchChannel(name, true))
	}
	return append(found, keys.Channel(u.prefix+"wheellock"))
}

// attempts are ways to give a command a key.
func attempts(key string) [][]any {
	found := [][]any{
		{key, "1"},
		{key, "f", "1"},
		{key, "1", "p"},
		{key, "c:1:1"},
		{key, "1", "c:1:1"},
		{key, "0", "-1"},
		{key, "before", "c:1:1", "b"},
		{"1", key},
		{"1", "0", key},
		{"own", key},
		{key, "1", "px", "1"},
		{key, key + "2"},
	}
	for n := range 4 {
		found = append(found, slices.Repeat([]any{key}, n+1))
	}
	return found
}

// isRefused reports whether a server has answered that the user has no right.
func isRefused(answer any) bool {
	text := fmt.Sprint(answer)
	return strings.Contains(text, "permission") || strings.Contains(text, "user executing the script can't")
}

// ofNoKey are commands that the test sends by themselves, that have no key, or that make
// the connection another user's.
var ofNoKey = []string{
	"SUBSCRIBE", "SSUBSCRIBE", "UNSUBSCRIBE", "SUNSUBSCRIBE", "PUBLISH", "SPUBLISH", "EVAL", "EVALSHA", "WAIT", "AUTH", "HELLO", "QUIT", "RESET",
}

// mayNotRun reports whether the user has no right to the command.
func (u tenant) mayNotRun(t *testing.T, conn redis.Conn, words []any) bool {
	t.Helper()
	if slices.Contains(ofNoKey, words[0].(string)) {
		return false
	}
	for n := range 8 { // until it has as many arguments as it wants
		_, err := conn.Do(words[0].(string), append(words[1:], slices.Repeat([]any{"x"}, n)...)...)
		if err != nil && strings.Contains(err.Error(), "has no permissions to run") {
			return true
		}
	}
	return false
}

// TestUsersOfDifferentPrefixesCannotHurtEachOther: one tries every command on every key
// and every channel of the other, by itself and in scripts.
func TestUsersOfDifferentPrefixesCannotHurtEachOther(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights, redistest.CommandList)
	for _, prefixes := range [][2]string{{"app:", "other:"}, {"app:", "app2:"}, {"{app}:", "{other}:"}, {"app:", "{other}:"}} {
		for _, prefixes := range [][2]string{prefixes, {prefixes[1], prefixes[0]}} {
			t.Run(prefixes[0]+" hurts "+prefixes[1], func(t *testing.T) {
				s := fixture.Server(t)
				testOneTenantHurtsAnother(t, newTenant(t, s, "evil", prefixes[0]), newTenant(t, s, "good", prefixes[1]))
			})
		}
	}
}

func testOneTenantHurtsAnother(t *testing.T, evil, good tenant) {
	ctx := bounded.Context(t)
	for _, u := range []tenant{evil, good} {
		require.NoError(t, u.client(t).Check(ctx), "the rights are enough")
	}
	fixture.Do(t, good.s, "FLUSHALL")
	theirs := good.make(t)
	state := func() (dumps []string) {
		for _, key := range theirs {
			dumps = append(dumps, fmt.Sprintf("%q %v %v", key, fixture.Do(t, good.s, "DUMP", key), fixture.Do(t, good.s, "PTTL", key)))
		}
		return dumps
	}
	before := state()
	conn := evil.dial(t)
	var tried [][]any
	flush := func() {
		require.NoError(t, conn.Flush())
		for _, args := range tried {
			reply, err := conn.Receive()
			if err != nil {
				var said redis.Error
				require.ErrorAs(t, err, &said, "%q", args)
			} else if !slices.Contains([]any{"PING", "INFO"}, args[0]) && args[0] != "EVAL" {
				t.Errorf("%q was answered %q", args, reply)
			}
		}
		tried = tried[:0]
	}
	do := func(command string, args ...any) {
		tried = append(tried, append([]any{command}, args...))
		require.NoError(t, conn.Send(command, args...))
		if len(tried) == 1000 {
			flush()
		}
	}
	const inScript = "return {redis.pcall(unpack(ARGV)), 0}"
	mayRun := 0
	for _, command := range fixture.Strings(t, good.s, "COMMAND", "LIST") {
		command = strings.ToUpper(command)
		var words []any // a subcommand has two
		for word := range strings.SplitSeq(command, "|") {
			words = append(words, word)
		}
		words = slices.Clip(words)
		flush() // Do would read its answers
		if evil.mayNotRun(t, conn, words) {
			continue // with whatever key
		}
		mayRun++
		if slices.Contains(ofNoKey, command) {
			continue
		}
		for _, key := range theirs {
			for _, args := range attempts(key) {
				do(words[0].(string), append(words[1:], args...)...)
				do("EVAL", slices.Concat([]any{inScript, 0}, words, args)...)
			}
			do("EVAL", slices.Concat([]any{inScript, 1, key}, words, []any{key, "1"})...)
		}
	}
	require.Greater(t, mayRun, 40)
	flush()
	require.Equal(t, before, state())
	publish, subscribe := []string{"PUBLISH"}, []string{"SUBSCRIBE"}
	if fixture.HasAbilities(t, redistest.ShardedPubSub) {
		publish, subscribe = append(publish, "SPUBLISH"), append(subscribe, "SSUBSCRIBE")
	}
	for _, channel := range good.channels() {
		for _, command := range publish {
			_, err := conn.Do(command, channel, "0")
			require.True(t, isRefused(err), "%s %s: %v", command, channel, err)
			_, err = redis.Int(conn.Do("EVAL", "return redis.call(ARGV[1], ARGV[2], '0')", 0, command, channel))
			require.True(t, isRefused(err), "%s %s: %v", command, channel, err)
		}
		for _, command := range subscribe {
			_, err := conn.Do(command, channel)
			require.True(t, isRefused(err), "%s %s: %v", command, channel, err)
		}
	}
	own := good.dial(t)
	for _, channel := range good.channels() {
		require.Zero(t, fixture.DoOn(t, own, "PUBLISH", channel, "0"), "its user may")
	}
	for _, key := range theirs {
		require.EqualValues(t, 1, fixture.DoOn(t, own, "DEL", key), "its user may: %s", key)
	}
}

// TestATenantsSETOnItsCounterHurtsNoOther: it was one counter for all.
func TestATenantsSETOnItsCounterHurtsNoOther(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s, ctx := fixture.Server(t), bounded.Context(t)
	evil, good := newTenant(t, s, "evil", "app:"), newTenant(t, s, "good", "other:")
	conn := evil.dial(t)
	for _, key := range []string{"wheellock_token", "app:wheellock_token", "other:wheellock_token"} {
		_, err := conn.Do("SET", key, int64(1)<<53)
		require.Equal(t, key != "app:wheellock_token", err != nil, key)
	}
	held := fixture.Hold(t, good.client(t).Mutex("m").Lock)
	require.NoError(t, held.Unlock(ctx))
	_, err := evil.client(t).Mutex("m").Lock(ctx)
	require.ErrorContains(t, err, "the token counter app:wheellock_token is past 2^53; set it to the seconds of TIME x 2^20, do not delete it")
	now, err := redis.Int64s(fixture.Do(t, s, "TIME"), nil)
	require.NoError(t, err)
	fixture.Do(t, s, "SET", "app:wheellock_token", now[0]<<20)
	again := fixture.Hold(t, evil.client(t).Mutex("m").Lock)
	require.Greater(t, again.Token(), now[0]<<20)
}

// TestAFencedMutexHasRedissonsCounterWhateverThePrefix: both mint from it.
func TestAFencedMutexHasRedissonsCounterWhateverThePrefix(t *testing.T) {
	s := fixture.Server(t)
	for prefix, counter := range map[string]string{
		"": "redisson_lock_token:{m}", "app:": "redisson_lock_token:{app:m}", "{app}:": "redisson_lock_token:{app}:m",
	} {
		fixture.Do(t, s, "SET", counter, 41)
		held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{KeyPrefix: prefix}).FencedMutex("m").Lock)
		require.EqualValues(t, 42, held.Token(), prefix)
		require.Equal(t, "42", string(fixture.Do(t, s, "GET", counter).([]byte)))
	}
	require.Empty(t, fixture.Keys(t, s, "*wheellock_token*"))
}

func TestAPrefixWithABraceNeedsAHashTag(t *testing.T) {
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { panic("New does no I/O") }}
	for _, prefix := range []string{"{", "app}:", "{}:", "a}{b}:"} {
		_, err := lock.New(pool, lock.Config{KeyPrefix: prefix})
		require.ErrorContains(t, err, "has a brace and no hash tag: write the tag as in \"{app}:\", or leave the braces out")
	}
}
