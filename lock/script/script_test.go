package script_test

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock/script"
)

func TestSHAIsThatOfTheText(t *testing.T) {
	for _, s := range script.All() {
		sum := sha1.Sum([]byte(s.Text()))
		require.Equal(t, hex.EncodeToString(sum[:]), s.SHA(), s.Name())
	}
}

// TestScriptsThatAnswerARefusedMessageSaySo in their headers.
func TestScriptsThatAnswerARefusedMessageSaySo(t *testing.T) {
	known := 0
	for _, s := range script.All() {
		require.Equal(t, strings.Contains(s.Text(), "If the message was refused"), s.Publishes(), s.Name())
		if s.Publishes() {
			known++
		}
	}
	require.NotZero(t, known)
}

func TestScriptsUseNoCommandWithClientTime(t *testing.T) {
	for _, s := range script.All() {
		text := strings.ToLower(s.Text())
		for _, banned := range []string{"'pexpireat'", "'expireat'", "pxat", "exat"} {
			require.NotContains(t, text, banned, s.Name())
		}
	}
}

// timesOfDay are the scripts that compare times of day. Where TIME is not permitted, they take the client's.
// FairRelease has no limit. The others ask if they are called without one.
var timesOfDay = map[*script.Script]bool{
	script.FairRelease: true, script.PermitTake: true, script.PermitExtend: true, script.PermitRenew: true, script.PermitSetLease: true,
	script.PermitFree: true, script.FairTake: true, script.FairSign: true,
}

// TestOnlyScriptsThatExpireAskForTheTime: other scripts would need a rule for servers that do not
// permit TIME.
func TestOnlyScriptsThatExpireAskForTheTime(t *testing.T) {
	expiring := 0
	for _, s := range script.All() {
		asks := strings.Count(s.Text(), "'time'")
		if s.Expires() {
			expiring++
			asks--
		}
		if timesOfDay[s] {
			asks--
		}
		require.Zero(t, asks, s.Name())
	}
	require.Equal(t, 28, expiring)
}

// TestNoPieceOfAScriptStandsInAnother: code of two scripts is in a file of its own, which precedes both.
func TestNoPieceOfAScriptStandsInAnother(t *testing.T) {
	const most = 7 // lines
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	stands := map[string]string{}
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		var lines []string
		for line := range strings.Lines(string(text)) {
			line, _, _ = strings.Cut(line, "--")
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		for i := range len(lines) - most {
			piece := strings.Join(lines[i:i+most+1], "\n")
			if other := stands[piece]; other != "" && other != name {
				t.Errorf("this stands in %s and in %s:\n%s", other, name, piece)
			}
			stands[piece] = name
		}
	}
}

// TestArgumentsAreNamed: below a file's header, which is comments and then assignments, code and
// comments use the names that the header gives to arguments and keys.
func TestArgumentsAreNamed(t *testing.T) {
	files, err := filepath.Glob("*.lua")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	header := regexp.MustCompile(`^(--|(local )?[\w, ]+ = )`)
	indexed := regexp.MustCompile(`\b(ARGV|KEYS|args|keys)\[\d`)
	for _, name := range files {
		text, err := os.ReadFile(name)
		require.NoError(t, err)
		inHeader := true
		for line := range strings.Lines(string(text)) {
			inHeader = inHeader && header.MatchString(line) && !strings.Contains(line, "call(")
			if !inHeader && indexed.MatchString(line) {
				t.Errorf("%s: give this argument a name in the header: %s", name, strings.TrimSpace(line))
			}
		}
	}
}

// TestRenewSaysOfEachKeyWhetherItIsHeld runs the script as it is, and as on a Redis before 7, which
// does not know the option GT.
func TestRenewSaysOfEachKeyWhetherItIsHeld(t *testing.T) {
	text := script.Renew.Text()
	old := strings.ReplaceAll(text, "'gt'", "'unknown'")
	require.NotEqual(t, text, old)
	for name, text := range map[string]string{"as it is": text, "older Redis": old} {
		t.Run(name, func(t *testing.T) {
			s := fixture.Server(t)
			key := func(name string) string { return t.Name() + ":" + name }
			names := []string{"short", "longer", "without TTL", "absent", "another's", "wrong type", "short too"}
			args := []any{text, len(names)}
			for _, name := range names {
				fixture.Do(t, s, "DEL", key(name))
				args = append(args, key(name))
			}
			args = append(args, 60_000, "me:")
			for range names {
				args = append(args, "1:2")
			}
			args = append(args, 0)
			for name, ttl := range map[string]int{"short": 5000, "short too": 5000, "longer": 90_000, "without TTL": 0, "another's": 5000} {
				field := "me:1:2"
				if name == "another's" {
					field = "me:1:3"
				}
				fixture.Do(t, s, "HSET", key(name), field, 1)
				if ttl > 0 {
					fixture.Do(t, s, "PEXPIRE", key(name), ttl)
				}
			}
			fixture.Do(t, s, "SET", key("wrong type"), "text")
			gone, err := redis.Ints(fixture.Do(t, s, "EVAL", args...), nil)
			require.NoError(t, err)
			require.Equal(t, []int{4, 5, 6}, gone)
			for name, least := range map[string]int64{"short": 50_000, "short too": 50_000, "without TTL": 50_000, "longer": 80_000} {
				pttl := fixture.Do(t, s, "PTTL", key(name)).(int64)
				require.Greater(t, pttl, least, name)
				require.LessOrEqual(t, pttl, least+10_000, name)
			}
			require.LessOrEqual(t, fixture.Do(t, s, "PTTL", key("another's")).(int64), int64(5000), "not ours to renew")
			for _, name := range names {
				fixture.Do(t, s, "DEL", key(name))
			}
		})
	}
}
