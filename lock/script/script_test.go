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

func TestScriptsUseNoCommandWithClientTime(t *testing.T) {
	for _, s := range script.All() {
		text := strings.ToLower(s.Text())
		for _, banned := range []string{"'pexpireat'", "'expireat'", "'time'", "pxat", "exat"} {
			require.NotContains(t, text, banned, s.Name())
		}
	}
}
