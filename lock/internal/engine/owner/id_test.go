package owner_test

import (
	"math"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/wheellock/wheellock/lock/internal/engine/owner"
)

func TestAnIDEndsInItsLabel(t *testing.T) {
	for label, want := range map[string]string{
		"web-1":                          "web-1",
		"a":                              "a",
		"A_b.9":                          "A_b.9",
		"orders-api-7f9c5d9b4d-x2k4j":    "pi-7f9c5d9b4d-x2k4j",
		strings.Repeat("x", 300) + "end": "xxxxxxxxxxxxxxxxend",
		"a:b":                            "a_b",
		"{tag}":                          "_tag_",
		"user@host":                      "user_host",
		"a\nb\x00\x1b[2J\xff":            "a_b___2J_",
		"übung":                          "_bung",
		" ":                              "_",
	} {
		id := owner.NewID(label)
		require.Len(t, id, 36)
		require.Regexp(t, `\A[A-Za-z0-9_-]{16,}@`+regexp.QuoteMeta(want)+`\z`, id, "%q", label)
		require.Equal(t, want, owner.Label(id))
		require.Equal(t, want, owner.Label(id+":17:4:write"))
	}
}

func TestAnIDWithoutALabelIsAUUID(t *testing.T) {
	for _, id := range []string{owner.NewID(""), owner.UUID()} {
		require.Regexp(t, `\A[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}\z`, id)
		require.Empty(t, owner.Label(id+":1:1"))
	}
}

// TestWhatIsNoIDHasNoLabel: other programs may write any text as a field.
func TestWhatIsNoIDHasNoLabel(t *testing.T) {
	good := strings.Repeat("x", 30) + "@web-1"
	require.Equal(t, "web-1", owner.Label(good))
	for _, field := range []string{
		"", "mode", "web-1", "@web-1", good[1:], good + "1", good + "1:1", "x" + good + ":1", good + "@:1",
		strings.Repeat("x", 15) + "@" + strings.Repeat("y", 20) + ":1:1",
		strings.Repeat("x", 28) + "@web\x1b-1:1:1",
		strings.Repeat("x", 28) + "\n@web-11:1:1",
		strings.Repeat("x", 29) + "@web:1:1:1",
		strings.Repeat("x", 28) + "@a@web-1:1:1",
		strings.Repeat("x", 29) + "@{web}:1",
	} {
		require.Empty(t, owner.Label(field), "%q", field)
	}
}

func TestAnyLabelIsReadAsItWasCleaned(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		label := rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z.@:{}-]*`)).Draw(t, "label")
		id := owner.NewID(label)
		read := owner.Label(id + ":1:1")
		require.Len(t, id, owner.IDLen)
		require.Equal(t, label == "", read == "")
		require.NotContains(t, id, ":")
		require.Equal(t, read, owner.Label(owner.NewID(read)), "what was cleaned stays")
	})
}

// TestIDsDifferInEachCharacter: with the longest label 16 characters are random, and each of them
// may be any of 64.
func TestIDsDifferInEachCharacter(t *testing.T) {
	label := strings.Repeat("z", 19)
	seen := make([]map[byte]int, 16)
	const n = 64 * 100
	for range n {
		id := owner.NewID(label)
		require.Equal(t, "@"+label, id[16:])
		for i := range seen {
			if seen[i] == nil {
				seen[i] = map[byte]int{}
			}
			seen[i][id[i]]++
		}
	}
	for i, counts := range seen {
		require.Len(t, counts, 64, i)
		for _, c := range counts { // 100 each, with a deviation of 10
			require.Less(t, math.Abs(float64(c)-100), 80.0)
		}
	}
}
