package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAReadIsRepeatedOnceWhenItsFlowIsForgotten, as by a NAT that drops what comes over a
// connection that was idle for long. A call that changes something is not repeated.
func TestAReadIsRepeatedOnceWhenItsFlowIsForgotten(t *testing.T) {
	t.Parallel()
	p := fixture.Proxy(t, fixture.Either(t), nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 2 * time.Second})
	ctx := bounded.Context(t)
	for what, read := range map[string]func() error{
		"inspect": func() error { _, err := c.Mutex("m").IsLocked(ctx); return err },
		"count":   func() error { _, err := c.Semaphore("s").Available(ctx); return err },
	} {
		require.NoError(t, read())
		p.HoldFlowOf(what)
		require.NoError(t, read(), what)
		require.Equal(t, 1, p.Held(), "the first request got lost")
		p.Heal()
	}
	fixture.Hold(t, c.Mutex("m").TryLock)
	p.HoldFlowOf("acquire")
	_, err := c.Mutex("n").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrUnknown)
}
