package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
	"github.com/wheellock/wheellock/lock/script"
)

// counters are the objects of one client whose key is "x".
type counters struct {
	sem     *lock.Semaphore
	permits *lock.PermitSemaphore
	latch   *lock.CountDownLatch
	ids     []string // of two permits that are taken, if the key had 5 before
}

// TestACallThatIsSentAgainTakesPlaceOnce: Redis carries a request out and its answer
// is lost. The request is sent again, and the caller gets the first answer.
func TestACallThatIsSentAgainTakesPlaceOnce(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, x := range map[string]struct {
		script *script.Script
		exists bool // with 5; two permits are taken from it
		call   func(counters) (any, error)
		answer any
		left   any // the value of the key; nil: there is none
	}{
		"Semaphore.TrySet":          {script.SemaphoreSet, false, func(c counters) (any, error) { return c.sem.TrySet(ctx, 5) }, true, "5"},
		"Semaphore.Add":             {script.SemaphoreAdd, true, func(c counters) (any, error) { return nil, c.sem.Add(ctx, -2) }, nil, "1"},
		"Semaphore.TryAcquire":      {script.SemaphoreTake, true, func(c counters) (any, error) { return nil, c.sem.TryAcquire(ctx, 1) }, nil, "2"},
		"Semaphore.Drain":           {script.SemaphoreTake, true, func(c counters) (any, error) { return c.sem.Drain(ctx) }, int64(3), "0"},
		"Semaphore.Release":         {script.SemaphoreAdd, true, func(c counters) (any, error) { return nil, c.sem.Release(ctx, 2) }, nil, "5"},
		"Semaphore.ReleaseIfExists": {script.SemaphoreRelease, true, func(c counters) (any, error) { return c.sem.ReleaseIfExists(ctx, 2) }, true, "5"},
		"Semaphore.Delete":          {script.SemaphoreDelete, true, func(c counters) (any, error) { return c.sem.Delete(ctx) }, true, nil},
		"PermitSemaphore.TrySet":    {script.SemaphoreSet, false, func(c counters) (any, error) { return c.permits.TrySet(ctx, 5) }, true, "5"},
		"PermitSemaphore.Set":       {script.PermitSet, true, func(c counters) (any, error) { return nil, c.permits.Set(ctx, 7) }, nil, "5"},
		"PermitSemaphore.Release":   {script.PermitFree, true, func(c counters) (any, error) { return nil, c.permits.Release(ctx, c.ids...) }, nil, "5"},
		"PermitSemaphore.SetLease":  {script.PermitSetLease, true, func(c counters) (any, error) { return nil, c.permits.SetLease(ctx, c.ids[0], time.Hour) }, nil, "3"},
		"PermitSemaphore.Delete":    {script.SemaphoreDelete, true, func(c counters) (any, error) { return c.permits.Delete(ctx) }, true, nil},
		"CountDownLatch.TrySet":     {script.LatchSet, false, func(c counters) (any, error) { return c.latch.TrySet(ctx, 5) }, true, "5"},
		"CountDownLatch.CountDown":  {script.LatchDown, true, func(c counters) (any, error) { return nil, c.latch.CountDown(ctx) }, nil, "2"},
		"CountDownLatch.Reset":      {script.LatchReset, true, func(c counters) (any, error) { return c.latch.Reset(ctx) }, true, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := locktest.NewServer(t)
				link := s.Link()
				client := link.Client(lock.Config{})
				c := counters{sem: client.Semaphore("x"), permits: client.PermitSemaphore("x"), latch: client.CountDownLatch("x")}
				if x.exists {
					require.NoError(t, c.permits.Set(ctx, 5))
					held, err := c.permits.AcquireFor(ctx, 2, time.Hour)
					require.NoError(t, err)
					c.ids = held.Permits()
				}
				_, err := s.Do("SCRIPT", "LOAD", x.script.Text())
				require.NoError(t, err)
				before := link.Calls()[x.script.Name()]
				link.CutAfter(x.script.Name())
				answer, err := x.call(c)
				require.NoError(t, err)
				require.Equal(t, x.answer, answer)
				require.Equal(t, before+2, link.Calls()[x.script.Name()])
				left, err := s.Do("GET", "x")
				require.NoError(t, err)
				if left != nil {
					left = string(left.([]byte))
				}
				require.Equal(t, x.left, left)
			})
		})
	}
}
