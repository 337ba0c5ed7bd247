package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// BenchmarkMany takes 50,000 locks and gives them back: in a loop, by 128 goroutines of the caller's,
// and by TryLockMany and UnlockMany.
func BenchmarkMany(b *testing.B) {
	names := fixture.Names("session:", 50_000)
	each := func(goroutines int, do func(i int)) {
		var next atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				for i := next.Add(1) - 1; i < int64(len(names)); i = next.Add(1) - 1 {
					do(int(i))
				}
			})
		}
		wg.Wait()
	}
	by := func(goroutines int) func(context.Context, *lock.Client) {
		return func(ctx context.Context, c *lock.Client) {
			helds := make([]*lock.Held, len(names))
			each(goroutines, func(i int) { helds[i], _ = c.Mutex(names[i]).TryLock(ctx) })
			each(goroutines, func(i int) { _ = helds[i].Unlock(ctx) })
		}
	}
	for _, way := range []struct {
		name string
		run  func(context.Context, *lock.Client)
	}{
		{"impl=loop", by(1)},
		{"impl=goroutines128", by(128)},
		{"impl=many", func(ctx context.Context, c *lock.Client) { lock.UnlockMany(ctx, heldOf(c.TryLockMany(ctx, names))) }},
	} {
		b.Run(way.name, func(b *testing.B) {
			c := fixture.ClientOf(b, fixture.Server(b), lock.Config{})
			require.NoError(b, fixture.Hold(b, c.Mutex("first").Lock).Unlock(b.Context()))
			b.ReportAllocs()
			pairs := 0
			for b.Loop() {
				way.run(b.Context(), c)
				pairs += len(names)
			}
			b.ReportMetric(float64(pairs)/b.Elapsed().Seconds(), "pairs/s")
			require.EqualValues(b, pairs+1, c.Stats().Calls[lock.OutcomeAcquired])
		})
	}
}
