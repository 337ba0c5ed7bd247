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
					all := []any{change(byClientsClock(s)), len(names)}
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

// TestPermitsGoByTheServersClock also if the call has no time limit, because the client does not know
// that clock. The client's clock is ten minutes ahead or behind. It counts only where TIME is refused.
func TestPermitsGoByTheServersClock(t *testing.T) {
	conn := fixture.Dial(t, fixture.Server(t)) // scripts of miniredis have no TIME
	const (
		lease = 60_000
		id    = "aaaaaaaaaaaa"
	)
	hexID, taken := strings.Repeat("61", 12)+"00000001", keys.PermitsTaken("p")
	for name, refused := range map[string]bool{"TIME is permitted": false, "TIME is refused": true} {
		for _, ahead := range []int64{-600_000, 600_000} {
			t.Run(fmt.Sprint(name, ", ahead by ", ahead), func(t *testing.T) {
				fixture.DoOn(t, conn, "FLUSHALL")
				clock, err := redis.Int64s(conn.Do("TIME"))
				require.NoError(t, err)
				server := clock[0] * 1000
				client := server + ahead
				run := func(s *script.Script, names []any, args ...any) any {
					t.Helper()
					text := s.Text()
					if refused {
						text = strings.ReplaceAll(text, asksTime, strings.ReplaceAll(asksTime, "time'", "time0'"))
					}
					all := append(append([]any{text, len(names)}, names...), args...)
					return fixture.DoOn(t, conn, "EVAL", append(all, 0)...)
				}
				requireDeadline := func(lease int64) {
					t.Helper()
					want := server + lease
					if refused {
						want = client + lease
					}
					got, err := redis.Int64(conn.Do("ZSCORE", taken, id+"\x00\x00\x00\x01"))
					require.NoError(t, err)
					require.InDelta(t, want, got, 120_000, "by the right clock")
				}
				put := func(deadline int64) { // two permits that are taken
					t.Helper()
					for _, last := range []string{"\x01", "\x02"} {
						fixture.DoOn(t, conn, "ZADD", taken, deadline, id+"\x00\x00\x00"+last)
					}
				}
				both := []any{"p", taken}
				fixture.DoOn(t, conn, "SET", "p", 1)
				run(script.PermitTake, both, id, 1, 0, client+lease, client, "channel", "publish")
				requireDeadline(lease)
				run(script.PermitExtend, []any{taken}, id+"1", client+2*lease, client)
				requireDeadline(2 * lease)
				run(script.PermitRenew, []any{taken}, client+3*lease, client, id+"1")
				requireDeadline(3 * lease)
				run(script.PermitSetLease, []any{taken, "result"}, hexID, client+lease, client, 1000)
				requireDeadline(lease)

				// A permit whose deadline is between the two clocks is taken by the clock that is behind.
				deadline := server + ahead/2
				isTaken := (ahead > 0) != refused
				put(deadline)
				got := run(script.PermitTake, both, "bbbbbbbbbbbb", 1, 0, client+lease, client, "channel", "publish").([]any)
				require.Equal(t, isTaken, got[0] == int64(0), "%v", got)
				put(deadline)
				require.Equal(t, isTaken, run(script.PermitSetLease, []any{taken, "another"}, hexID, client+lease, client, 1000) == int64(1))
				put(deadline)
				_, isNumber := run(script.PermitFree, []any{"p", "a third", taken}, hexID, client, "channel", 1000, "publish").(int64)
				require.Equal(t, isTaken, isNumber)
			})
		}
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
