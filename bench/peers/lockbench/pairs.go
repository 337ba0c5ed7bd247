package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/wheellock/wheellock/bench/peers/internal/rows"
	"github.com/wheellock/wheellock/bench/peers/internal/usage"
)

// warmUp comes before each window: connections, scripts, the collector's pace.
const warmUp = 300 * time.Millisecond

// prefix begins the names of this process's locks.
var prefix = "lb" + strconv.FormatUint(rand.Uint64N(36*36*36*36), 36) + ":"

// measurePairs lets every goroutine lock and unlock a key of its own, one pair after the other.
func measurePairs(run rows.Run) result {
	if run.Impl == "bare" || run.Impl == "bare-limited" {
		return measureBare(run, run.Impl == "bare-limited")
	}
	l := newLocker(run.Impl, *pause)
	defer l.close()
	ctx := context.Background()
	return repeat(run, run.N, 1, func(g int) func(i int) error {
		mine := prefix + strconv.Itoa(g) + ":"
		return func(i int) error {
			held, err := l.lock(ctx, mine+strconv.Itoa(i))
			if err != nil {
				return err
			}
			return held.unlock(ctx)
		}
	})
}

// repeat starts goroutines that call the function from next again and again. It notes how long each call
// took, which is one call for that many pairs.
func repeat(run rows.Run, goroutines, pairs int, next func(g int) func(i int) error) result {
	var wg sync.WaitGroup
	took := make([][]time.Duration, goroutines)
	errs := make([]int, goroutines)
	start := time.Now()
	open, end := start.Add(warmUp), start.Add(warmUp+run.For)
	var cpu time.Duration
	var before spending
	time.AfterFunc(warmUp, func() { cpu, before = usage.CPU(), must(spentBy(*addr)) })
	for g := range goroutines {
		wg.Go(func() {
			call := next(g)
			for i := 0; ; i++ {
				began := time.Now()
				if began.After(end) {
					return
				}
				if err := call(i); err != nil {
					fail(err, &errs[g])
				} else if began.After(open) {
					took[g] = append(took[g], time.Since(began))
				}
			}
		})
	}
	wg.Wait()
	r := result{Run: run}
	all := slices.Concat(took...)
	slices.Sort(all)
	if n := len(all); n > 0 {
		r.PerS = float64(n*pairs) / time.Since(open).Seconds()
		r.P50, r.P99 = us(all[n/2]), us(all[n*99/100])
		r.ClientCPU = us(usage.CPU()-cpu) / float64(n*pairs)
		r.spent(before, must(spentBy(*addr)), float64(n*pairs))
	}
	for _, n := range errs {
		r.Errors += n
	}
	return r
}

// fail counts an error, and prints the first.
func fail(err error, count *int) {
	if *count++; *count == 1 {
		fmt.Fprintln(os.Stderr, err)
	}
}

func us(d time.Duration) float64 { return float64(d) / 1e3 }

func millis(d time.Duration) float64 { return float64(d) / 1e6 }
