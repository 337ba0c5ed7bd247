package twin

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// The clock of a real server cannot be moved. So time passes there by shortening
// all TTLs, in steps that never meet an end: at least 5 s lie between any end and any
// moment at which a script runs. A story in which more than slack has really passed
// is given up.
const (
	leaseUnit = 100_000 // ms, as all of these; every lease is a multiple of it
	timeStep  = 30_000
	maxSteps  = 9
	slack     = 4_000 // how much later the real server may be
)

// putEnds are the TTLs of what somebody else has put there: never as long as a lease.
var putEnds = [...]int64{0, leaseUnit + 5_000, 2*leaseUnit + 5_000}

// wire returns the arguments of a call as the Lua file wants them. If the script has a time limit, that
// is the last argument.
func wire(c call) []any {
	out := []any{len(c.keys)}
	for _, k := range c.keys {
		out = append(out, k)
	}
	for _, a := range c.args {
		out = append(out, a)
	}
	if expires(c) {
		out = append(out, c.notAfter)
	}
	return out
}

// dumpText returns {key, type, pttl, content} of all keys.
const dumpText = `
local out = {}
for _, key in ipairs(redis.call('keys', '*')) do
  local kind = redis.call('type', key).ok
  local read = {string = {'get', key}, hash = {'hgetall', key}, zset = {'zrange', key, 0, -1, 'withscores'}, list = {'lrange', key, 0, -1}}
  out[#out + 1] = {key, kind, redis.call('pttl', key), redis.call(unpack(read[kind]))}
end
return out`

// passText lets ARGV[1] ms pass.
const passText = `
for _, key in ipairs(redis.call('keys', '*')) do
  local left = redis.call('pttl', key)
  if left >= 0 then
    redis.call('pexpire', key, left - ARGV[1])
  end
end`

// firstText draws the first fields of a hash in the order of their names, as the twin does.
const firstText = `(function()
  local all, fields, some = redis.call('hgetall', KEYS[1]), {}, {}
  for i = 1, #all, 2 do
    fields[#fields + 1], fields[all[i]] = all[i], all[i + 1]
  end
  table.sort(fields)
  for i = 1, drawn do
    some[2 * i - 1], some[2 * i] = fields[i], fields[fields[i]]
  end
  return some
end)()`

// each returns a function that says that each channel has n subscribers.
func each(n int64) func(string) int64 { return func(string) int64 { return n } }

// both are a Redis and the twin, which get the same calls.
type both struct {
	t       rapid.TB
	conn    redis.Conn
	heard   redis.PubSubConn
	twin    *server
	now     int64 // of the twin
	began   time.Time
	steps   int
	story   []string
	refused map[string]int // replies that were errors, by script
}

func (r *both) fail(format string, args ...any) {
	r.t.Fatalf("%s\n%s", fmt.Sprintf(format, args...), strings.Join(r.story, "\n"))
}

func (r *both) do(command string, args ...any) any {
	reply, err := r.conn.Do(command, args...)
	if err != nil {
		r.t.Fatalf("%s %v: %v", command, args, err)
	}
	return reply
}

// pass lets a step of time pass.
func (r *both) pass() {
	if r.steps == maxSteps {
		return
	}
	r.steps++
	r.story = append(r.story, "time passes")
	r.do("EVAL", passText, 0, timeStep)
	r.now += timeStep
	r.same()
}

// put makes a key something that no script has made.
func (r *both) put(key string, k kind, value string, px int64) {
	r.story = append(r.story, fmt.Sprintf("%s = %v %q, px %d", key, k, value, px))
	x := &exec{s: r.twin.clone(r.now), now: r.now}
	x.del(key)
	r.do("DEL", key)
	switch k {
	case text:
		x.set(key, value, 0)
		r.do("SET", key, value)
	case hash:
		x.hset(key, value, "1")
		r.do("HSET", key, value, "1")
	case zset:
		x.zadd(key, value, 1)
		r.do("ZADD", key, 1, value)
	case list:
		x.entryOrNew(key, list).pairs = []pair{{name: value}}
		r.do("RPUSH", key, value)
	}
	if px != 0 {
		x.pexpire(key, px)
		r.do("PEXPIRE", key, px)
	}
	r.twin = x.s
	r.same()
}

