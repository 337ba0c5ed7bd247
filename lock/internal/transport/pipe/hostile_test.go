package pipe_test

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// TestAnAnswerAtWhichRedigoPanicsEndsTheConnection: the answers over connections of a program's own
// pool are not bounded. The next request goes over another connection.
func TestAnAnswerAtWhichRedigoPanicsEndsTheConnection(t *testing.T) {
	said := false
	answer := func(command []string) string {
		if !said {
			said = true
			return "*99999999999999999\r\n"
		}
		return yes(command)
	}
	for name, start := range carriers {
		if said = false; name == "led Pipe" {
			continue // whose connections are bounded
		}
		t.Run(name, func(t *testing.T) {
			inBubble(t, start, -1, answer, nil, func(t *testing.T, b *harness) {
				a := b.call(t.Context(), 1)
				requireNoReply(t, a.Err)
				require.ErrorContains(t, a.Err, "could not be read")
				b.requireYes(2)
				require.EqualValues(t, 2, b.srv.dials.Load())
			})
		})
	}
}
