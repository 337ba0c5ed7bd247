package lock_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestAServerThatMayEvictLocksIsWarnedAbout(t *testing.T) {
	for policy, warned := range map[string]bool{"noeviction": false, "volatile-ttl": true, "allkeys-lru": true} {
		s := fixture.Server(t, "--maxmemory", "100mb", "--maxmemory-policy", policy)
		var log fixture.Log
		c := fixture.ClientOf(t, s, lock.Config{Connections: 1, Logger: log.Logger()})
		log.Flush = lock.FlushLog(c)
		for range 3 {
			held := fixture.Hold(t, c.Mutex("m").Lock)
			require.NoError(t, held.Unlock(bounded.Context(t)))
		}
		fixture.CloseNow(c)
		want := 0
		if warned {
			want = 1
		}
		require.Equal(t, want, strings.Count(log.String(), "maxmemory_policy="+policy), log.String())
	}
}