// queue puts a waiter of Redisson in the line of a fair mutex.
func (r *both) queue(field string, score int64) {
	r.story = append(r.story, fmt.Sprintf("Redisson's %s stands in line until %d", field, score))
	x := &exec{s: r.twin.clone(r.now), now: r.now}
	if x.isOther(keys.FairQueue(name), list) || x.isOther(keys.FairScores(name), zset) {
		return
	}
	e := x.entryOrNew(keys.FairQueue(name), list)
	if e.find(field) >= 0 {
		return
	}
	e.pairs = append(e.pairs, pair{name: field})
	r.do("RPUSH", keys.FairQueue(name), field)
	x.zadd(keys.FairScores(name), field, float64(score))
	r.do("ZADD", keys.FairScores(name), score, field)
	r.twin = x.s
	r.same()
}

// crowd adds n readers whose names begin with begin. Only the leases of the living have not ended.
func (r *both) crowd(begin string, n int, count string, living map[int]int64) {
	r.story = append(r.story, fmt.Sprintf("%d of %s read, the first %s times, these live: %v", n, begin, count, living))
	x := &exec{s: r.twin.clone(r.now), now: r.now}
	if x.isOther(name, hash) {
		return
	}
	if _, there := x.hget(name, "mode"); !there {
		x.hset(name, "mode", "read")
		r.do("HSET", name, "mode", "read")
	}
	all := []any{name}
	for i := range n {
		field := fmt.Sprint(begin, 100+i)
		x.hset(name, field, count)
		all = append(all, field, count)
		count = "1"
		if left := living[i]; left != 0 {
			x.set(keys.RWReader(name, field), "1", left)
			r.do("SET", keys.RWReader(name, field), "1", "PX", left)
		}
	}
	r.do("HSET", all...)
	x.pexpire(name, 3*leaseUnit)
	r.do("PEXPIRE", name, 3*leaseUnit)
	r.twin = x.s
	r.same()
}

// run sends one script to both, and compares their answers, messages and keys.
func (r *both) run(c call) {
	after, want, told := run(r.twin, r.now, c, each(1))
	r.twin = after
	r.story = append(r.story, fmt.Sprintf("%s %q %q until %d: %v", c.script.Name(), c.keys, c.args, c.notAfter, want))
	// The script reads the twin's clock in place of the server's.
	text := strings.ReplaceAll(c.script.Text(), "redis.pcall('time')", fmt.Sprintf("{'%d', '%06d'}", r.now/1000, r.now%1000*1000))
	text = strings.ReplaceAll(text, "math.max(pttl, 0)", "math.ceil(math.max(pttl, 0) / 5000) * 5000") // as all TTLs are here
	text = strings.ReplaceAll(text, "redis.pcall('hrandfield', lock, drawn, 'withvalues')", firstText)
	reply, err := r.conn.Do("EVAL", append([]any{text}, wire(c)...)...)
	var refused redis.Error
	if err != nil && !errors.As(err, &refused) {
		r.t.Fatal(err)
	}
	if r.slow() {
		return
	}
	if values, ok := reply.([]any); ok && c.script == script.Inspect {
		reply = sortedPairs(values)
	}
	if refusal, no := want.(refusal); no {
		r.refused[c.script.Name()]++
		if word, _, _ := strings.Cut(string(refusal), " "); err == nil || !strings.HasPrefix(err.Error(), word+" ") {
			r.fail("Redis answers %v %v, the twin %v", readable(reply), err, want)
		}
	} else if err != nil || !equal(want, readable(reply)) {
		r.fail("Redis answers %#v %v, the twin %#v", readable(reply), err, want)
	}
	if heard := r.messages(); !slices.Equal(heard, told) {
		r.fail("Redis published %v, the twin %v", heard, told)
	}
	r.same()
}

