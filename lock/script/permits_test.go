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

// TestManyPermitsAreOneHold: a command handles 250 permits, so a hold needs several commands.
// Without ZMSCORE the script asks for each permit.
func TestManyPermitsAreOneHold(t *testing.T) {
	for name, change := range map[string]func(string) string{
		"ZMSCORE": strings.Clone,
		"before":  func(text string) string { return strings.ReplaceAll(text, "'zmscore'", "'zmscore62'") },
	} {
		t.Run(name, func(t *testing.T) {
			for _, n := range []int64{1, 249, 250, 251, 256, 300, 1000} {
				conn := fixture.Dial(t, fixture.RedisOrMini(t))
				do := func(command string, args ...any) any {
					t.Helper()
					return fixture.DoOn(t, conn, command, args...)
				}
				run := func(s *script.Script, names []string, args ...any) any {
					t.Helper()
					all := []any{change(s.Text()), len(names)}
					for _, name := range names {
						all = append(all, name)
					}
					if all = append(all, args...); s.Expires() {
						all = append(all, 0)
					}
					return do("EVAL", all...)
				}
				const bytes = "aaaaaaaaaaaa"
				hold, taken := fmt.Sprint(bytes, n), keys.PermitsTaken("p")
				both := []string{"p", taken}
				take := func() any {
					t.Helper()
					return run(script.PermitTake, both, bytes, n, 0, 50_000, 1000, "channel", "publish")
				}
				do("SET", "p", n+5)
				require.Equal(t, []any{n, int64(5), int64(49_000)}, take())
				require.Equal(t, []any{n, int64(5), int64(49_000)}, take(), "once, however often it arrives")
				require.Equal(t, n, do("ZCARD", taken))
				last := string([]byte{0, 0, byte(n >> 8), byte(n)})
				require.Equal(t, []byte("50000"), do("ZSCORE", taken, bytes+last))
				deadlines := func() int64 { return do("ZCOUNT", taken, 60_000, 60_000).(int64) }
				require.Empty(t, run(script.PermitRenew, []string{taken}, 60_000, 1000, hold))
				require.Equal(t, n, deadlines())
				require.Empty(t, run(script.PermitRenew, []string{taken}, 55_000, 1000, hold))
				require.Equal(t, n, deadlines(), "never earlier")
				require.Equal(t, int64(1), run(script.PermitExtend, []string{taken}, hold, 55_000, 1000))
				require.Equal(t, n, deadlines(), "never earlier")
				require.Equal(t, int64(1), run(script.PermitExtend, []string{taken}, hold, 70_000, 1000))
				require.Equal(t, n, do("ZCOUNT", taken, 70_000, 70_000))

				do("ZREM", taken, bytes+last)
				require.Equal(t, []any{int64(1)}, run(script.PermitRenew, []string{taken}, 90_000, 1000, hold), "the last is gone")
				require.Equal(t, int64(0), run(script.PermitExtend, []string{taken}, hold, 90_000, 1000))
				require.Zero(t, do("ZCOUNT", taken, 90_000, 90_000), "so none is renewed")
				require.Equal(t, int64(-1), run(script.PermitRelease, both, hold, "channel", "publish"))
				require.Equal(t, []byte(fmt.Sprint(n+4)), do("GET", "p"), "the rest is free")
				require.Equal(t, int64(0), do("ZCARD", taken))

				require.Equal(t, []any{n, int64(4), int64(49_000)}, take())
				require.Equal(t, int64(1), run(script.PermitRelease, both, hold, "channel", "publish"))
				require.Equal(t, []byte(fmt.Sprint(n+4)), do("GET", "p"))
				// An attempt that is owed, and permits that have expired, are free at once.
				take()
				require.Equal(t, []any{n, int64(4), int64(49_000)}, run(script.PermitTake, both, "bbbbbbbbbbbb", n, 0, 50_000, 1000, "channel", "publish", hold))
				require.Equal(t, []any{n, int64(4), int64(40_000)}, run(script.PermitTake, both, bytes, n, 0, 100_000, 60_000, "channel", "publish"))
				do("SET", taken, "a text")
				require.Equal(t, []any{int64(1)}, run(script.PermitRenew, []string{taken}, 90_000, 1000, hold))
				require.Equal(t, int64(0), run(script.PermitExtend, []string{taken}, hold, 90_000, 1000))
				require.Equal(t, int64(-1), run(script.PermitRelease, both, hold, "channel", "publish"))
			}
		})
	}
}

// TestARefusedTakeOfPermitsTakesNone: permits are free again if the script may not write that
// they are taken.
func TestARefusedTakeOfPermitsTakesNone(t *testing.T) {
	conn := fixture.Dial(t, fixture.RedisOrMini(t))
	text := strings.ReplaceAll(script.PermitTake.Text(), "'zadd'", "'zadd0'")
	fixture.DoOn(t, conn, "SET", "p", 7)
	_, err := conn.Do("EVAL", text, 2, "p", keys.PermitsTaken("p"), "aaaaaaaaaaaa", 3, 0, 50_000, 1000, "channel", "publish", 0)
	require.Error(t, err)
	n, err := redis.Int(conn.Do("GET", "p"))
	require.NoError(t, err)
	require.Equal(t, 7, n)
}
