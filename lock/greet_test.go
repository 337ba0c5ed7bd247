package lock_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// relay answers as s does.
func relay(t *testing.T, s *redistest.Server) func(args []any) any {
	t.Helper()
	var mu sync.Mutex
	conn, err := s.Dial()
	require.NoError(t, err)
	t.Cleanup(func() { conn.Close() })
	return func(args []any) any {
		mu.Lock()
		defer mu.Unlock()
		reply, err := conn.Do(args[0].(string), args[1:]...)
		if err != nil {
			return err
		}
		return reply
	}
}

// What is asked of a server before anything else is advice for the log alone.
func TestAServerThatGivesNoINFOIsUsedAllTheSame(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for name, test := range map[string]struct {
		answer any
		said   int  // how often the log has it
		once   bool // the first TryLock already works
	}{
		"it ends the connection":   {errHangUp, 1, true}, // as twemproxy does
		"it says nothing":          {errMute, 1, false},
		"it does not know it":      {redis.Error("ERR unknown command"), 0, true},
		"it answers something odd": {[]any{int64(1)}, 0, true},
		"it answers nothing":       {nil, 0, true},
	} {
		for _, replicas := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				up := relay(t, s)
				sp := startSpeaker(t, func(args []any) any {
					switch args[0] {
					case "INFO":
						asked.Add(1)
						return test.answer
					case "WAIT":
						return int64(1)
					}
					return up(args)
				})
				var log syncBuilder
				c, err := lock.New(sp.pool(), lock.Config{
					Lease: 3 * time.Second, IOTimeout: 300 * time.Millisecond, Replicas: replicas,
					Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				require.NoError(t, err)
				defer closeNow(c)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				mu := c.Mutex(t.Name() + strings.Repeat("r", replicas))
				held, err := mu.TryLock(ctx)
				if test.once {
					require.NoError(t, err)
				} else {
					held, err = mu.Lock(ctx)
					require.NoError(t, err)
				}
				require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > 0 }, time.Minute, time.Millisecond)
				require.NoError(t, held.Unlock(t.Context()))
				require.Equal(t, test.said, strings.Count(log.String(), "INFO memory"), log.String())
				once := asked.Load()
				require.LessOrEqual(t, once, int64(3))

				sp.cut()
				require.Eventually(t, func() bool {
					held, err := mu.TryLock(t.Context())
					return err == nil && held.Unlock(t.Context()) == nil
				}, time.Minute, time.Millisecond)
				require.Equal(t, once, asked.Load(), "it is not asked again")
			})
		}
	}
}