// messages returns the messages that were published since the last call.
func (r *both) messages() (out []message) {
	if err := r.heard.Ping("."); err != nil {
		r.t.Fatal(err)
	}
	for {
		switch m := r.heard.ReceiveWithTimeout(10 * time.Second).(type) {
		case redis.Message:
			out = append(out, message{m.Channel, string(m.Data)})
		case redis.Pong:
			return out
		case error:
			r.t.Fatal(m)
		}
	}
}

// slow reports whether too much real time has passed to compare TTLs.
func (r *both) slow() bool { return time.Since(r.began) > slack*time.Millisecond }

// dump returns all keys of the server with their values.
func (r *both) dump() (out []entry) {
	list, err := redis.Values(r.do("EVAL", dumpText, 0), nil)
	require.NoError(r.t, err)
	for _, v := range list {
		out = append(out, parse(v.([]any)))
	}
	slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.key, b.key) })
	return out
}

// same compares what both have.
func (r *both) same() {
	got := r.dump()
	if r.slow() {
		return
	}
	want := r.twin.clone(r.now).entries
	for i := range want {
		left := int64(-1)
		if want[i].end != 0 {
			left = want[i].end - r.now
		}
		if i < len(got) && (left >= 0) == (got[i].end >= 0) && left >= got[i].end && left-got[i].end < 2*slack {
			left = got[i].end
		}
		want[i].end = left
	}
	if a, b := (&server{got}).String(), (&server{want}).String(); a != b {
		r.fail("Redis has %s\nthe twin  %s", a, b)
	}
}

// parse reads a key of dumpText; its end is its TTL.
func parse(v []any) entry {
	e := entry{key: string(v[0].([]byte)), end: v[2].(int64)}
	switch string(v[1].([]byte)) {
	case "string":
		e.kind, e.text = text, string(v[3].([]byte))
		return e
	case "hash":
		e.kind = hash
	case "zset":
		e.kind = zset
	case "list":
		e.kind = list
		for _, v := range v[3].([]any) {
			e.pairs = append(e.pairs, pair{name: string(v.([]byte))})
		}
		return e
	}
	for pairs := v[3].([]any); len(pairs) > 0; pairs = pairs[2:] {
		p := pair{name: string(pairs[0].([]byte))}
		if e.kind == hash {
			p.value = string(pairs[1].([]byte))
		} else {
			p.score, _ = strconv.ParseFloat(string(pairs[1].([]byte)), 64)
		}
		e.pairs = append(e.pairs, p)
	}
	if e.kind == hash {
		slices.SortFunc(e.pairs, func(a, b pair) int { return cmp.Compare(a.name, b.name) })
	}
	return e
}

// readable turns the texts of a reply into strings.
func readable(reply any) any {
	switch v := reply.(type) {
	case []byte:
		return string(v)
	case []any:
		out := []any{}
		for _, one := range v {
			out = append(out, readable(one))
		}
		return out
	}
	return reply
}

// equal compares replies. A TTL may be less by the real time that has passed.
func equal(want, got any) bool {
	switch w := want.(type) {
	case int64:
		g, ok := got.(int64)
		return ok && (w == g || w > g && g > slack && w-g < 2*slack)
	case []any:
		g, ok := got.([]any)
		if !ok || len(w) != len(g) {
			return false
		}
		for i := range w {
			if !equal(w[i], g[i]) {
				return false
			}
		}
		return true
	}
	return want == got
}

// sortedPairs returns {pttl, field, count, ...} with the fields in order.
func sortedPairs(reply []any) []any {
	var pairs [][]any
	for i := 1; i+1 < len(reply); i += 2 {
		pairs = append(pairs, reply[i:i+2])
	}
	slices.SortFunc(pairs, func(a, b []any) int { return cmp.Compare(fmt.Sprintf("%s", a[0]), fmt.Sprintf("%s", b[0])) })
	out := reply[:1:1]
	for _, p := range pairs {
		out = append(out, p...)
	}
	if len(reply)%2 == 0 { // {pttl, 1}: another library's
		return reply
	}
	return out
}

