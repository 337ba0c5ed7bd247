package pipe_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// TestAConnectionAsksWhetherItsServerIsAReplica now and then, and when another connection was made.
func TestAConnectionAsksWhetherItsServerIsAReplica(t *testing.T) {
	var dials atomic.Uint32
	var proved atomic.Pointer[time.Time]
	var says atomic.Value // the answer to the question
	bubble(t, func(command []string) string {
		if command[0] == "HDEL" {
			return says.Load().(string)
		}
		return yes(command)
	}, func(cfg *pipe.Config) {
		dials.Store(1)
		proved.Store(nil)
		says.Store(":0\r\n")
		cfg.ProveEvery, cfg.Dials, cfg.Proved = time.Minute, dials.Load, func(at time.Time) { proved.Store(&at) }
	}, func(t *testing.T, b *bench) {
		asked := func() int { return strings.Count(b.srv.commands(), "HDEL") }
		b.requireYes(1)
		require.Zero(t, asked(), "the connection is new")
		for i, answer := range []string{":0\r\n", "-WRONGTYPE Operation against a key\r\n", "-NOPERM no permissions\r\n"} {
			says.Store(answer)
			time.Sleep(time.Minute)
			b.requireYes(2)
			b.requireYes(3)
			require.Equal(t, i+1, asked())
			require.True(t, time.Now().Equal(*proved.Load()))
		}
		dials.Add(1)
		b.requireYes(4)
		b.requireYes(5)
		require.Equal(t, 4, asked())

		for i, refusal := range []string{
			"READONLY You can't write against a read only replica.",
			"MOVED 1 h:2", "MOVED 1 :0", // in cluster mode
			"MASTERDOWN Link with MASTER is down", // a replica that takes writes
		} {
			before := *proved.Load()
			says.Store("-" + refusal + "\r\n")
			time.Sleep(time.Minute)
			err := b.call(t.Context(), 6).Err
			requireNoReply(t, err)
			require.ErrorContains(t, err, "given up: "+refusal)
			synctest.Wait()
			require.Len(t, b.srv.failures(), i+1)
			require.True(t, before.Equal(*proved.Load()))
			b.requireYes(7)
			require.Equal(t, int32(i+2), b.srv.dials.Load(), "the next dial may find the new master")
		}
	})
}
