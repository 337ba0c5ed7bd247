package script_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// needsMemory are the scripts that full memory may refuse, because they take or make something.
// The others that write release, extend, delete or keep something.
var needsMemory = strings.Fields(`acquire handoff guard token fair_take rw_read rw_write semaphore_set semaphore_take latch_set permit_set permit_take`)

// readsOnly are the scripts that write nothing, and check, which only tries rights.
var readsOnly = strings.Fields(`inspect ttl semaphore_ttl count permit_inspect permit_deadline uptime check`)

// TestFullMemoryRefusesNoReleaseAndNoExtension: each script that is in neither list has the same answer
// whether memory is full or not. Full memory refuses a script's first write, if that may need memory.
func TestFullMemoryRefusesNoReleaseAndNoExtension(t *testing.T) {
	const x, field, writing = "x", "c:1:1", "c:1:1:write"
	const id, permit = "123456789012", "123456789012\x00\x00\x00\x01"
	fair := []string{x, keys.FairQueue(x), keys.FairScores(x), keys.FairSigns(x)}
	reader, writers, taken := keys.RWReader(x, field), keys.RWWriters(x), keys.PermitsTaken(x)
	held := "HSET x c:1:1 2|PEXPIRE x 100000"
	reading := held + "|HSET x mode read|SET " + reader + " 1 PX 100000"
	waits := "|RPUSH " + fair[1] + " d:1:1|ZADD " + fair[2] + " 2000000 d:1:1|HSET " + fair[3] + " d:1:1 1@1000000/2000"
	permits := "SET x 1|ZADD " + taken + " 1100000 " + permit
	tried := map[string]bool{"fair_sign": true} // by TestASignOfLifeNeedsNoMemory
	conn := fixture.Dial(t, fixture.Server(t))
	for _, c := range []struct {
		script *script.Script
		before string
		keys   []string
		args   []any
	}{
		{script.Release, held, []string{x}, []any{field, "channel", "publish"}},
		{script.Reenter, held, []string{x}, []any{field, 2, 200_000}},
		{script.Renew, held, []string{x}, []any{200_000, "c:", "1:1"}},
		{script.Force, held, []string{x}, []any{"channel", "publish"}},
		{script.FairRelease, held + waits, fair, []any{field, "channel", 1_000_000, 58_000, "publish"}},
		{script.FairForce, held + waits, fair[:2], []any{"channel", "publish"}},
		{script.RwReadReenter, reading, []string{x, reader}, []any{field, 2, 200_000}},
		{script.RwReadRelease, reading, []string{x, reader, writers}, []any{field, "channel", keys.Prefix(x), "publish"}},
		{script.RwWriteRelease, "HSET x mode write " + writing + " 1", []string{x, writers}, []any{writing, "channel", keys.Prefix(x), "publish"}},
		{script.RwWithdraw, "HSET " + writers + " w1 1", []string{writers}, []any{"w1", "channel", "publish"}},
		{script.RwRenew, reading, []string{x}, []any{200_000, "c:", "1:1"}},
		{script.RwForce, reading, []string{x, writers}, []any{"channel", "publish", keys.Prefix(x)}},
		{script.SemaphoreAdd, "SET x 1", []string{x, "result"}, []any{2, "channel", 30_000, "publish"}},
		{script.SemaphoreAdd, "SET x 1", []string{x, "result"}, []any{2147483647, "channel", 30_000, "publish"}},
		{script.SemaphoreRelease, "SET x 1", []string{x, "result"}, []any{2, "channel", 30_000, "publish"}},
		{script.SemaphoreRelease, "DEL x", []string{x, "result"}, []any{2, "channel", 30_000, "publish"}},
		{script.SemaphoreUndo, "SET x 1|SET result 2", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.SemaphoreUndo, "SET x 1", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.SemaphoreDelete, "SET x 1", []string{x, "result"}, []any{30_000}},
		{script.SemaphoreExpire, "SET x 1", []string{x, "result"}, []any{60_000, 30_000}},
		{script.LatchDown, "SET x 2", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.LatchDown, "SET x 1", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.LatchDown, "DEL x", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.LatchReset, "SET x 2", []string{x, "result"}, []any{"channel", 30_000, "publish"}},
		{script.PermitRelease, permits, []string{x, taken}, []any{id + "1", "channel", "publish"}},
		{script.PermitRenew, permits, []string{taken}, []any{1_200_000, 1_000_000, id + "1"}},
		{script.PermitExtend, permits, []string{taken}, []any{id + "1", 1_200_000, 1_000_000}},
		{script.PermitFree, permits, []string{x, "result", taken}, []any{permit, 1_000_000, "channel", 30_000, "publish"}},
		{script.PermitFree, "SET x 1", []string{x, "result", taken}, []any{permit, 1_000_000, "channel", 30_000, "publish"}},
		{script.PermitSetLease, permits, []string{taken, "result"}, []any{permit, 1_200_000, 1_000_000, 30_000}},
		{script.PermitSetLease, "SET x 1", []string{taken, "result"}, []any{permit, 1_200_000, 1_000_000, 30_000}},
	} {
		tried[c.script.Name()] = true
		args := redis.Args{byClientsClock(c.script), len(c.keys)}.AddFlat(c.keys).AddFlat(c.args)
		if c.script.Expires() {
			args = args.Add(0)
		}
		answer := func(memory int) any {
			fixture.DoOn(t, conn, "CONFIG", "SET", "maxmemory", 0)
			fixture.DoOn(t, conn, "FLUSHALL")
			for command := range strings.SplitSeq(c.before, "|") {
				words := strings.Split(command, " ")
				fixture.DoOn(t, conn, words[0], redis.Args{}.AddFlat(words[1:])...)
			}
			fixture.DoOn(t, conn, "CONFIG", "SET", "maxmemory", memory)
			return fixture.DoOn(t, conn, "EVAL", args...)
		}
		require.Equal(t, answer(0), answer(1), "%s after %q", c.script.Name(), c.before)
	}
	for _, s := range script.All() {
		releases := !slices.Contains(needsMemory, s.Name()) && !slices.Contains(readsOnly, s.Name())
		require.Equal(t, releases, tried[s.Name()], s.Name())
	}
}
