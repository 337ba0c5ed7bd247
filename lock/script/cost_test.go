package script_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// cost is a call of a script to measure, in a Redis with many other holders or waiters.
type cost struct {
	script *script.Script
	there  string // what these others are
	fill   string // Lua that puts them there: n is their number, name the key of the lock
	keys   []string
	args   []any
	// per returns an argument, or a key, for each of n. With it the cost of a call may grow with n.
	per    func(i int) any
	perKey bool
	// walks are commands whose time in Redis grows with the number of the others.
	walks []string
	why   string // why the script calls walks, or why their cost is acceptable
	every int    // one of n / every calls has this cost; 0: each call
	// hidesTime makes effects run it as for a user who may not call TIME, so the client's clock counts.
	hidesTime bool
	// notAfter is the time of the server's clock in epoch ms after which effects does not run it; 0: it runs
	// at any time.
	notAfter int64
}

const (
	costly = "x"
	now    = 1_000_000
)

const (
	fillHash    = `for i = 1, n do redis.call('hset', name, 'o:' .. i, '1') end redis.call('pexpire', name, 1000000)`
	fillDead    = `redis.call('hset', name, 'mode', 'read') ` + fillHash
	fillReaders = fillDead + ` for i = 1, n do redis.call('set', '{x}:o:' .. i .. ':rwlock_timeout:1', '1', 'px', 1000000) end
		redis.call('hset', name, 'c:1:1', '1') redis.call('set', '{x}:c:1:1:rwlock_timeout:1', '1', 'px', 1000000)`
	fillWriting  = fillReaders + ` redis.call('hset', name, 'mode', 'write', 'c:1:9:write', '1')`
	fillWriters  = `for i = 1, n do redis.call('hset', 'wheellock_writers:{x}', 'w' .. i, '1') end`
	fillPermits  = `redis.call('set', name, '5') for i = 1, n do redis.call('zadd', '{x}:timeout', 2000000 + i, 'java' .. i) end`
	fillExpired  = `redis.call('set', name, '5') for i = 1, n do redis.call('zadd', '{x}:timeout', i, 'java' .. i) end`
	fillMine     = ` for i = 1, 3 do redis.call('zadd', '{x}:timeout', 2000000, 'aaaaaaaaaaaa' .. string.char(0, 0, 0, i)) end`
	fillCounter  = `redis.call('set', name, n)`
	fillQueue    = `for i = 1, n do redis.call('rpush', KEYS[2], 'j:' .. i) redis.call('zadd', KEYS[3], %s, 'j:' .. i) %s end `
	costsOneCall = 1500 // commands, at most, whatever is there
)

var (
	queueJava    = fmt.Sprintf(fillQueue, "2000000 + i", "")
	queueSwept   = fmt.Sprintf(fillQueue, "i", "")
	queueOurs    = fmt.Sprintf(fillQueue, "1100000 + i", "redis.call('hset', KEYS[4], 'j:' .. i, '1@1000000 a')")
	queueMayDead = fmt.Sprintf(fillQueue, "1000001", "redis.call('hset', KEYS[4], 'j:' .. i, '1@1000000 a')")
	fairKeys     = []string{costly, keys.FairQueue(costly), keys.FairScores(costly), keys.FairSigns(costly)}
	walksQueue   = "a queue of Redisson's is a list, in which Redis looks for one that leaves"
)

func fairTake(sign string, more ...any) []any {
	return append([]any{"c:1:1", 30_000, 1, now, 300_000, sign, "", "", 100_000, "channel", "publish", 116_000, 0}, more...)
}

func field(i int) any { return fmt.Sprint("o:", i+1) }

