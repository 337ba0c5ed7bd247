package hold_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
)

// TestAHoldIsRenewedFromTheFirstReEntryThatNeedsIt: a re-entry by Lock needs renewal, and
// one by LockFor does not.
func TestAHoldIsRenewedFromTheFirstReEntryThatNeedsIt(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		outer, err := b.m.LockFor(ctx, 10*time.Second)
		require.NoError(b, err)
		inner, err := b.m.Lock(outer.Context(ctx))
		require.NoError(b, err)
		time.Sleep(5 * time.Minute)
		require.NoError(b, inner.Err())
		require.NoError(b, inner.Unlock(ctx))
		time.Sleep(5 * time.Minute)
		require.ErrorIs(b, outer.Err(), lock.ErrLost, "nobody needs it any more")
	})
}
