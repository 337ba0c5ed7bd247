package lock_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// BenchmarkPair is one Lock and Unlock of distinct keys.
func BenchmarkPair(b *testing.B) {
	for _, goroutines := range []int{1, 128} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
			pair := func(i int64) error {
				held, err := c.Mutex("pair " + strconv.FormatInt(i, 10)).Lock(ctx)
				if err == nil {
					err = held.Unlock(ctx)
				}
				return err
			}
			measurePairs(b, slices.Repeat([]func(int64) error{pair}, goroutines))
		})
	}
}

// measurePairs shares b.N pairs among goroutines, one for each function, which gets the number
// of its pair.
func measurePairs(b *testing.B, goroutines []func(i int64) error) {
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	var wg sync.WaitGroup
	for _, pair := range goroutines {
		wg.Go(func() {
			for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
				if err := pair(i); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "pairs/s")
}

// BenchmarkHandOver is one Lock and Unlock of a key that all goroutines want, so most
// hand-overs are in memory.
func BenchmarkHandOver(b *testing.B) {
	c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			held, err := c.Mutex("busy").Lock(ctx)
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

// BenchmarkHeldMemory is the live heap of one held lock with its name.
func BenchmarkHeldMemory(b *testing.B) {
	c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
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

// BenchmarkWaitersOfDistinctLocks is how often waiters ask Redis while another client
// holds and renews all their locks: 50,000 of them, each of a lock of its own, in the
// second minute.
func BenchmarkWaitersOfDistinctLocks(b *testing.B) {
	const waiters = 50_000
	s := fixture.Server(b)
	holder, waiter := fixture.ClientOf(b, s, lock.Config{}), fixture.ClientOf(b, s, lock.Config{})
	name := func(i int) string { return "w " + strconv.Itoa(i) }
	var wg sync.WaitGroup
	for g := range 100 {
		wg.Go(func() {
			for i := g; i < waiters; i += 100 {
				if _, err := holder.Mutex(name(i)).Lock(context.Background()); err != nil {
					b.Error(err)
				}
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	for i := range waiters {
		wg.Go(func() { _, _ = waiter.Mutex(name(i)).Lock(ctx) })
	}
	for b.Loop() {
		time.Sleep(time.Minute)
		before := waiter.Stats().Tries
		time.Sleep(time.Minute)
		b.ReportMetric(float64(waiter.Stats().Tries-before)/60, "tries/s")
	}
	cancel()
	wg.Wait()
}

// BenchmarkReleaseOnClose is Close of a client that still holds many locks.
func BenchmarkReleaseOnClose(b *testing.B) {
	const locks = 300_000
	s := fixture.Server(b)
	pool := s.Pool(0)
	defer pool.Close()
	busy := func() (sum float64) { // seconds of Redis
		info, err := s.Info("cpu")
		if err != nil {
			b.Fatal(err)
		}
		for _, of := range []string{"used_cpu_user", "used_cpu_sys"} {
			spent, err := strconv.ParseFloat(info[of], 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += spent
		}
		return sum
	}
	redis := 0.0
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for b.Loop() {
		b.StopTimer()
		c, err := lock.New(pool, lock.Config{ReleaseOnClose: true, Lease: 10 * time.Minute, UnlockTimeout: time.Minute})
		if err != nil {
			b.Fatal(err)
		}
		var wg sync.WaitGroup
		for g := range 256 {
			wg.Go(func() {
				for i := g; i < locks; i += 256 {
					if _, err := c.Mutex("close " + strconv.Itoa(i)).Lock(context.Background()); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		redis -= busy()
		b.StartTimer()
		if err := c.Close(ended); !strings.Contains(err.Error(), fmt.Sprintf("%d were released, 0 are left", locks)) {
			b.Error(err)
		}
		redis += busy()
	}
	b.ReportMetric(redis/float64(b.N), "redis-cpu-s/op")
}

// BenchmarkErr is a hold that is asked before each piece of work.
func BenchmarkErr(b *testing.B) {
	c := fixture.ClientOf(b, fixture.Server(b), lock.Config{})
	held, err := c.Mutex("asked").Lock(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	ctx := held.Context(b.Context())
	for name, ask := range map[string]func() error{"of=held": held.Err, "of=context": ctx.Err} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := ask(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRedLock is one Lock and Unlock of a lock of three servers: by one goroutine alone,
// by 8 of one process, and by 8 processes with one each.
func BenchmarkRedLock(b *testing.B) {
	s1, s2, s3 := fixture.Server(b), fixture.Server(b), fixture.Server(b)
	process := func(b *testing.B) *lock.RedLock {
		var members []*lock.Mutex
		for _, s := range []*redistest.Server{s1, s2, s3} {
			members = append(members, fixture.ClientOf(b, s, lock.Config{}).Mutex("busy"))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		if err != nil {
			b.Fatal(err)
		}
		return r
	}
	for _, of := range []struct{ processes, goroutines int }{{1, 1}, {1, 8}, {8, 1}} {
		b.Run(fmt.Sprintf("processes=%d/goroutines=%d", of.processes, of.goroutines), func(b *testing.B) {
			var goroutines []func(int64) error
			for range of.processes {
				r, ctx := process(b), context.Background()
				pair := func(int64) error {
					held, err := r.Lock(ctx)
					if err == nil {
						err = held.Unlock(ctx)
					}
					return err
				}
				goroutines = append(goroutines, slices.Repeat([]func(int64) error{pair}, of.goroutines)...)
			}
			measurePairs(b, goroutines)
		})
	}
}

// BenchmarkHandedOverMemory is the live heap of one lock that was handed over, with its
// name.
func BenchmarkHandedOverMemory(b *testing.B) {
	c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
	const locks = 20_000
	for b.Loop() {
		helds := make([]*lock.Held, 0, locks)
		before := liveHeap()
		for i := range locks {
			m := c.Mutex("lock:" + strconv.Itoa(i))
			first, err := m.Lock(ctx)
			require.NoError(b, err)
			got := make(chan *lock.Held)
			go func() {
				held, err := m.Lock(ctx)
				if err != nil {
					b.Error(err)
				}
				got <- held
			}()
			for lock.Table(c).Counts().Waiting == 0 {
				runtime.Gosched()
			}
			require.NoError(b, first.Unlock(ctx))
			helds = append(helds, <-got)
		}
		b.ReportMetric(float64(liveHeap()-before)/locks, "B/lock")
		for _, held := range helds {
			require.NoError(b, held.Unlock(ctx))
		}
	}
}
