package world_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAServerThatHangsDoesNotCostAConnectionForEachAttempt: a dial that waits for the answer to AUTH,
// without a timeout, does not return while the server hangs.
func TestAServerThatHangsDoesNotCostAConnectionForEachAttempt(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	var hangs atomic.Pointer[chan struct{}]
	p := fixture.Proxy(t, onRedis(t), func(c faultproxy.Command) faultproxy.Fate {
		if alive := hangs.Load(); alive != nil {
			<-*alive
		}
		if c.Args[0] == "AUTH" {
			return faultproxy.Answer("OK")
		}
		return faultproxy.Pass
	})
	alive := make(chan struct{})
	wake := func() {
		if hangs.Swap(nil) != nil {
			close(alive)
		}
	}
	t.Cleanup(wake)
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", p.Addr(), redis.DialPassword("secret"))
	}}
	c := fixture.Client(t, pool, lock.Config{Lease: time.Second, IOTimeout: 20 * time.Millisecond})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.AwaitRenewed(t, c, 1)

	hangs.Store(&alive)
	p.HangUp(0)
	before := p.Accepted()
	for range 150 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := c.Mutex(t.Name() + "2").TryLock(ctx)
		cancel()
		require.True(t, fixture.IsNoAnswer(err), err)
	}
	bounded.Receive(t, held.Done()) // renewal has tried too
	// Two connections for scripts, two for renewals, and twenty hedges of renewals.
	require.LessOrEqual(t, p.Accepted()-before, 24)
	_, err := c.Mutex(t.Name() + "2").TryLock(t.Context())
	require.ErrorContains(t, err, "an earlier dial has not returned")

	wake()
	bounded.Until(t, func() bool { // a busy machine may lose a lock with so short a timeout
		held, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
		if err != nil {
			return false
		}
		for before := c.Stats().Renewal.Renewed; held.Valid() && c.Stats().Renewal.Renewed < before+2; {
			time.Sleep(time.Millisecond)
		}
		return fixture.RetryUntilKnown(func() error { return held.Unlock(t.Context()) }) == nil
	})
}
