package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func benchClient(b *testing.B) *lock.Client {
	s, err := redistest.Start(context.Background(), redistest.Options{})
	if err != nil {
		b.Skip("no redis-server on PATH:", err)
	}
	pool := s.Pool(0)
	c, err := lock.New(pool, lock.Config{})
	require.NoError(b, err)
	b.Cleanup(func() {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = c.Close(ctx)
		_ = pool.Close()
		require.NoError(b, s.Stop())
	})
	return c
}

// BenchmarkPair is one Lock and Unlock of distinct keys.
func BenchmarkPair(b *testing.B) {
	for _, goroutines := range []int{1, 128} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			c, ctx := benchClient(b), context.Background()
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			var wg sync.WaitGroup
			for range goroutines {
				wg.Go(func() {
					for {
						i := next.Add(1)
						if i > int64(b.N) {
							return
						}
						held, err := c.Mutex("pair " + strconv.FormatInt(i, 10)).Lock(ctx)
						if err == nil {
							err = held.Unlock(ctx)
						}
						if err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
		})
	}
}

// BenchmarkHeldMemory is the live heap of one held lock with its name.
func BenchmarkHeldMemory(b *testing.B) {
	c, ctx := benchClient(b), context.Background()
	const locks = 100_000
	for b.Loop() {
		helds := make([]*lock.Held, locks)
		before := liveHeap()
		var wg sync.WaitGroup
		for g := range 64 {
			wg.Go(func() {
				for i := g; i < locks; i += 64 {
					held, err := c.Mutex("lock:" + strconv.Itoa(i)).Lock(ctx)
					if err != nil {
						b.Error(err)
						return
					}
					helds[i] = held
				}
			})
		}
		wg.Wait()
		b.ReportMetric(float64(liveHeap()-before)/locks, "B/lock")
		for g := range 64 {
			wg.Go(func() {
				for i := g; i < locks; i += 64 {
					if err := helds[i].Unlock(ctx); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
	}
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
