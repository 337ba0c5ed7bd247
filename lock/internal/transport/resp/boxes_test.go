package resp

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBoxesKeepTheirTextUntilReset(t *testing.T) {
	var bs boxes
	for range 3 {
		var texts []string
		var args []any
		for i := range 300 {
			text := strings.Repeat(string(rune('a'+i%26)), i%90)
			texts = append(texts, text)
			args = append(args, bs.copied([]byte(text)))
		}
		for i, arg := range args {
			got, ok := arg.(string)
			if b, isBytes := arg.([]byte); isBytes {
				got, ok = string(b), true
			}
			require.True(t, ok)
			require.Equal(t, texts[i], got)
		}
		bs.reset()
	}
	text := []byte("order:42")
	require.Zero(t, testing.AllocsPerRun(10, func() {
		bs.reset()
		for range 3 {
			bs.copied(text)
		}
	}))
}
