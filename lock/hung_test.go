package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

// A dial that waits for the answer to a password, without a timeout, stays out
// for as long as the server hangs.
func TestAServerThatHangsDoesNotCostAConnectionForEachAttempt(t *testing.T) {
	t.Parallel()
	up := relay(t, onRedis(t))
	var hangs atomic.Pointer[chan struct{}]
	sp := startSpeaker(t, func(args []any) any {
		if c := hangs.Load(); c != nil {
			<-*c
		}
		if args[0] == "AUTH" {
			return "OK"
		}
		return up(args)
	})
	alive := make(chan struct{})
	wake := func() {
		if hangs.Swap(nil) != nil {
			close(alive)
		}
	}
	t.Cleanup(wake)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", sp.ln.Addr().String(), redis.DialPassword("secret"))
	}}
	c, err := lock.New(pool, lock.Config{Lease: time.Second, IOTimeout: 20 * time.Millisecond})
	require.NoError(t, err)
	defer closeNow(c)
	held, err := c.Mutex(t.Name()).Lock(t.Context())
	require.NoError(t, err)
	awaitRenewed(t, c, 1)

	hangs.Store(&alive)
	sp.cut()
	before := sp.dials.Load()
	for range 150 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := c.Mutex(t.Name() + "2").TryLock(ctx)
		cancel()
		require.ErrorIs(t, err, lock.ErrUnknown)
	}
	<-held.Done() // renewal has tried too
	// Two links, two connections for renewal, twenty probes.
	require.LessOrEqual(t, sp.dials.Load()-before, int64(24))
	_, err = c.Mutex(t.Name() + "2").TryLock(t.Context())
	require.ErrorContains(t, err, "an earlier dial has not returned")

	wake()
	held, err = c.Mutex(t.Name()).Lock(t.Context())
	require.NoError(t, err)
	awaitRenewed(t, c, 2)
	require.NoError(t, held.Unlock(t.Context()))
}
