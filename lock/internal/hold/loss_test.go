package hold_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/hold"
)

// TestErrAndDoneAgreeWhileAnotherFindsTheLoss: that goroutine was stopped half-way.
func TestErrAndDoneAgreeWhileAnotherFindsTheLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		held, err := c.Mutex("m").LockFor(t.Context(), time.Minute)
		require.NoError(t, err)
		done, ctx := held.Done(), held.Context(t.Context())
		hold.BeginLoss(in(held))
		require.ErrorIs(t, held.Err(), lock.ErrLost)
		select {
		case <-done:
		default:
			require.Fail(t, "Err says that it is lost, and Done does not")
		}
		require.Error(t, ctx.Err())
		held, err = c.Mutex("other").LockFor(t.Context(), time.Minute)
		require.NoError(t, err)
		ctx = held.Context(t.Context())
		hold.BeginLoss(in(held))
		require.Error(t, ctx.Err())
	})
}
