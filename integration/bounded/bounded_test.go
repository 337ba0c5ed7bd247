package bounded

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// observed is a testing.TB that records its failure.
type observed struct {
	testing.TB
	failure string
}

func (o *observed) Fatalf(format string, args ...any) { o.failure = fmt.Sprintf(format, args...) }

func TestAWaitThatEndsFailsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observed{TB: t}
		ch := make(chan int, 1)
		ch <- 7
		require.Equal(t, 7, Receive(o, ch))
		close(ch)
		require.Zero(t, Receive(o, ch))
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(longLimit - time.Second) })
		Wait(o, &wg)
		end := time.Now().Add(Limit - time.Second)
		Until(o, func() bool { return time.Now().After(end) })
		require.Empty(t, o.failure)
	})
}

func TestAWaitThatDoesNotEndFailsTheTest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &observed{TB: t}
		Receive(o, make(chan int))
		require.Contains(t, o.failure, "nothing came in 2m0s")
		require.Contains(t, o.failure, t.Name(), "it shows who waits")
		var wg sync.WaitGroup
		wg.Go(func() { time.Sleep(longLimit + time.Second) })
		Wait(o, &wg)
		require.Contains(t, o.failure, "some have not ended in 5m0s")
		wg.Wait()
		end := time.Now().Add(Limit + time.Second)
		Until(o, func() bool { return time.Now().After(end) })
		require.Contains(t, o.failure, "it did not become true in 2m0s")
	})
}

func TestAContextEndsWithItsTestOrBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := Context(t)
		_, has := ctx.Deadline()
		require.False(t, has)
		time.Sleep(longLimit - time.Second)
		require.NoError(t, ctx.Err())
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, ctx.Err(), context.Canceled)
		require.ErrorContains(t, context.Cause(ctx), t.Name()+" has run for 5m0s")
	})
	var ended context.Context
	t.Run("a test that ends", func(t *testing.T) { ended = Context(t) })
	require.Error(t, ended.Err())
}

func TestTheClocksDisagreeAfterASuspension(t *testing.T) {
	now := time.Now()
	before := BeforeSuspension(now, 60)
	require.Zero(t, now.Sub(before))
	require.Equal(t, time.Minute, now.Round(0).Sub(before.Round(0)))
}