// dial starts a server, and listens to all of its channels.
func dial(t *testing.T) (redis.Conn, redis.PubSubConn) {
	s := fixture.Server(t)
	heard := redis.PubSubConn{Conn: fixture.Dial(t, s)}
	require.NoError(t, heard.PSubscribe("*"))
	require.IsType(t, redis.Subscription{}, heard.Receive())
	return fixture.Dial(t, s), heard
}

// newBoth returns both, empty.
func newBoth(t rapid.TB, conn redis.Conn, heard redis.PubSubConn) *both {
	r := &both{t: t, conn: conn, heard: heard, twin: &server{}, began: time.Now(), refused: map[string]int{}}
	r.do("FLUSHDB")
	clock, err := redis.Int64s(r.do("TIME"), nil)
	require.NoError(t, err)
	r.now = clock[0]*1000 + clock[1]/1000
	return r
}

// TestScriptsAreTheirTwins sends random calls to a real server and to the model
// that the simulation uses: replies, keys, TTLs and messages are the same.
func TestScriptsAreTheirTwins(t *testing.T) {
	conn, heard := dial(t)
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			called, refused := map[string]int{}, map[string]int{}
			rapid.Check(t, func(rt *rapid.T) {
				r := newBoth(rt, conn, heard)
				r.refused = refused
				for range rapid.IntRange(10, 80).Draw(rt, "calls") {
					if r.slow() {
						return
					}
					switch rapid.IntRange(0, 19).Draw(rt, "what") {
					case 0, 1:
						r.pass()
					case 3:
						if f.name == "readers and writers" {
							living := rapid.MapOfN(rapid.IntRange(0, 60), rapid.Map(rapid.Int64Range(1, 3), func(n int64) int64 { return n * leaseUnit }), 0, 2)
							r.crowd(rapid.SampledFrom([]string{"a:", "d:9:"}).Draw(rt, "begin"), rapid.IntRange(1, 60).Draw(rt, "crowd"), rapid.SampledFrom([]string{"1", "50", "5000", "x", "1e2", "-1", "1000000000"}).Draw(rt, "times"), living.Draw(rt, "living"))
						}
						if f.name == "fair mutex" {
							some := redissons[:rapid.SampledFrom([]int{1, 2, len(redissons)}).Draw(rt, "waiters")]
							score := r.now + leaseUnit*rapid.Int64Range(1, 3).Draw(rt, "score")
							wait := rapid.SampledFrom([]int64{-5_000, 0, 5_000, 300_000, 900_000, 90_000_000}).Draw(rt, "wait")
							for i, field := range some {
								r.queue(field, score+int64(i)*wait)
							}
						}
					case 2:
						key := rapid.SampledFrom(f.keys).Draw(rt, "key")
						k := rapid.SampledFrom([]kind{0, text, text, hash, zset, list}).Draw(rt, "kind")
						if k == text && strings.HasPrefix(key, "result") {
							k = hash // the texts there are the scripts' own
						}
						value := rapid.SampledFrom(f.values).Draw(rt, "value")
						if k != 0 && strings.Contains(key, "rwlock_timeout") {
							k, value = text, "1" // as scripts write it; chance decides whether they replace one of equal TTL
						}
						r.put(key, k, value, putEnds[rapid.IntRange(0, 2).Draw(rt, "px")])
					default:
						c := rapid.SampledFrom(f.calls).Draw(rt, "script")
						one := c.call(&draw{rt, r.now})
						one.script = c.script
						if c.script == script.FairTake && one.args[7] == "its last" {
							one.args[7] = ""
							if e := r.twin.entryAt(keys.FairSigns(name), r.now); e != nil {
								if i := e.find(one.args[6]); i >= 0 {
									one.args[7] = e.pairs[i].value
								}
							}
						}
						if at := rapid.SampledFrom([]int64{0, leaseUnit, -leaseUnit}).Draw(rt, "not after"); at != 0 {
							one.notAfter = r.now + at
						}
						called[c.script.Name()]++
						r.run(one)
					}
				}
			})
			t.Logf("calls %v, refused %v", called, refused)
			for _, c := range f.calls {
				require.NotZero(t, called[c.script.Name()], "%s was never called", c.script.Name())
			}
		})
	}
}

