package world_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
	"github.com/wheellock/wheellock/renewal"
)

// TestARenewalThatTheOnlyServerRedirectsLosesTheLock and no more: the server is a
// node of a Cluster, which gave its slots away, but the client knows of no other.
func TestARenewalThatTheOnlyServerRedirectsLosesTheLock(t *testing.T) {
	t.Parallel()
	for _, answer := range []string{"MOVED", "ASK"} {
		t.Run(answer, func(t *testing.T) {
			t.Parallel()
			p := fixture.Proxy(t, onRedis(t), func(c faultproxy.Command) faultproxy.Fate {
				if c.Script == script.Renew.Name() {
					return faultproxy.Answer(redis.Error(answer + " 0 127.0.0.1:1"))
				}
				return faultproxy.Pass
			})
			sources := map[string]any{"pool": p.Pool(), "topology": fixture.NewShifting(p.Dial)}
			for name, source := range sources {
				var failed atomic.Pointer[error]
				c, err := fixture.New(source, lock.Config{Lease: time.Second, Hooks: lock.Hooks{Renewed: func(r renewal.BatchReport) {
					if r.Err != nil {
						failed.Store(&r.Err)
					}
				}}})
				require.NoError(t, err)
				defer fixture.CloseNow(c)
				held, err := c.Mutex(strings.ReplaceAll(t.Name(), "/", ":") + name).Lock(bounded.Context(t))
				require.NoError(t, err)
				bounded.Receive(t, held.Done())
				var lost *lock.LostError
				require.ErrorAs(t, held.Err(), &lost)
				require.Equal(t, lock.TrustEnded, lost.Reason)
				if err := failed.Load(); err != nil {
					require.NotContains(t, (*err).Error(), "panicked")
				}
			}
		})
	}
}
