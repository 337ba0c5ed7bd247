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

// Very many holders are told of their loss without a goroutine for each: by one hook, or, where
// a context has to end, by context.AfterFunc. The last row is for comparison.
func TestFiftyThousandHoldersAreToldWithoutAGoroutineEach(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	locks := 50_000
	if fixture.Briefly() {
		locks = 10_000
	}
	none := func(*lock.Held, func()) {}
	for name, row := range map[string]struct {
		hook  bool
		watch func(held *lock.Held, told func())
	}{
		"Hooks.Lost": {true, none},
		"context.AfterFunc": {false, func(held *lock.Held, told func()) {
			context.AfterFunc(held.Context(context.Background()), told)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			server := fixture.Server(t)
			var told atomic.Int64
			tell := func() { told.Add(1) }
			var hooks lock.Hooks
			if row.hook {
				hooks.Lost = func(lock.Event) { tell() }
			}
			c := fixture.ClientOf(t, server, lock.Config{Lease: 3 * time.Second, Hooks: hooks})
			holds := fixture.LockAll(t, c, fixture.Names("lock:", locks))
			before, goroutines := memory(), runtime.NumGoroutine()
			for _, held := range holds {
				row.watch(held, tell)
			}
			require.Less(t, runtime.NumGoroutine()-goroutines, 100)
			t.Logf("%d bytes per lock", (memory()-before)/int64(locks))
			fixture.Do(t, server, "FLUSHALL")
			require.Eventually(t, func() bool { return told.Load() == int64(locks) }, time.Minute, time.Millisecond)
			for _, held := range holds {
				require.ErrorIs(t, held.Err(), lock.ErrLost)
			}
		})
	}
}

// memory is what live objects and stacks take.
func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}
