package main

import (
	"context"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
)

// takeLimit is how long measureHeld takes locks. What a client has not taken by then is an error.
const takeLimit = time.Minute

// measureHeld takes many locks and measures the live heap then. The names of the locks count, because
// they are made here. The slice of the returned locks does not.
func measureHeld(run rows.Run) result {
	l := newLocker(run.Impl, *pause)
	warm(l)
	ctx := context.Background()
	taking, stop := context.WithTimeout(ctx, takeLimit) // some clients release their locks when it ends
	defer stop()
	held := make([]unlocker, run.N)
	var errs atomic.Int64
	bytes, before := liveHeap(), runtime.NumGoroutine()
	each(run.N, func(i int) {
		h, err := l.lock(taking, prefix+strconv.Itoa(i))
		if err != nil {
			errs.Add(1)
			return
		}
		held[i] = h
	})
	r := result{Run: run}
	r.Bytes = (float64(liveHeap()) - float64(bytes)) / float64(run.N)
	r.Gos = float64(runtime.NumGoroutine()-before) / float64(run.N)
	each(run.N, func(i int) {
		if held[i] == nil || held[i].unlock(ctx) != nil {
			errs.Add(1)
		}
	})
	l.close()
	r.Errors = int(errs.Load())
	return r
}

// each calls f for 0 to n-1 from 64 goroutines.
func each(n int, f func(i int)) {
	const goroutines = 64
	var wg sync.WaitGroup
	for g := range goroutines {
		wg.Go(func() {
			for i := g; i < n; i += goroutines {
				f(i)
			}
		})
	}
	wg.Wait()
}

func liveHeap() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
