package world_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAHoldWhoseRenewalsAreNotAnsweredIsReleasedWhenItIsLost: Redis has carried them out,
// and the lock would stand there for another lease with nobody behind it.
func TestAHoldWhoseRenewalsAreNotAnsweredIsReleasedWhenItIsLost(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var silent atomic.Bool
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if silent.Load() && c.Script == "renew" {
			return faultproxy.LoseReply
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{Lease: 3 * time.Second, IOTimeout: 300 * time.Millisecond})
	name := t.Name()
	held, err := c.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > 0 }, time.Minute, time.Millisecond, "the script is known to the server")
	silent.Store(true)
	<-held.Done()
	fixture.RequireLost(t, held, lock.TrustEnded)
	lost := time.Now()
	require.Eventually(t, func() bool { return !fixture.Exists(t, s, name) }, time.Minute, time.Millisecond)
	t.Logf("free %v after its loss", time.Since(lost))
	require.Positive(t, p.Arrived("release"))
}
