package world_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAServerThatGivesNoINFOIsUsedAllTheSame, because the client sends INFO only to advise in the log.
func TestAServerThatGivesNoINFOIsUsedAllTheSame(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for name, test := range map[string]struct {
		fate faultproxy.Fate
		said int  // how often the log has it
		once bool // the first TryLock already works
	}{
		"it ends the connection":   {faultproxy.HangUp, 1, true}, // as twemproxy does
		"it says nothing":          {faultproxy.LoseRequest, 1, false},
		"it does not know it":      {faultproxy.Answer(redis.Error("ERR unknown command")), 0, true},
		"it answers something odd": {faultproxy.Answer([]any{int64(1)}), 0, true},
		"it answers nothing":       {faultproxy.Answer(nil), 0, true},
	} {
		for _, replicas := range []int{0, 1} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
					switch c.Args[0] {
					case "INFO":
						asked.Add(1)
						return test.fate
					case "WAIT":
						return faultproxy.Answer(int64(1))
					}
					return faultproxy.Pass
				})
				var log fixture.Log
				c := fixture.ClientOver(t, p, lock.Config{
					Lease: 3 * time.Second, IOTimeout: 300 * time.Millisecond, Replicas: replicas,
					Logger: log.Logger(),
				})
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
				log.Await(t, test.said, "INFO memory")
				once := asked.Load()
				require.LessOrEqual(t, once, int64(3))

				p.HangUp(0)
				require.Eventually(t, func() bool {
					held, err := mu.TryLock(t.Context())
					return err == nil && held.Unlock(t.Context()) == nil
				}, time.Minute, time.Millisecond)
				require.Equal(t, once, asked.Load(), "it is not asked again")
			})
		}
	}
}
