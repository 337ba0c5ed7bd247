package script_test

import (
	"crypto/sha1"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

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

// TestOnlyScriptsThatExpireAskForTheTime: others would have to say what becomes of them
// where it is not permitted.
func TestOnlyScriptsThatExpireAskForTheTime(t *testing.T) {
	expiring := 0
	for _, s := range script.All() {
		asks := strings.Count(s.Text(), "'time'")
		if s.Expires() {
			expiring++
			asks--
		}
		if s == script.FairRelease {
			asks-- // it has no limit, compares times of day, and takes the client's where it is not permitted
		}
		require.Zero(t, asks, s.Name())
	}
	require.Equal(t, 28, expiring)
}

// TestNoPieceOfAScriptStandsInAnother: it stands before both, in a file of its own.
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
