package lock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestAnInnerUnlockNeedsNoMemory: it only makes a count smaller.
func TestAnInnerUnlockNeedsNoMemory(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	for name, mu := range map[string]*lock.Mutex{
		"mutex": c.Mutex("m"), "fair": c.FairMutex("f"), "read": c.RWMutex("r").Reader(), "write": c.RWMutex("w").Writer(),
	} {
		as := lock.WithOwner(ctx, name)
		outer, err := mu.Lock(as)
		require.NoError(t, err, name)
		inner, err := mu.Lock(as)
		require.NoError(t, err, name)
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1")
		require.NoError(t, inner.Unlock(ctx), name)
		require.True(t, outer.Valid(), name)
		require.NoError(t, outer.Unlock(ctx), name)
		fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "0")
	}
}
