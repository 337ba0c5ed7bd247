package script_test

import (
	"crypto/sha1"
	"encoding/hex"
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
		require.Zero(t, asks, s.Name())
	}
	require.Equal(t, 27, expiring)
}
