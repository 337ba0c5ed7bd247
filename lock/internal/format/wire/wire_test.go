package wire_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/wire"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

const ms = time.Millisecond

// newList returns a list as redigo returns it for an answer.
func newList(values ...any) []any {
	all := []any{}
	for _, v := range values {
		switch v := v.(type) {
		case int:
			all = append(all, int64(v))
		case string:
			all = append(all, []byte(v))
		default:
			all = append(all, v)
		}
	}
	return all
}

// odd are answers that no script returns.
var odd = []any{
	nil, int64(1), int64(-1), []byte("1"), "OK", redis.Error("ERR"),
	[]any{},
	newList(1), newList(nil), newList("1", "2"), newList(1, "2"), newList("1", 2),
	newList(1, 2, 3, 4, 5, 6, 7), newList(newList(1), 2), newList(1, nil, 3), newList(2), newList(1, "x", "y", "z"),
}

func TestReadersOfOddAnswersSaySo(t *testing.T) {
	for _, reply := range odd {
		for name, read := range map[string]func(any) bool{
			"acquire":        func(r any) bool { return wire.ReadAcquire("acquire", resp.ReplyOf(r)).Result != wire.Unknown },
			"handoff":        func(r any) bool { _, _, ok := wire.ReadReleased(resp.ReplyOf(r)); return ok },
			"fair_take":      func(r any) bool { o, _ := wire.ReadFair(resp.ReplyOf(r)); return o.Result != wire.Unknown },
			"permit_take":    func(r any) bool { return wire.ReadPermits("acquire", resp.ReplyOf(r)).Result != wire.Unknown },
			"permit_inspect": func(r any) bool { _, _, _, ok := wire.ReadPermitInfo(r); return ok },
			"semaphore_take": func(r any) bool { return wire.ReadTaken("drain", resp.ReplyOf(r)).Result != wire.Unknown },
			"uptime":         func(r any) bool { _, ok := wire.ReadUptime(r); return ok },
		} {
			require.False(t, read(reply), "%s: %v", name, reply)
		}
	}
}

func TestReadAcquire(t *testing.T) {
	granted := func(token, reserved int64) wire.Outcome {
		return wire.Outcome{Result: wire.Granted, Token: token, Reserved: reserved}
	}
	refused := func(ttl time.Duration, by wire.Holder) wire.Outcome {
		return wire.Outcome{Result: wire.Refused, TTL: ttl, Next: ttl, By: by}
	}
	for _, test := range []struct {
		reply any
		want  wire.Outcome
	}{
		{newList(1, 7), granted(7, 0)},
		{newList(1, 7, 3), granted(7, 3)},
		{newList(1, 7, 0), granted(7, 0)},
		{newList(1, 7, -1), wire.OddAnswer("acquire", newList(1, 7, -1))},
		{newList(1, 7, "3"), wire.OddAnswer("acquire", newList(1, 7, "3"))},
		{newList(1, 0), wire.OddAnswer("acquire", newList(1, 0))},
		{newList(2, 7), wire.OddAnswer("acquire", newList(2, 7))},
		{newList(0, 1500), refused(1500*ms, wire.Another)},
		{newList(0, 0), refused(0, wire.Another)},
		{newList(0, -1), refused(-1, wire.Another)},
		{newList(0, -2), refused(-1, wire.Another)},
		{newList(0, 5, 1), refused(5*ms, wire.Foreign)},
		{newList(0, 5, 2), refused(5*ms, wire.Stranger)},
	} {
		require.Equal(t, test.want, wire.ReadAcquire("acquire", resp.ReplyOf(test.reply)), "%v", test.reply)
	}
}

func TestReadPresence(t *testing.T) {
	require.Equal(t, wire.Outcome{Result: wire.Granted}, wire.ReadPresence("extend", resp.ReplyOf(int64(1))))
	require.Equal(t, wire.Outcome{Result: wire.Gone}, wire.ReadPresence("extend", resp.ReplyOf(int64(0))))
	for _, reply := range []any{nil, int64(2), int64(-1), "OK", newList(1)} {
		require.Equal(t, wire.OddAnswer("extend", reply), wire.ReadPresence("extend", resp.ReplyOf(reply)))
	}
	require.EqualError(t, wire.OddAnswer("extend", int64(2)).Cause, `unexpected answer "2"`)
}