// TestAPlaceBesideRedissonsIsItsTwins puts waiters among those of Redisson, where random calls seldom
// leave them for long.
func TestAPlaceBesideRedissonsIsItsTwins(t *testing.T) {
	conn, heard := dial(t)
	signs := map[string]int{}
	stand := func(r *both, field string, earlier ...string) {
		signs[field]++
		args := []string{
			field, "100000", "1", strconv.FormatInt(r.now, 10), "300000", strconv.Itoa(signs[field]) + "/2000", "", "", "100000",
			"channel", "publish", "13000", strconv.Itoa(len(earlier)),
		}
		r.run(call{script: script.FairTake, keys: append(fairKeys(), keys.Counter), args: append(args, earlier...)})
	}
	for _, wait := range []int64{5_000, 300_000, 900_000, 90_000_000} {
		for _, other := range []int64{5_000, 900_000, -1} {
			for _, place := range []int{0, 1, 2, 3, 20} {
				r := newBoth(t, conn, heard)
				clear(signs)
				r.put(name, hash, "c:9:9", 2*leaseUnit+5_000)
				if place%2 == 1 {
					stand(r, fields[1])
				}
				score := r.now + wait
				for i := range place {
					r.queue(fmt.Sprint("java:", i), score)
					score += other
				}
				stand(r, fields[0])
				r.queue("java:last", score)
				r.pass()
				stand(r, fields[0])
				stand(r, fields[1])
				r.queue("java:behind", score+other)
				r.pass()
				stand(r, "c:1:9", fields[0])
				stand(r, fields[1])
			}
		}
	}
}

// TestTheClockOfAClientCountsForNothing where the server's clock is known. The client's clock is ten
// leases ahead or behind. Permits go by the server's clock also without a time limit.
func TestTheClockOfAClientCountsForNothing(t *testing.T) {
	conn, heard := dial(t)
	for _, client := range []struct {
		ahead  int64
		limits bool
	}{{-10 * leaseUnit, true}, {10 * leaseUnit, true}, {-10 * leaseUnit, false}, {10 * leaseUnit, false}} {
		r, ahead := newBoth(t, conn, heard), client.ahead
		run := func(s *script.Script, keys []string, args ...string) {
			c := call{script: s, keys: keys, args: args}
			if client.limits {
				c.notAfter = r.now + leaseUnit
			}
			r.run(c)
		}
		in := func(leases int64) string { return strconv.FormatInt(r.now+ahead+leases*leaseUnit, 10) }
		permit, id, taken := permits[0]+"1", "616161616161616161616161"+"00000001", keys.PermitsTaken(name)
		r.put(name, text, "5", 0)
		run(script.PermitTake, []string{name, taken}, permits[0], "1", "0", in(1), in(0), "channel", "publish")
		run(script.PermitExtend, []string{taken}, permit, in(2), in(0))
		run(script.PermitRenew, []string{taken}, in(3), in(0), permit)
		run(script.PermitSetLease, []string{taken, "result1"}, id, in(1), in(0), "100000")
		run(script.PermitFree, []string{name, "result of free", taken}, id, in(0), "channel", "100000", "publish")
		require.Equal(t, "5", r.twin.entryAt(name, r.now).text)

		r.put(name, hash, "c:9:9", putEnds[1])
		run(script.FairTake, append(fairKeys(), keys.Counter), fields[0], "100000", "1", in(0), "300000", "1 a", "", "", "100000", "channel", "publish", "116000", "0")
		run(script.FairSign, fairKeys(), in(0), "300000", "100000", "116000", " a", fields[0], "2")
	}
}