func costs() []cost {
	writers, reader := keys.RWWriters(costly), keys.RWReader(costly, "c:1:1")
	taken := keys.PermitsTaken(costly)
	result := []string{costly, "result"}
	rw := []any{keys.Prefix(costly), keys.RWChannel(costly), "publish"}
	all := []cost{
		{script: script.Acquire, there: "fields", fill: fillHash, keys: []string{costly, keys.Counter, keys.Polls(costly)}, args: []any{"c:1:1", 1000, 1, 0, 500}},
		{script: script.Acquire, there: "debts", fill: fillHash, keys: []string{costly, keys.Counter}, args: []any{"c:1:1", 1000, 1, 0, 500}, per: field},
		{script: script.Reenter, there: "fields", fill: fillHash, keys: []string{costly}, args: []any{"o:1", 2, 1000}},
		{script: script.Release, there: "fields", fill: fillHash, keys: []string{costly}, args: []any{"o:1", "channel", "publish"}},
		{script: script.Handoff, there: "fields", fill: fillHash, keys: []string{costly, keys.Counter}, args: []any{"o:1", "c:1:1", 1000, 1, 0, "channel", 5, "publish", 5, "0"}},
		{script: script.Force, there: "fields", fill: fillHash, keys: []string{costly}, args: []any{"channel", "publish", "o:1"}},
		{script: script.Force, there: "holds", fill: fillHash, keys: []string{costly}, args: []any{"channel", "publish"}, per: field},
		{script: script.Guard, there: "fields", fill: fillHash, keys: []string{costly, costly, "y"}, args: []any{"o:1", "set", "1"}},
		{script: script.Inspect, there: "fields", fill: fillHash, keys: []string{costly}},
		{script: script.Inspect, there: "readers", fill: fillReaders, keys: []string{costly}},
		{script: script.Renew, there: "fields", fill: fillHash, keys: []string{costly}, args: []any{2_000_000, "o:", "1"}},
		{script: script.Renew, there: "holds", fill: fillHash, args: []any{2_000_000, "o:"}, per: func(i int) any { return fmt.Sprint(i + 1) }, perKey: true},
		{script: script.Uptime, there: "fields", fill: fillHash, keys: []string{costly}},
		{script: script.TTL, there: "fields", fill: fillHash, keys: []string{costly}},
		{script: script.Token, there: "fields", fill: fillHash, keys: []string{keys.Counter}, args: []any{1}},
		{script: script.Check, there: "fields", fill: fillHash, keys: []string{"scratch"}, args: []any{1000, 2, "hlen", "y"}},
		{script: script.Count, there: "permits", fill: fillCounter, keys: []string{costly}},

		{script: script.SemaphoreSet, there: "permits", fill: fillCounter, keys: result, args: []any{3, "channel", 1000}},
		{script: script.SemaphoreAdd, there: "permits", fill: fillCounter, keys: result, args: []any{3, "channel", 1000}},
		{script: script.SemaphoreRelease, there: "permits", fill: fillCounter, keys: result, args: []any{3, "channel", 1000}},
		{script: script.SemaphoreTake, there: "permits", fill: fillCounter, keys: result, args: []any{"all", 1000}},
		{script: script.SemaphoreUndo, there: "permits", fill: fillCounter + ` redis.call('set', 'result', n)`, keys: result, args: []any{"channel", 1000}},
		{script: script.SemaphoreDelete, there: "permits", fill: fillPermits, keys: append(result, taken), args: []any{1000}},
		{script: script.SemaphoreExpire, there: "permits", fill: fillPermits, keys: append(result, taken), args: []any{1000, 1000}},
		{script: script.SemaphoreTTL, there: "permits", fill: fillCounter, keys: []string{costly}},
		{script: script.LatchSet, there: "counts", fill: fillCounter, keys: result, args: []any{3, "channel", 1000}},
		{script: script.LatchDown, there: "counts", fill: fillCounter, keys: result, args: []any{"channel", 1000}},
		{script: script.LatchReset, there: "counts", fill: fillCounter, keys: result, args: []any{"channel", 1000}},

		{script: script.PermitTake, there: "permits", fill: fillPermits, keys: []string{costly, taken}, args: []any{"aaaaaaaaaaaa", 3, 0, now + 1000, now, "channel", "publish"}},
		{script: script.PermitTake, there: "expired permits", fill: fillExpired, keys: []string{costly, taken}, args: []any{"aaaaaaaaaaaa", 3, 0, now + 1000, now, "channel", "publish"}},
		{
			script: script.PermitTake, there: "debts", fill: fillPermits, keys: []string{costly, taken}, args: []any{"aaaaaaaaaaaa", 3, 0, now + 1000, now, "channel", "publish"},
			per: func(i int) any { return fmt.Sprintf("%012d2", i) },
		},
		{script: script.PermitRelease, there: "permits", fill: fillPermits + fillMine, keys: []string{costly, taken}, args: []any{"aaaaaaaaaaaa3", "channel"}},
		{script: script.PermitRenew, there: "permits", fill: fillPermits + fillMine, keys: []string{taken}, args: []any{3_000_000, now, "aaaaaaaaaaaa3"}},
		{script: script.PermitRenew, there: "holds", fill: fillPermits + fillMine, args: []any{3_000_000, now}, per: func(int) any { return "aaaaaaaaaaaa3" }, perKey: true},
		{script: script.PermitExtend, there: "permits", fill: fillPermits + fillMine, keys: []string{taken}, args: []any{"aaaaaaaaaaaa3", 3_000_000, now}},
		{script: script.PermitSet, there: "permits", fill: fillPermits, keys: append(result, taken), args: []any{20_000, "channel", 1000}},
		{script: script.PermitInspect, there: "expired permits", fill: fillExpired, keys: []string{costly, taken}, args: []any{now}},
		{script: script.PermitFree, there: "permits", fill: fillPermits + fillMine, keys: append(result, taken), args: []any{strings.Repeat("61", 12) + "00000001", now, "channel", 1000}},
		{script: script.PermitSetLease, there: "permits", fill: fillPermits + fillMine, keys: []string{taken, "result"}, args: []any{strings.Repeat("61", 12) + "00000001", 3_000_000, now, 1000}},
		{script: script.PermitDeadline, there: "permits", fill: fillPermits + fillMine, keys: []string{taken}, args: []any{strings.Repeat("61", 12) + "00000001"}},

		{script: script.RwReadReenter, there: "readers", fill: fillReaders, keys: []string{costly, reader}, args: []any{"c:1:1", 2, 2_000_000}},
		{script: script.RwRenew, there: "readers", fill: fillReaders, keys: []string{costly}, args: []any{2_000_000, "c:1:", "1"}},
		{script: script.RwRenew, there: "holds", fill: fillReaders, args: []any{2_000_000, "o:"}, per: func(i int) any { return fmt.Sprint(i + 1) }, perKey: true},
		{script: script.RwWithdraw, there: "writers", fill: fillWriters, keys: []string{"wheellock_writers:{x}"}, args: []any{"w1", "channel"}},
		{script: script.RwRead, there: "writers", fill: fillWriters + ` redis.call('rename', 'wheellock_writers:{x}', KEYS[3])`, keys: []string{costly, reader, writers}, args: append([]any{"c:1:1", 1000, "", 1}, rw...)},
		{script: script.RwWrite, there: "writers", fill: fillWriters + ` redis.call('rename', 'wheellock_writers:{x}', KEYS[2])`, keys: []string{costly, writers}, args: append([]any{"c:1:9:write", 1000, "w1", 1000}, rw...)},
		{
			script: script.RwForce, there: "holds", fill: fillReaders, keys: []string{costly, writers}, args: []any{"channel", "publish", keys.Prefix(costly)}, per: field,
			walks: []string{"hgetall"}, why: "there are no more fields than it names, and 32",
		},

		{script: script.FairForce, there: "fields", fill: fillHash, keys: fairKeys[:2], args: []any{"channel", "publish", "o:1"}},
		{script: script.FairForce, there: "waiters", fill: fillHash + queueOurs, keys: fairKeys, args: []any{"channel", "publish", "o:1"}},
	}
	for there, fill := range map[string]string{"readers": fillReaders, "dead readers": fillDead + ` redis.call('hset', name, 'c:1:1', '1')`, "readers beside a writer": fillWriting} {
		all = append(all,
			cost{script: script.RwRead, there: there, fill: fill, keys: []string{costly, reader, writers}, args: append([]any{"c:1:2", 1000, "", 1}, rw...)},
			cost{script: script.RwRead, there: there + ", and a debt", fill: fill, keys: []string{costly, reader, writers}, args: append(append([]any{"c:1:2", 1000, "", 1}, rw...), "c:1:3")},
			cost{script: script.RwRead, there: there + ", and a writer waits", fill: fill + ` redis.call('hset', KEYS[3], 'w', '1')`, keys: []string{costly, reader, writers}, args: append([]any{"c:1:2", 1000, "", 1}, rw...)},
			cost{script: script.RwWrite, there: there, fill: fill, keys: []string{costly, writers}, args: append([]any{"c:1:8:write", 1000, "w1", 1000}, rw...)},
			cost{script: script.RwReadRelease, there: there, fill: fill, keys: []string{costly, reader, writers}, args: []any{"c:1:1", "channel", keys.Prefix(costly)}},
			cost{script: script.RwWriteRelease, there: there, fill: fill, keys: []string{costly, writers}, args: []any{"c:1:9:write", "channel", keys.Prefix(costly)}},
			cost{script: script.RwForce, there: there, fill: fill, keys: []string{costly, writers}, args: []any{"channel", "publish", keys.Prefix(costly), "c:1:1"}},
		)
	}
	signs := func(i int) any { return []any{fmt.Sprint("j:", i/2+1), 2}[i%2] } // a field, and its number
	free, held := "", `redis.call('hset', name, 'o:1', '1') redis.call('pexpire', name, 1000000) `
	for there, fill := range map[string]string{"of Redisson": queueJava, "of Redisson whose time is over": queueSwept, "of ours": queueOurs, "of ours that may be dead": queueMayDead} {
		for state, lock := range map[string]string{"free": free, "held": held} {
			what := "waiters " + there + ", " + state
			all = append(all,
				cost{script: script.FairTake, there: what, fill: lock + fill, keys: append(fairKeys, keys.Counter), args: fairTake("")},
				cost{script: script.FairTake, there: what + ", with a place", fill: lock + fill, keys: append(fairKeys, keys.Counter), args: fairTake("1 a")},
				cost{script: script.FairSign, there: what, fill: lock + fill, keys: fairKeys, args: []any{now, 300_000, 100_000, 116_000, " a", "j:9", 2}},
				cost{script: script.FairRelease, there: what, fill: lock + fill, keys: fairKeys, args: []any{"o:1", "channel", now, 58_000, "publish"}},
				cost{
					script: script.FairRelease, there: what + ", one leaves", fill: lock + fill, keys: fairKeys, args: []any{"o:1", "channel", now, 58_000, "publish", "j:9"},
					walks: []string{"lrem"}, why: walksQueue,
				},
			)
			through := cost{script: script.FairTake, there: what + ", all looked through", fill: lock + fill, keys: append(fairKeys, keys.Counter), args: fairTake("0 a")}
			if !strings.Contains(fill, "@") { // a queue with only our waiters is not read if it is long
				through.walks, through.every, through.why = []string{"lrange"}, 16, "the longer the queue is, the more seldom it is looked through"
			}
			all = append(all, through)
		}
	}
	return append(all, cost{
		script: script.FairSign, there: "signs", fill: held + queueOurs, keys: fairKeys, args: []any{now, 300_000, 100_000, 116_000, " a"},
		per: signs,
	}, cost{
		script: script.FairRelease, there: "who leave", fill: queueOurs, keys: fairKeys, args: []any{"o:1", "channel", now, 58_000, "publish"},
		per: func(i int) any { return fmt.Sprint("j:", i+1) }, walks: []string{"lrange", "lrem"}, why: "they leave",
	})
}

