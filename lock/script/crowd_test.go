package script_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// crowd is a read-write lock of many readers.
type crowd struct {
	t    *testing.T
	conn redis.Conn
	text func(string) string // changes a script before it is sent
}

const crowded = "crowded"

// server60 changes a script as if its server were older than 6.2, which has no HRANDFIELD.
func server60(text string) string { return strings.ReplaceAll(text, "'hrandfield'", "'hrandfield62'") }

// unpermitted changes a script as if its user had no right to HRANDFIELD and HSCAN.
func unpermitted(text string) string {
	return strings.ReplaceAll(server60(text), "'hscan'", "'hscan0'")
}

func newCrowd(t *testing.T, text func(string) string) *crowd {
	return &crowd{t: t, conn: fixture.Dial(t, fixture.Server(t)), text: text}
}

func (c *crowd) do(command string, args ...any) any {
	c.t.Helper()
	return fixture.DoOn(c.t, c.conn, command, args...)
}

// read adds n readers, whose fields begin with begin. Without a lease they are dead.
func (c *crowd) read(begin string, n int, lease int) {
	c.t.Helper()
	c.do("EVAL", `
		redis.call('hset', KEYS[1], 'mode', 'read')
		for i = 1, ARGV[2] do
			local field = ARGV[1] .. ':' .. i
			redis.call('hset', KEYS[1], field, '1')
			if ARGV[3] ~= '0' then
				redis.call('set', '{' .. KEYS[1] .. '}:' .. field .. ':rwlock_timeout:1', '1', 'px', ARGV[3])
			end
		end
		if ARGV[3] ~= '0' and redis.call('pttl', KEYS[1]) < tonumber(ARGV[3]) then
			redis.call('pexpire', KEYS[1], ARGV[3])
		end`, 1, crowded, begin, n, lease)
}

// run sends a script.
func (c *crowd) run(s *script.Script, names []string, args ...any) any {
	c.t.Helper()
	all := []any{c.text(s.Text()), len(names)}
	for _, name := range names {
		all = append(all, name)
	}
	if all = append(all, args...); s.Expires() {
		all = append(all, 0)
	}
	return c.do("EVAL", all...)
}

// release ends a reader's hold.
func (c *crowd) release(field string) int64 {
	c.t.Helper()
	return c.run(script.RwReadRelease, []string{crowded, keys.RWReader(crowded, field), keys.RWWriters(crowded)},
		field, keys.RWChannel(crowded), keys.Prefix(crowded), "publish").(int64)
}

// write tries to write.
func (c *crowd) write() bool {
	c.t.Helper()
	reply := c.run(script.RwWrite, []string{crowded, keys.RWWriters(crowded)},
		"c:1:1:write", 30_000, "w", 20_000, keys.Prefix(crowded), keys.RWChannel(crowded), "publish")
	return reply.([]any)[0].(int64) == 1
}

func (c *crowd) fields() int64 { return c.do("HLEN", crowded).(int64) }
func (c *crowd) left() int64   { return c.do("PTTL", crowded).(int64) }

const hour = 3_600_000

// TestADeadCrowdDoesNotKeepTheLock: a process was killed with many read holds, and the only
// living reader, with a lease of an hour, unlocks. One script looks at up to a thousand holds
// and then deletes the lock. If there are more, writers delete it in a few tries.
func TestADeadCrowdDoesNotKeepTheLock(t *testing.T) {
	for name, text := range map[string]func(string) string{
		"HRANDFIELD": strings.Clone,
		"HSCAN":      server60,
		// As Redis 5 and 6 do with lua-replicate-commands no.
		"effects are replicated only if a script asks": func(text string) string { return older + text },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{40, 1000, 10_000} {
				c := newCrowd(t, text)
				c.read("dead:1", n, 0)
				c.read("c:2", 1, hour)
				require.Positive(t, c.release("c:2:1"))
				if n <= 1000 {
					require.Zero(t, c.fields(), "%d were dead", n)
					require.True(t, c.write())
					continue
				}
				require.InDelta(t, n-1024, c.fields(), 1024/16*2, "the mode and the field that goes may be drawn, too")
				require.Less(t, c.fields(), int64(n))
				require.Greater(t, c.left(), int64(hour-100_000))
				tries := 1
				for ; !c.write(); tries++ {
					require.Less(t, tries, 12)
				}
				t.Logf("a writer had the lock of %d dead readers at its try %d", n, tries)
			}
		})
	}
}

// TestARefusedReaderLooksForTheDeadToo: a waiting writer keeps the reader out.
func TestARefusedReaderLooksForTheDeadToo(t *testing.T) {
	c := newCrowd(t, strings.Clone)
	c.read("dead:1", 1000, 0)
	c.do("PEXPIRE", crowded, hour)
	c.do("HSET", keys.RWWriters(crowded), "w", "1")
	reply := c.run(script.RwRead, []string{crowded, keys.RWReader(crowded, "c:1:1"), keys.RWWriters(crowded)},
		"c:1:1", 30_000, "", 1, keys.Prefix(crowded), keys.RWChannel(crowded), "publish")
	require.Equal(t, []any{int64(0), int64(-1)}, reply, "the writer goes first")
	require.Zero(t, c.fields(), "but nobody reads")
	require.True(t, c.write())
}