// TestATTLThatNoDurationCanSayIsVeryLong: Redis has TTLs of more than 292 years, which do not fit into a
// Duration. The Duration that stands for them is short enough to add a year to it.
func TestATTLThatNoDurationCanSayIsVeryLong(t *testing.T) {
	const century = 100 * 365 * 24 * time.Hour
	for _, years := range []int64{200, 292, 293, 585, 1_000_000, 292_000_000} {
		pttl := years * 365 * 24 * 3_600_000
		r := wire.ReadAcquire("acquire", resp.ReplyOf(newList(0, pttl)))
		f, queue := wire.ReadFair(resp.ReplyOf(newList(0, pttl, "first", "3/100", 0)))
		p := wire.ReadPermits("acquire", resp.ReplyOf(newList(0, 0, pttl)))
		_, await, ok4 := wire.ReadReleased(resp.ReplyOf(newList(2, 3, pttl)))
		key, ok5 := wire.ReadKey(newList(pttl, "value"))
		require.Equal(t, []bool{true, true}, []bool{ok4, ok5})
		for i, ttl := range []time.Duration{wire.TTL(pttl), r.TTL, r.Next, f.TTL, queue.TTL, p.Next, await, key.TTL} {
			require.Greater(t, ttl, century, "%d: %d years", i, years)
			require.Greater(t, ttl+365*24*time.Hour, ttl, "%d: %d years", i, years)
		}
	}
	require.Equal(t, century, wire.TTL(century.Milliseconds()))
	require.EqualValues(t, -1, wire.TTL(-1))
	require.EqualValues(t, -1, wire.TTL(-2))
}

func TestReadOthers(t *testing.T) {
	told, wait, released := wire.ReadReleased(resp.ReplyOf(newList(2, 3, 40)))
	require.True(t, released)
	require.EqualValues(t, 3, told)
	require.Equal(t, 40*ms, wait)
	_, _, released = wire.ReadReleased(resp.ReplyOf(newList(1, 3, 40)))
	require.False(t, released)

	o, _ := wire.ReadFair(resp.ReplyOf(newList(1, 9)))
	require.Equal(t, wire.Outcome{Result: wire.Granted, Token: 9}, o)
	o, _ = wire.ReadFair(resp.ReplyOf(newList(1, 0)))
	require.Equal(t, wire.Unknown, o.Result)
	for pttl, want := range map[int]time.Duration{-2: wire.FairFree, -1: wire.FairNoTTL, 0: 0, 20: 20 * ms} {
		o, q := wire.ReadFair(resp.ReplyOf(newList(0, pttl, "first", "3/100", 1)))
		require.Equal(t, wire.FairQueue{TTL: want, First: "first", Sign: "3/100", Foreign: true}, q)
		if want == wire.FairFree {
			want = 0
		}
		require.Equal(t, wire.Outcome{Result: wire.Refused, TTL: want, Next: -1, By: wire.Foreign}, o)
	}
	o, _ = wire.ReadFair(resp.ReplyOf(newList(1, 5, "first", "3/100", 0)))
	require.Equal(t, wire.Unknown, o.Result)
	o, q, left := wire.ReadFairSign(resp.ReplyOf(newList(20, "first", "3/100", "01")), 2)
	require.Equal(t, wire.Outcome{Result: wire.Refused, TTL: 20 * ms, Next: -1}, o)
	require.Equal(t, wire.FairQueue{TTL: 20 * ms, First: "first", Sign: "3/100"}, q)
	require.Equal(t, []bool{false, true}, left)

	for left, want := range map[int]time.Duration{-1: -1, 0: ms, 9: 10 * ms} {
		o := wire.ReadPermits("acquire", resp.ReplyOf(newList(2, 3, left)))
		require.Equal(t, wire.Outcome{Result: wire.Granted, Taken: 2, Free: 3, Next: want}, o)
		o = wire.ReadPermits("acquire", resp.ReplyOf(newList(0, 3, left)))
		require.Equal(t, wire.Outcome{Result: wire.Refused, Free: 3, Next: want}, o)
	}
	exists, free, taken, ok := wire.ReadPermitInfo(newList(1, 2, 3))
	require.Equal(t, []any{true, int64(2), int64(3), true}, []any{exists, free, taken, ok})
	exists, _, _, _ = wire.ReadPermitInfo(newList(0, 0, 0))
	require.False(t, exists)
	require.Equal(t, wire.Outcome{Result: wire.Granted, Taken: 4, Free: 5}, wire.ReadTaken("drain", resp.ReplyOf(newList(4, 5))))
	require.Equal(t, wire.OddAnswer("drain", newList(4)), wire.ReadTaken("drain", resp.ReplyOf(newList(4))))
	u, ok := wire.ReadUptime(newList(60, "run", "replication", 1))
	require.True(t, ok)
	require.Equal(t, wire.UptimeAnswer{Up: time.Minute, Server: "run", Replication: "replication", State: wire.Heir}, u)
	for _, reply := range []any{
		nil, int64(1), newList(), newList(60, "run"), newList("1", "run", "replication", 0), newList(60, 1, "replication", 0),
		newList(60, "run", nil, 0), newList(60, "run", "replication", nil),
	} {
		_, ok := wire.ReadUptime(reply)
		require.False(t, ok, "%v", reply)
	}

	for _, reply := range []any{nil, newList(), newList("x"), newList(1, 2, 3, 4), newList(1, 2), int64(1)} {
		answer, there, ok := wire.ReadGuard(reply)
		switch reply := reply.(type) {
		case []any:
			if len(reply) > 0 && reflect.DeepEqual(reply[0], int64(1)) {
				require.Equal(t, []any{int64(2), true, true}, []any{answer, there, ok})
				continue
			}
		}
		require.False(t, ok)
	}
	_, there, ok := wire.ReadGuard(newList(0))
	require.True(t, ok)
	require.False(t, there)
	answer, there, ok := wire.ReadGuard(newList(1))
	require.True(t, ok && there)
	require.Nil(t, answer)
}

