package pipe_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/pipe"
	"github.com/wheellock/wheellock/lock/script"
)

// TestScriptsThatAnswerARefusedMessageAreKnown: what their headers say is what the
// client takes apart.
func TestScriptsThatAnswerARefusedMessageAreKnown(t *testing.T) {
	known := 0
	for _, s := range script.All() {
		require.Equal(t, strings.Contains(s.Text(), "If the message was refused"), pipe.Publishes(s), s.Name())
		if pipe.Publishes(s) {
			known++
		}
	}
	require.NotZero(t, known)
}
