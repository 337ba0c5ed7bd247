package world_test

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

// TestABusyServerIsAskedForItsTimeAgain: when the server is not busy any more, the client asks over the
// same connections.
func TestABusyServerIsAskedForItsTimeAgain(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var told atomic.Bool
	var limited atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		switch {
		case c.Args[0] == "TIME" && !told.Load():
			return faultproxy.Answer(redis.Error("BUSY Redis is busy running a script"))
		case c.Script == "acquire" && len(c.Args[len(c.Args)-1]) == 13:
			limited.Add(1)
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{})
	tryOnce := func() {
		held, err := c.Mutex(t.Name()).TryLock(t.Context())
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	}
	tryOnce()
	require.Zero(t, limited.Load())
	told.Store(true)
	require.Eventually(t, func() bool {
		tryOnce()
		return limited.Load() > 0
	}, time.Minute, 10*time.Millisecond)
}

func TestEveryScriptThatChangesSomethingHasALimit(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var limited, unlimited atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if strings.HasPrefix(c.Args[0], "EVAL") {
			if len(c.Args[len(c.Args)-1]) == 13 {
				limited.Add(1)
			} else {
				unlimited.Add(1)
			}
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{})
	held, err := c.Mutex(t.Name()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, held.Extend(t.Context(), time.Minute))
	_, err = held.Guard(t.Context(), "GET", []string{"x"})
	require.NoError(t, err)
	require.Zero(t, unlimited.Load())
	before := limited.Load()
	require.NoError(t, held.Unlock(t.Context()))
	require.Equal(t, before, limited.Load(), "a release is wanted whenever it arrives")
	require.Positive(t, unlimited.Load())
}
