package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestAReEntryPausesWhileRedisIsGone: a server that refuses connections does so at once,
// so without pauses a re-entry dials as often as it can until its hold is lost.
func TestAReEntryPausesWhileRedisIsGone(t *testing.T) {
	for name, kind := range map[string]func(c *lock.Client) *lock.Mutex{
		"Mutex":     func(c *lock.Client) *lock.Mutex { return c.Mutex("m") },
		"FairMutex": func(c *lock.Client) *lock.Mutex { return c.FairMutex("m") },
		"RWMutex":   func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Writer() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				link := locktest.NewServer(t).Link()
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				var failed atomic.Int64
				pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
					c, err := link.Pool().DialContext(ctx)
					if err != nil && failed.Add(1) == 1000 {
						cancel() // or it never ends: virtual time does not go on
					}
					return c, err
				}}
				c := fixture.Client(t, pool, lock.Config{})
				held, err := kind(c).LockFor(ctx, time.Minute)
				require.NoError(t, err)
				link.Cut()
				again, stop := context.WithTimeout(held.Context(ctx), 20*time.Second)
				defer stop()
				_, err = kind(c).LockFor(again, time.Minute)
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Less(t, failed.Load(), int64(200))
				link.Mend()
				require.NoError(t, held.Unlock(ctx))
			})
		})
	}
}
