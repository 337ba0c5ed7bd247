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

// BenchmarkWaitersOfDistinctLocks measures how often 50,000 waiters ask Redis in their second minute.
// Each waits for another lock. Another client holds and renews all these locks.
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

// BenchmarkErr measures the check of a hold before each piece of work.
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

// BenchmarkWaitersLeave is how long it takes n waiters of one lock to leave when
// their common context ends, and how late another holder of the client then hears
// that its lease is over.
func BenchmarkWaitersLeave(b *testing.B) {
	for _, n := range []int{1000, 20_000, 50_000} {
		b.Run(fmt.Sprintf("waiters=%d", n), func(b *testing.B) {
			c, ctx := fixture.ClientOf(b, fixture.Server(b), lock.Config{}), context.Background()
			held, err := c.Mutex("held").Lock(ctx)
			require.NoError(b, err)
			var late, leaving time.Duration
			for b.Loop() {
				b.StopTimer()
				waiting, cancel := context.WithCancel(ctx)
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { _, _ = c.Mutex("held").Lock(waiting) })
				}
				for c.Stats().Waiting < n {
					time.Sleep(time.Millisecond)
				}
				other, err := c.Mutex("other").LockFor(ctx, 200*time.Millisecond)
				require.NoError(b, err)
				told := make(chan time.Duration, 1)
				go func() {
					<-other.Done()
					told <- time.Since(other.Deadline())
				}()
				time.Sleep(time.Until(other.Deadline()) - 20*time.Millisecond)
				b.StartTimer()
				began := time.Now()
				cancel()
				wg.Wait()
				leaving += time.Since(began)
				late = max(late, <-told)
				_ = other.Unlock(ctx)
			}
			b.ReportMetric(float64(late.Microseconds())/1000, "late-max-ms")
			b.ReportMetric(float64(leaving.Nanoseconds())/float64(b.N*n), "ns/waiter")
			require.NoError(b, held.Unlock(ctx))
		})
	}
}

// BenchmarkFairWaitersLeave is how long Redis works when 10,000 waiters of one
// FairMutex leave at once.
func BenchmarkFairWaitersLeave(b *testing.B) {
	const waiters = 10_000
	s := fixture.Server(b)
	holder, c := fixture.ClientOf(b, s, lock.Config{}), fixture.ClientOf(b, s, lock.Config{})
	held, err := holder.FairMutex("f").Lock(context.Background())
	require.NoError(b, err)
	queue, _, _, _ := fairKeys("f")
	for b.Loop() {
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		for range waiters {
			wg.Go(func() { _, _ = c.FairMutex("f").Lock(ctx) })
		}
		for fixture.Int(b, s, "LLEN", queue) < waiters {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second) // those who listen look once more
		fixture.Do(b, s, "CONFIG", "RESETSTAT")
		cancel()
		wg.Wait()
		for fixture.Int(b, s, "LLEN", queue) > 0 {
			time.Sleep(10 * time.Millisecond)
		}
		b.ReportMetric(float64(statOf(b, s, "evalsha", "usec"))/1000, "redis-ms")
		b.ReportMetric(float64(statOf(b, s, "evalsha", "calls")), "scripts")
	}
	require.NoError(b, held.Unlock(context.Background()))
}
