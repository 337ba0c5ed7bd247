package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestARunIsToldOfWhatWentWrong, and of its end: all else it would mail from each run
// that cron starts.
func TestARunIsToldOfWhatWentWrong(t *testing.T) {
	for _, terse := range []bool{true, false} {
		var said []string
		n := &notices{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, terse: terse}
		log := n.logger()
		log.Info("lock: how releases are published was chosen", "command", "SPUBLISH", "error", "")
		n.open()
		log.Warn("lock: pub/sub failed", "server", "here")
		log.Info("lock: pub/sub works again")
		want := []string{"pub/sub failed, server: here", "pub/sub works again"}
		if !terse {
			want = append([]string{"how releases are published was chosen, command: SPUBLISH"}, want...)
		}
		require.Equal(t, want, said)
	}
}