// TestAWriterThatNobodyHasLeavesWithItsMode: a reader removes the field of such a writer as one that is
// owed, and the mode that the lock had before does not keep the reader out. A force removes only the
// fields that it names.
func TestAWriterThatNobodyHasLeavesWithItsMode(t *testing.T) {
	conn, heard := dial(t)
	r := newBoth(t, conn, heard)
	writer, reader, next := writeFields[0], fields[0], fields[1]
	read := func(field, own string, owed ...string) call {
		return call{
			script: script.RwRead, keys: []string{name, keys.RWReader(name, field), keys.RWWriters(name)},
			args: append([]string{field, "100000", own, "1", keys.Prefix(name), "channel", "publish"}, owed...),
		}
	}
	r.run(call{script: script.RwWrite, keys: []string{name, keys.RWWriters(name)}, args: []string{writer, "100000", "w", "0", keys.Prefix(name), "channel", "publish"}})
	r.run(read(reader, writer))
	r.run(read(next, "", writer))
	mode, _ := (&exec{s: r.twin, now: r.now}).hget(name, "mode")
	require.Equal(t, "read", mode)
	require.GreaterOrEqual(t, r.twin.entryAt(name, r.now).find(next), 0)

	r = newBoth(t, conn, heard)
	r.run(call{script: script.Acquire, keys: []string{name}, args: []string{next, "100000", "1"}})
	r.run(call{script: script.Force, keys: []string{name}, args: []string{"channel", "publish", reader}})
	require.GreaterOrEqual(t, r.twin.entryAt(name, r.now).find(next), 0)
}

// TestACounterOfTokensHasNoEnd: if somebody has given the counter a TTL, minting removes it. If the
// counter expired, tokens would fall. The tokens of Redisson's counter, which uses no clock, would fall
// to 1. Minting removes the TTL even if it is refused because the counter is exhausted. Scripts that
// look first whether it is exhausted change nothing.
func TestACounterOfTokensHasNoEnd(t *testing.T) {
	conn, heard := dial(t)
	const end, field, next = "9007199254740990", "c:1:1", "c:1:2"
	handoff := []string{field, next, "100000", "1048576", "64"}
	atTheEnd := append(slices.Clone(handoff), "channel", "1", "publish", "100000", "0")
	take := call{
		script: script.FairTake, keys: append(fairKeys(), keys.Counter),
		args: []string{field, "100000", "1", "1000", "300000", "", "", "", "100000", "channel", "publish", "116000", "0"},
	}
	for story, c := range map[string]struct {
		call   call
		stands bool // an exhausted counter keeps its TTL
	}{
		"a lock is taken":          {call: call{script: script.Acquire, keys: []string{name, keys.Counter}, args: []string{next, "100000", "1048576"}}},
		"a token is minted":        {call: call{script: script.Token, keys: []string{keys.Counter}, args: []string{"1"}}},
		"a lock is handed over":    {call: call{script: script.Handoff, keys: []string{name, keys.Counter}, args: handoff}},
		"a run of hand-overs ends": {call: call{script: script.Handoff, keys: []string{name, keys.Counter}, args: atTheEnd}, stands: true},
		"a fair lock is taken":     {call: take, stands: true},
	} {
		t.Run(story, func(t *testing.T) {
			for counter, refused := range map[string]bool{"5": false, end: true} {
				r := newBoth(t, conn, heard)
				if c.call.script == script.Handoff {
					r.put(name, hash, field, 0)
				}
				r.put(keys.Counter, text, counter, putEnds[1])
				r.run(c.call)
				left, err := redis.Int64(conn.Do("PTTL", keys.Counter))
				require.NoError(t, err)
				require.Equal(t, refused && c.stands, left > 0, "counter %s, PTTL %d", counter, left)
				require.Equal(t, refused, r.refused[c.call.script.Name()] == 1)
			}
		})
	}
}

// put is a value at a key that no script has made.
type put struct {
	key   string
	kind  kind
	value string
}

