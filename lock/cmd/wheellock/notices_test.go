package main

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestARunIsToldOfWhatWentWrong, and of the end of a fault. A terse run prints nothing else, because cron
// mails every line.
func TestARunIsToldOfWhatWentWrong(t *testing.T) {
	for _, terse := range []bool{true, false} {
		var said []string
		n := &notices{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, terse: terse}
		log := n.logger()
		log.Info("lock: how releases are published was chosen", "command", "SPUBLISH", "error", "")
		n.open()
		log.Warn("lock: pub/sub failed", "server", "here")
		log.Info("lock: pub/sub works again")
		log.Warn("lock: still waiting", "holder", "x\n\x1b[2J") // anybody may have written it
		want := []string{"pub/sub failed, server: here", "pub/sub works again", `still waiting, holder: "x\n\x1b[2J"`}
		if !terse {
			want = append([]string{"how releases are published was chosen, command: SPUBLISH"}, want...)
		}
		require.Equal(t, want, said)
	}
}

// TestAQuietRunIsNotToldOfAWait: notices knows the library's log line about a wait, and leaves it out.
func TestAQuietRunIsNotToldOfAWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		holder, err := lock.New(s.Pool(0), lock.Config{Label: "web-1"})
		require.NoError(t, err)
		ctx := context.Background()
		held, err := holder.Mutex("n").Lock(ctx)
		require.NoError(t, err)
		for _, quiet := range []bool{true, false} {
			var said []string
			n := &notices{say: func(format string, args ...any) { said = append(said, fmt.Sprintf(format, args...)) }, terse: true, quiet: quiet}
			n.open()
			c, err := lock.New(s.Pool(0), lock.Config{Logger: n.logger()})
			require.NoError(t, err)
			short, cancel := context.WithTimeout(ctx, time.Minute)
			_, err = c.Mutex("n").Lock(short)
			cancel()
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.NoError(t, c.Close(ctx))
			if quiet {
				require.Empty(t, said)
				continue
			}
			require.Len(t, said, 1)
			require.Regexp(t, `^still waiting for a lock that another owner has, name: n, waited: \d+s, holder: \S+@web-1:1:1, label: web-1, advice: if this is too long, .+$`, said[0])
		}
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, holder.Close(ctx))
	})
}