func TestReadKey(t *testing.T) {
	for _, test := range []struct {
		reply any
		want  wire.Key
		ok    bool
	}{
		{newList(-2), wire.Key{}, true},
		{newList(500), wire.Key{}, true},
		{newList(500, 1), wire.Key{There: true, Foreign: true, TTL: 500 * ms}, true},
		{newList(-1, 1), wire.Key{}, false},
		{newList(500, "f", "1"), wire.Key{There: true, TTL: 500 * ms, Fields: []wire.Field{{"f", "1"}}}, true},
		{newList(-1, "mode", "read", "f", "1"), wire.Key{There: true, TTL: -1, Fields: []wire.Field{{"mode", "read"}, {"f", "1"}}}, true},
		{newList(-2, "f", "1"), wire.Key{}, true},
		{newList(500, "f", 1), wire.Key{}, false},
		{newList("x", "f", "1"), wire.Key{}, false},
		{newList(), wire.Key{}, false},
		{nil, wire.Key{}, false},
	} {
		key, ok := wire.ReadKey(test.reply)
		require.Equal(t, test.ok, ok, "%v", test.reply)
		require.Equal(t, test.want, key, "%v", test.reply)
	}
	many := newList(500)
	for i := range wire.MaxInspected - 1 {
		many = append(many, []byte(fmt.Sprint(i)), []byte("1"))
	}
	key, ok := wire.ReadKey(many)
	require.True(t, ok)
	require.False(t, key.More)
	key, ok = wire.ReadKey(append(many, []byte("mode"), []byte("read")))
	require.True(t, ok)
	require.True(t, key.More)
}

func TestMintingWithoutTheCounter(t *testing.T) {
	for _, call := range []wire.Call{
		wire.Acquire{Name: "m", Counter: "c", Field: []byte("f"), Lease: time.Second, Least: 9, More: 2}.Call(),
		wire.Acquire{Name: "m", Counter: "c", Field: []byte("f"), Lease: time.Second, Least: 9, More: 2, Again: 5 * ms}.Call().With([]string{"owed"}),
		wire.Handoff{Name: "m", Counter: "c", From: "f", To: "g", Lease: time.Second, Least: 9, End: &wire.EndOfRun{}}.Call(),
	} {
		alone := call.Alone()
		require.Equal(t, 1, alone.Keys)
		require.Equal(t, append([]string{"m"}, call.Args.Strings()[call.Keys:]...), alone.Args.Strings())
		require.Equal(t, len(alone.Args.Strings()), alone.Args.Len())
		require.EqualValues(t, 9, alone.Least)
		require.Equal(t, "c", call.Args.Strings()[1], "the call is as it was")
	}
}

// TestALockAndAnUnlockNeedOneAllocationEach, for their arguments.
func TestALockAndAnUnlockNeedOneAllocationEach(t *testing.T) {
	field := []byte("2HqPfYVnKJd1c2Jm2OHl3dw1e2g3@web-1:17:4")
	for name, call := range map[string]func() wire.Call{
		"acquire": func() wire.Call { return wire.Acquire{Name: "m", Counter: "c", Field: field, Least: 9}.Call() },
		"release": func() wire.Call { return wire.Release("m", field, nil) },
	} {
		require.LessOrEqual(t, testing.AllocsPerRun(100, func() {
			if call().Args.Len() < 3 {
				panic("arguments are missing")
			}
		}), 1.0, name)
	}
}

