package lock_test

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestTwoServersBehindOneAddress: their clocks differ by an hour, and every request may
// meet either.
func TestTwoServersBehindOneAddress(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var asked atomic.Int64
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "TIME" { // the one whose clock is behind
			asked.Add(1)
			return faultproxy.Answer([]any{[]byte("1700000000"), []byte("0")})
		}
		if strings.HasPrefix(c.Args[0], "EVAL") && len(c.Args[len(c.Args)-1]) == 13 && c.Script == "acquire" && asked.Load()%2 == 1 {
			asked.Add(1) // the other one, once
			return faultproxy.Answer(redis.Error("LATE 1700003600000"))
		}
		return faultproxy.Pass
	})
	var log fixture.Log
	c := fixture.ClientOver(t, p, lock.Config{Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	held, err := c.Mutex(fixture.KeyOf(t)).Lock(t.Context())
	require.NoError(t, err)
	require.Contains(t, log.String(), "clock was set")
	require.Contains(t, log.String(), "again and again")
	require.NoError(t, held.Unlock(t.Context()))
}
