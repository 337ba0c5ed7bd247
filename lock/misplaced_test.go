package lock_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

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
			up := relay(t, onRedis(t))
			sp := startSpeaker(t, func(args []any) any {
				if len(args) > 1 && (args[1] == script.Renew.SHA() || args[1] == script.Renew.Text()) {
					return redis.Error(answer + " 0 127.0.0.1:1")
				}
				return up(args)
			})
			sources := map[string]lock.Source{"pool": sp.pool(), "topology": &shifting{instances: make(chan string), dial: sp.pool().DialContext}}
			for name, source := range sources {
				var failed atomic.Pointer[error]
				c, err := lock.New(source, lock.Config{Lease: time.Second, Renewal: renewal.Config{OnBatch: func(r renewal.BatchReport) {
					if r.Err != nil {
						failed.Store(&r.Err)
					}
				}}})
				require.NoError(t, err)
				defer closeNow(c)
				held, err := c.Mutex(strings.ReplaceAll(t.Name(), "/", ":") + name).Lock(t.Context())
				require.NoError(t, err)
				<-held.Done()
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