func TestALeastTokenIsBelow2To53(t *testing.T) {
	require.EqualValues(t, 1<<20|250_000, wire.LeastToken(time.Unix(1, 250_000_000)))
	require.Zero(t, wire.LeastToken(time.Unix(-5, 0)))
	require.Less(t, wire.LeastToken(time.Unix(1<<40, 999_999_999)), int64(1)<<53)
}

func TestASignNamesItsPeriod(t *testing.T) {
	require.Equal(t, "7/150", wire.Sign(7, 150*ms))
	for sign, want := range map[string]time.Duration{"7/150": 150 * ms, "7/0": ms, "7/99999": time.Second, "7": time.Second, "": time.Second, "a/b": time.Second} {
		require.Equal(t, want, wire.PeriodOf(sign, time.Second), sign)
	}
}

// TestACallHasAsManyKeysAsItsScript: the header of a script numbers its keys and arguments.
func TestACallHasAsManyKeysAsItsScript(t *testing.T) {
	const n, f = "m", "f"
	once := func(s *script.Script, keys []string, args ...any) wire.Call {
		o := wire.Once{Script: s, Object: n, Result: "r", Keys: keys, Args: args, Keep: time.Second}
		if s.Publishes() {
			o.Publish = "spublish"
		}
		return o.Call()
	}
	one := []string{"k"}
	for _, call := range []wire.Call{
		wire.Acquire{Name: n, Again: ms}.Call(), wire.Handoff{Name: n, End: &wire.EndOfRun{Publish: "p"}}.Call(), wire.Token("c", 1),
		wire.Reenter(n, f, 1, ms), wire.Release(n, []byte(f), "spublish"), wire.Force(n, "publish"), wire.Guard(n, n, f, "SET", nil, nil), wire.Inspect(n),
		wire.FairTake{Name: n}.Call(), wire.FairRelease(n, f, time.Now(), ms, "publish"), wire.FairForce(n, "publish"),
		wire.Read{Name: n, Publish: "p"}.Call(), wire.Write{Name: n, Publish: "p"}.Call(), wire.ReadReenter(n, f, 1, ms),
		wire.ReadRelease(n, f, "spublish"), wire.WriteRelease(n, f, "spublish"), wire.Withdraw(n, f, "spublish"), wire.RWForce(n, "publish"),
		wire.PermitTake{Name: n, Publish: "p"}.Call(), wire.PermitRelease(n, f, "spublish"), wire.PermitExtend(n, f, ms, time.Now()),
		wire.PermitInspect(n, time.Now()), wire.PermitDeadline(n, "id"), wire.SemaphoreTTL(n), wire.Count(n), wire.Uptime(n), wire.KeyTTL(n),
		wire.SemaphoreUndo(n, "r", ms, "spublish"), once(script.SemaphoreTake, nil, "1"), once(script.SemaphoreAdd, nil, 1, "c"),
		once(script.SemaphoreSet, nil, 1, "c"), once(script.SemaphoreRelease, nil, 1, "c"), once(script.LatchSet, nil, 1, "c"),
		once(script.LatchDown, nil, "c"), once(script.LatchReset, nil, "c"), once(script.PermitSet, one, 1, "c"),
		once(script.PermitFree, one, "ids", 1, "c"), once(script.PermitSetLease, nil, "id", 2, 1),
		once(script.SemaphoreDelete, one), once(script.SemaphoreExpire, one, 5),
	} {
		text := call.Script.Text()
		if i := strings.LastIndex(text, "\n-- KEYS[1]"); i > 0 { // the header of the script itself, behind the headers of the code that it includes
			text = text[i:]
		}
		require.Contains(t, text, fmt.Sprintf("KEYS[%d]", call.Keys), call.Script.Name())
		require.NotContains(t, text, fmt.Sprintf("-- KEYS[%d] ", call.Keys+1), call.Script.Name())
		require.NotContains(t, text, fmt.Sprintf("-- KEYS[%d]  ", call.Keys+1), call.Script.Name())
		argv := call.Args.Len() - call.Keys
		if argv > 0 && call.Script != script.Guard {
			require.Regexp(t, fmt.Sprintf(`ARGV\[%d\+?\]`, argv), text, call.Script.Name())
		}
	}
}

func TestReadKeyTTL(t *testing.T) {
	for pttl, want := range map[int]time.Duration{-2: 0, -1: -1, 0: 0, 1: time.Millisecond, 30_000: 30 * time.Second} {
		got, ok := wire.ReadKeyTTL(resp.ReplyOf(int64(pttl)))
		require.True(t, ok)
		require.Equal(t, want, got, pttl)
	}
	for _, reply := range []any{nil, "1", int64(-3), newList(1)} {
		_, ok := wire.ReadKeyTTL(resp.ReplyOf(reply))
		require.False(t, ok, "%v", reply)
	}
}
