package lock_test

import (
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

func TestAServerThatDoesNotTellItsTimeIsUsedWithoutLimits(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	for name, fate := range map[string]faultproxy.Fate{
		"it says nothing":          faultproxy.LoseRequest,
		"it ends the connection":   faultproxy.HangUp, // as proxies do with what they do not know
		"it is not permitted":      faultproxy.Answer(redis.Error("NOPERM this user has no permissions to run the 'time' command")),
		"it does not know it":      faultproxy.Answer(redis.Error("ERR unknown command")),
		"it answers something odd": faultproxy.Answer([]any{int64(1)}),
		"it answers nothing":       faultproxy.Answer(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var asked, limited atomic.Int64
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				switch {
				case c.Args[0] == "TIME":
					asked.Add(1)
					return fate
				case strings.HasPrefix(c.Args[0], "EVAL") && len(c.Args[len(c.Args)-1]) == 13:
					limited.Add(1)
				}
				return faultproxy.Pass
			})
			var log fixture.Log
			c := fixture.ClientOver(t, p, lock.Config{Lease: 3 * time.Second, IOTimeout: 300 * time.Millisecond, Logger: log.Logger()})
			log.Flush = lock.FlushLog(c)
			mu := c.Mutex(t.Name())
			take := mu.TryLock
			if name == "it says nothing" { // which a server that hangs does, too
				take = mu.Lock
			}
			held, err := take(t.Context())
			require.NoError(t, err)
			require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > 0 }, time.Minute, time.Millisecond)
			require.NoError(t, held.Unlock(t.Context()))
			told := "TIME is refused"
			if name == "it says nothing" || name == "it ends the connection" {
				told = "TIME gets no answer"
			}
			require.Equal(t, 1, strings.Count(log.String(), told), log.String())
			require.Equal(t, 1, strings.Count(log.String(), "no time limit"), log.String())
			require.Zero(t, limited.Load())
			once := asked.Load()
			p.HangUp(0)
			require.Eventually(t, func() bool {
				held, err := mu.TryLock(t.Context())
				return err == nil && held.Unlock(t.Context()) == nil
			}, time.Minute, time.Millisecond)
			require.Equal(t, once, asked.Load(), "it is not asked again for a minute")
		})
	}
}

// TestAServerThatHungIsAskedForItsTimeAgain: it has said nothing to anything.
func TestAServerThatHungIsAskedForItsTimeAgain(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var asked, limited, unlimited atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Args[0] == "TIME" || c.Args[0] == "PING":
			if asked.Add(1) <= 5 {
				return faultproxy.LoseRequest
			}
		case c.Script == "acquire" && len(c.Args[len(c.Args)-1]) == 13:
			limited.Add(1)
		case c.Script == "acquire":
			unlimited.Add(1)
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 300 * time.Millisecond, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held, err := c.Mutex(t.Name()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Unlock(t.Context()))
	require.NotZero(t, limited.Load())
	require.Zero(t, unlimited.Load())
	require.NotContains(t, log.String(), "no time limit")
}
