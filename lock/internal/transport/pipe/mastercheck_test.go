package pipe_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
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
		cfg.CheckMasterEvery, cfg.Dials, cfg.MasterSeen = time.Minute, dials.Load, func(at time.Time) { proved.Store(&at) }
	}, func(t *testing.T, b *harness) {
		asked := func() int { return strings.Count(b.srv.commands(), "HDEL") }
		b.requireYes(1)
		require.Zero(t, asked(), "the connection is new")
		for i, answer := range []string{":0\r\n", "-WRONGTYPE Operation against a key\r\n"} {
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
		require.Equal(t, 3, asked())
		last := *proved.Load()
		for i, answer := range []string{ // a replica may say these, or they do not last
			"NOPERM no permissions", "NOAUTH Authentication required.", "ASK 1 h:2", "ERR something new",
			"NOREPLICAS Not enough good replicas to write.", "LOADING Redis is loading the dataset in memory", "BUSY Redis is busy",
			"OOM command not allowed", "CLUSTERDOWN The cluster is down",
		} {
			says.Store("-" + answer + "\r\n")
			time.Sleep(time.Minute)
			b.requireYes(6)
			require.Equal(t, i+4, asked())
			require.True(t, last.Equal(*proved.Load()), answer)
		}
		require.Empty(t, b.srv.failures())

		for i, refusal := range []string{
			"READONLY You can't write against a read only replica.",
			"MOVED 1 h:2", "MOVED 1 :0", // in cluster mode
			"MASTERDOWN Link with MASTER is down",                   // a replica that takes writes
			"MISCONF Errors writing to the AOF file: No space left", // a replica says so before READONLY
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

// TestAServerWhoseDiskFailsIsDialledSeldom, although each connection asks, and it may be a replica.
func TestAServerWhoseDiskFailsIsDialledSeldom(t *testing.T) {
	var made atomic.Uint32
	bubble(t, func(command []string) string {
		if command[0] == "HDEL" {
			return "-MISCONF Errors writing to the AOF file: No space left on device\r\n"
		}
		return yes(command)
	}, func(cfg *pipe.Config) {
		made.Store(0)
		dial := cfg.Dial
		cfg.Dial = func(ctx context.Context, bound *dialing.Bound) (pipe.Connection, error) {
			made.Add(1)
			return dial(ctx, bound)
		}
		cfg.CheckMasterEvery, cfg.Dials, cfg.MasterSeen = 100*time.Millisecond, made.Load, func(time.Time) { t.Error("it may be a replica") }
	}, func(t *testing.T, b *harness) {
		unanswered := 0
		for i := range 1000 { // in 100 s
			if b.call(t.Context(), i).Err != nil {
				unanswered++
			}
			time.Sleep(100 * time.Millisecond)
		}
		dials := int(b.srv.dials.Load())
		require.GreaterOrEqual(t, dials, 9)
		require.LessOrEqual(t, dials, 10)
		require.LessOrEqual(t, unanswered, 10)
	})
}