// TestALivingCrowdIsLeftAlone: no field is deleted, and the TTL of the lock stays.
func TestALivingCrowdIsLeftAlone(t *testing.T) {
	for name, text := range map[string]func(string) string{"HRANDFIELD": strings.Clone, "HSCAN": server60, "neither": unpermitted} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int{40, 1000} {
				c := newCrowd(t, text)
				c.read("c:1", n, 100_000)
				c.read("c:2", 2, hour)
				require.Equal(t, int64(1), c.release("c:2:1"))
				require.False(t, c.write())
				require.Equal(t, int64(n+2), c.fields())
				require.Greater(t, c.left(), int64(hour-100_000))
				for i := 1; i <= n-32; i++ {
					c.release(fmt.Sprint("c:1:", i))
				}
				require.Greater(t, c.left(), int64(hour-100_000))
				require.Equal(t, int64(34), c.fields())
				c.release("c:2:2")
				require.Less(t, c.left(), int64(100_001), "of 32 the longest counts")
				require.Greater(t, c.left(), int64(0))
			}
		})
	}
}

// TestWhenTheCrowdIsOneNoMoreTheLongestCounts: refused tries find the dead readers among the
// living, and then the lock lives no longer than the living.
func TestWhenTheCrowdIsOneNoMoreTheLongestCounts(t *testing.T) {
	for name, text := range map[string]func(string) string{"HRANDFIELD": strings.Clone, "HSCAN": server60} {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(t, text)
			c.read("dead:1", 40, 0)
			c.read("c:1", 3, 100_000)
			c.do("PEXPIRE", crowded, hour)
			tries := 0
			for ; c.left() > 100_000; tries++ {
				require.Less(t, tries, 10_000)
				require.False(t, c.write())
				c.do("HSET", crowded, "mode", "read") // HSCAN begins elsewhere each millisecond
			}
			require.LessOrEqual(t, c.fields(), int64(33))
			for i := 1; i <= 3; i++ {
				require.Equal(t, int64(1), c.do("HEXISTS", crowded, fmt.Sprint("c:1:", i)))
			}
		})
	}
}

// TestRedissonsReentriesCount: a reader of Redisson has a timeout for each entry, and any of them may
// be the longest. So the reader lives as long as any of them, in a crowd and without one. If there are
// more timeouts than a script looks at, the TTL of the lock is not shortened.
func TestRedissonsReentriesCount(t *testing.T) {
	const java = "java:7"
	for _, n := range []int{0, 1000} {
		for longest := 1; longest <= 50; longest += 7 {
			c := newCrowd(t, strings.Clone)
			c.read("dead:1", n, 0)
			c.read("c:2", 1, hour)
			c.do("HSET", crowded, java, 50)
			c.do("SET", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", crowded, java, longest), 1, "PX", 500_000)
			c.do("SET", fmt.Sprintf("{%s}:%s:rwlock_timeout:%d", crowded, java, 51-longest), 1, "PX", 400_000)
			require.Equal(t, int64(1), c.release("c:2:1"))
			for tries := 0; c.left() > 500_000; tries++ {
				require.Less(t, tries, 10_000)
				require.False(t, c.write())
			}
			require.Equal(t, int64(1), c.do("HEXISTS", crowded, java))
			require.Greater(t, c.left(), int64(400_000))
			if n == 0 {
				break
			}
		}
	}
	c := newCrowd(t, strings.Clone)
	c.read("c:2", 2, hour)
	c.do("HSET", crowded, java, 4096)
	require.Equal(t, int64(1), c.release("c:2:1"))
	require.Greater(t, c.left(), int64(hour-100_000))
	c.do("PEXPIRE", crowded, 2*hour)
	c.do("HSET", crowded, java, 4097)
	require.Equal(t, int64(1), c.release("c:2:2"))
	require.Greater(t, c.left(), int64(hour+100_000), "whether it lives is not known")
}

// TestACountThatIsNoneKeepsNoLock: other programs may have written any count.
func TestACountThatIsNoneKeepsNoLock(t *testing.T) {
	for _, count := range []string{"1000000000", "999999999999999", "1e300", "inf", "nan", "-1", "text", "0x10", "1.0", ""} {
		c := newCrowd(t, strings.Clone)
		c.read("c:2", 1, hour)
		c.do("HSET", crowded, "java:7", count)
		require.Equal(t, int64(1), c.release("c:2:1"), count)
		require.Equal(t, int64(0), c.do("EXISTS", crowded), count)
	}
}

// TestNobodyElsesHashIsRobbed: the fields of other hashes have no timeouts and are not deleted.
func TestNobodyElsesHashIsRobbed(t *testing.T) {
	for name, hash := range map[string]string{"a mutex": "owner", "a hash with a mode": "mode", "fields that are no owners'": "setting"} {
		c := newCrowd(t, strings.Clone)
		for i := range 100 {
			c.do("HSET", crowded, fmt.Sprint(hash, ":", i), "1")
		}
		switch hash {
		case "mode":
			c.do("HSET", crowded, "mode", "dark")
		case "setting":
			c.do("HSET", crowded, "mode", "read")
			for i := range 100 {
				c.do("HDEL", crowded, fmt.Sprint(hash, ":", i))
				c.do("HSET", crowded, fmt.Sprint(hash, i), "1")
			}
		}
		before := c.fields()
		require.False(t, c.write(), name)
		c.release("c:1:1")
		c.run(script.RwRead, []string{crowded, keys.RWReader(crowded, "c:1:2"), keys.RWWriters(crowded)},
			"c:1:2", 30_000, "", 1, keys.Prefix(crowded), keys.RWChannel(crowded), "publish", "c:1:3")
		require.Equal(t, before, c.fields(), name)
	}
}