// walkers are commands that may read a whole key.
var walkers = []string{"hgetall", "hkeys", "hvals", "lrange", "lrem", "linsert", "keys", "smembers", "sort", "hscan"}

var stat = regexp.MustCompile(`cmdstat_([^:]+):calls=(\d+),usec=(\d+)`)

// asks removes calls of walkers that read at most one element, and the question for the clock.
var asks = strings.NewReplacer(
	"errorIfForbidden('lrem', counter, 1, '')", "nil",
	"errorIfForbidden('linsert', counter, 'before', '', '') or errorIfForbidden('lrange', queue, 0, 0)", "nil",
	"redis.call('lrange', queue, 0, 0) ", "",
	asksTime, refusesTime,
)

// With refusesTime in place of asksTime, a script goes by the client's clock.
const (
	asksTime    = "local time = redis.pcall('time')"
	refusesTime = "local time = {err = 'the clock is an argument'}"
)

// byClientsClock returns the text of a script that goes by the client's clock.
func byClientsClock(s *script.Script) string {
	return strings.ReplaceAll(s.Text(), asksTime, refusesTime)
}

// commands runs the script among n others. It returns how often the script called each command, and
// how long Redis took.
func (c cost) commands(t *testing.T, conn redis.Conn, n int) (calls map[string]int, usec int) {
	t.Helper()
	fixture.DoOn(t, conn, "FLUSHALL")
	names, args := slices.Clone(c.keys), slices.Clone(c.args)
	if c.per != nil {
		for i := range n {
			if args = append(args, c.per(i)); c.perKey {
				names = append(names, map[*script.Script]string{script.PermitRenew: keys.PermitsTaken(costly)}[c.script])
				if names[i] == "" {
					names[i] = costly
				}
			}
		}
	}
	of := func(code any, names []string, args []any) []any {
		all := []any{code, len(names)}
		for _, name := range names {
			all = append(all, name)
		}
		return append(all, args...)
	}
	fixture.DoOn(t, conn, "EVAL", of("local name, n = 'x', tonumber(ARGV[1]) "+c.fill, c.keys, []any{n})...)
	if c.script.Expires() {
		args = append(args, 0)
	}
	sha := fixture.DoOn(t, conn, "SCRIPT", "LOAD", asks.Replace(c.script.Text()))
	fixture.DoOn(t, conn, "CONFIG", "RESETSTAT")
	_, err := conn.Do("EVALSHA", of(sha, names, args)...)
	require.NoError(t, err)
	info, err := redis.String(conn.Do("INFO", "commandstats"))
	require.NoError(t, err)
	calls = map[string]int{}
	for _, m := range stat.FindAllStringSubmatch(info, -1) {
		switch n, _ := strconv.Atoi(m[2]); m[1] {
		case "evalsha":
			usec, _ = strconv.Atoi(m[3])
		case "info", "config|resetstat", "config":
		default:
			calls[m[1]] = n
		}
	}
	return calls, usec
}

