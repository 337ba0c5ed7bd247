package lock_test

import (
	"context"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// Very many holders are told of their loss without a goroutine for each: by one hook, or, for a
// holder that has a context to end, by context.AfterFunc. The log has the heap of each way.
func TestFiftyThousandHoldersAreToldWithoutAGoroutineEach(t *testing.T) {
	const locks = 50_000
	for name, watch := range map[string]func(told func()) (lock.Hooks, func(*lock.Held)){
		"Hooks.Lost": func(told func()) (lock.Hooks, func(*lock.Held)) {
			return lock.Hooks{Lost: func(lock.Event) { told() }}, func(*lock.Held) {}
		},
		"context.AfterFunc": func(told func()) (lock.Hooks, func(*lock.Held)) {
			return lock.Hooks{}, func(held *lock.Held) { context.AfterFunc(held.Context(context.Background()), told) }
		},
	} {
		t.Run(name, func(t *testing.T) {
			server := fixture.Server(t)
			var told atomic.Int64
			hooks, watchOne := watch(func() { told.Add(1) })
			c := fixture.ClientOf(t, server, lock.Config{Lease: 3 * time.Second, Hooks: hooks})
			holds := fixture.LockAll(t, c, fixture.Names("lock:", locks))
			before, goroutines := heapOf(), runtime.NumGoroutine()
			for _, held := range holds {
				watchOne(held)
			}
			require.Less(t, runtime.NumGoroutine()-goroutines, 100, "goroutines that wait for a loss")
			t.Logf("%d bytes per lock", (heapOf()-before)/locks)
			fixture.Do(t, server, "FLUSHALL")
			require.Eventually(t, func() bool { return told.Load() == locks }, time.Minute, time.Millisecond)
			for _, held := range holds {
				require.ErrorIs(t, held.Err(), lock.ErrLost)
			}
		})
	}
}

func heapOf() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
