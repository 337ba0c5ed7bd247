package wait_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
)

func TestACallEndsAfterTheLimitAndNotWithItsCaller(t *testing.T) {
	type key struct{}
	synctest.Test(t, func(t *testing.T) {
		const limit = 3 * time.Second
		bound := (&wait.Deadlines{Limit: limit}).Bound
		caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		cancel()
		for range 200 { // calls that share an end, and calls that do not
			began := time.Now()
			ctx := bound(caller)
			require.Equal(t, "value", ctx.Value(key{}))
			require.NoError(t, ctx.Err())
			at, ok := ctx.Deadline()
			require.True(t, ok)
			left := at.Sub(began)
			require.LessOrEqual(t, left, limit)
			require.GreaterOrEqual(t, left, limit-limit/64)
			time.Sleep(17 * time.Millisecond)
		}
		ctx := bound(caller)
		at, _ := ctx.Deadline()
		child, stop := context.WithTimeout(ctx, time.Hour) // a child ends with it
		defer stop()
		time.Sleep(time.Until(at) - time.Nanosecond)
		synctest.Wait()
		require.NoError(t, ctx.Err())
		time.Sleep(time.Nanosecond)
		<-ctx.Done()
		require.Equal(t, context.DeadlineExceeded, ctx.Err())
		<-child.Done()
		require.Equal(t, context.DeadlineExceeded, child.Err())
	})
}

func TestManyCallsNeedOneTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bound := (&wait.Deadlines{Limit: time.Second}).Bound
		first, second := bound(t.Context()), bound(context.Background())
		require.Equal(t, first.Done(), second.Done())
		time.Sleep(time.Second/64 + 1)
		require.NotEqual(t, first.Done(), bound(t.Context()).Done())
		require.Equal(t, 1.0, testing.AllocsPerRun(100, func() { bound(t.Context()) }))
	})
}