func total(calls map[string]int) (n int) {
	for _, of := range calls {
		n += of
	}
	return n
}

// TestWhatAScriptCostsIsBounded, no matter how many others are or were there, and what they have
// written. A cost that grows with the script's own arguments grows no faster than their number. With
// -v the test prints the exact number of commands that a script calls, and the time of Redis in us.
func TestWhatAScriptCostsIsBounded(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t))
	seen := map[string]bool{}
	for _, c := range costs() {
		seen[c.script.Name()] = true
		sizes := []int{10, 1000, 10_000}
		if c.per != nil {
			sizes = []int{10, 100, 1000}
		}
		t.Run(c.script.Name()+" "+c.there, func(t *testing.T) {
			var n, usec [3]int
			var last map[string]int
			for i, size := range sizes {
				last, usec[i] = c.commands(t, conn, size)
				n[i] = total(last)
			}
			t.Logf("%v: %v commands, %v us", sizes, n, usec)
			for _, command := range walkers {
				if command == "hscan" && !fixture.HasAbilities(t, redistest.RandomFields) {
					continue // HSCAN replaces HRANDFIELD, and reads a page
				}
				if !slices.Contains(c.walks, command) {
					require.Zero(t, last[command], "%s looks at all", command)
				}
			}
			switch {
			case c.per != nil:
				require.LessOrEqual(t, float64(n[2])/1000, 1.1*max(float64(n[0])/10, float64(n[1])/100), "%v", last)
			case c.every != 0:
				require.LessOrEqual(t, n[2], 10_000*5, "%v", last)
			default:
				require.LessOrEqual(t, n[2], n[1]+n[1]/10+10, "%v", last)
				require.LessOrEqual(t, n[2], costsOneCall, "%v", last)
			}
		})
	}
	for _, s := range script.All() {
		require.True(t, seen[s.Name()], "%s is not in the table", s.Name())
	}
}