// TestARefusedScriptChangesNothing: a script that finds a wrong value at one of its keys finds
// it before its first change.
func TestARefusedScriptChangesNothing(t *testing.T) {
	conn, heard := dial(t)
	const field, other = "c:1:1", "c:1:2"
	writer, permit := writeFields[0], ids(permits[0], 1)[0]
	lines := fairKeys()
	fairTake := call{
		script: script.FairTake, keys: append(lines, keys.Counter),
		args: []string{field, "100000", "1", "1000", "300000", "1 a", "", "", "100000", "channel", "publish", "116000", "0", other},
	}
	fairRelease := call{script: script.FairRelease, keys: lines, args: []string{field, "channel", "1000", "58000", "publish"}}
	permitTake := call{script: script.PermitTake, keys: taken(), args: []string{permits[1], "1", "0", "900000", "1000", "channel", "publish"}}
	write := call{
		script: script.RwWrite, keys: []string{name, keys.RWWriters(name)},
		args: []string{writer, "100000", "w1", "100000", keys.Prefix(name), "channel", "publish"},
	}
	for story, c := range map[string]struct {
		puts []put
		call call
	}{
		"a writer, and the writers that wait are no hash": {[]put{{keys.RWWriters(name), text, "5"}}, write},
		"a take is undone, and the counter is no text": {
			[]put{{name, hash, "7"}, {"result1", text, "2"}},
			call{script: script.SemaphoreUndo, keys: []string{name, "result1"}, args: []string{"channel", "100000", "publish"}},
		},
		"a take is undone, and the counter is no number": {
			[]put{{name, text, "abc"}, {"result1", text, "2"}},
			call{script: script.SemaphoreUndo, keys: []string{name, "result1"}, args: []string{"channel", "100000", "publish"}},
		},
		"a permit is released, and the counter is no text": {
			[]put{{name, list, "7"}, {keys.PermitsTaken(name), zset, permit}},
			call{script: script.PermitRelease, keys: taken(), args: []string{permits[0] + "1", "channel", "publish"}},
		},
		"a permit is released, and the counter is no number": {
			[]put{{name, text, "007"}, {keys.PermitsTaken(name), zset, permit}},
			call{script: script.PermitRelease, keys: taken(), args: []string{permits[0] + "1", "channel", "publish"}},
		},
		"a permit is released by its id, and the counter is no number": {
			[]put{{name, text, "007"}, {keys.PermitsTaken(name), zset, permitText}},
			call{script: script.PermitFree, keys: []string{name, "result of free", keys.PermitsTaken(name)}, args: []string{permitText, "0", "channel", "100000", "publish"}},
		},
		"permits have ended, and the counter is no number": {[]put{{name, text, "007"}, {keys.PermitsTaken(name), zset, permit}}, permitTake},
		"the counter of tokens is no text":                 {[]put{{lines[1], list, other}, {lines[2], zset, other}, {keys.Counter, hash, "7"}}, fairTake},
		"the counter of tokens is at its end":              {[]put{{lines[1], list, other}, {lines[2], zset, other}, {keys.Counter, text, "9007199254740990"}}, fairTake},
		"a fair mutex is released, and the queue is no list": {
			[]put{{lines[0], hash, field}, {lines[1], text, "5"}}, fairRelease,
		},
		"a fair mutex is released, and the scores are no sorted set": {
			[]put{{lines[0], hash, field}, {lines[2], text, "5"}}, fairRelease,
		},
		"a fair mutex is released, and the signs are no hash": {
			[]put{{lines[0], hash, field}, {lines[3], text, "5"}}, fairRelease,
		},
		"a fair mutex is forced, and the queue is no list": {
			[]put{{lines[0], hash, field}, {lines[1], text, "5"}},
			call{script: script.FairForce, keys: lines[:2], args: []string{"channel", "publish", field}},
		},
		"a run of hand-overs ends, and the counter of tokens is no text": {
			[]put{{name, hash, field}, {keys.Counter, hash, "7"}},
			call{
				script: script.Handoff, keys: []string{name, keys.Counter},
				args: []string{field, other, "100000", "1", "0", "channel", "0", "publish", "5", "0"},
			},
		},
	} {
		t.Run(story, func(t *testing.T) {
			r := newBoth(t, conn, heard)
			for _, p := range c.puts {
				r.put(p.key, p.kind, p.value, 0)
			}
			before := r.dump()
			_, err := conn.Do("EVAL", append([]any{c.call.script.Text()}, wire(c.call)...)...)
			require.Error(t, err)
			require.Equal(t, before, r.dump())
			require.Empty(t, r.messages())
			r.run(c.call) // the twin agrees
		})
	}
}
