package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestSemaphoreSumsAreExactWhenRequestsAreLostDoubledAndLate(t *testing.T) {
	s := onRedis(t)
	for _, target := range []string{"semaphore_take", "semaphore_add", "semaphore_undo", "*"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 7, 300*time.Millisecond)
			cfg := lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			const start = 20
			fixture.Do(t, s, "SET", t.Name(), start)
			var sum, acquired, drained, unknown atomic.Int64 // sum: what is free when all is done
			sum.Store(start)
			end := time.Now().Add(faultTime())
			var clients []*lock.Client
			var wg sync.WaitGroup
			for i := range 2 {
				c, err := lock.New(f.Pool(), cfg)
				require.NoError(t, err)
				clients = append(clients, c)
				for j := range 4 {
					wg.Go(func() {
						rng := rand.New(rand.NewPCG(uint64(i), uint64(j)))
						sem := c.Semaphore(t.Name())
						for time.Now().Before(end) {
							ctx, cancel := context.WithTimeout(context.Background(), time.Duration(1+rng.IntN(200))*time.Millisecond)
							n := int64(1 + rng.IntN(5))
							var err error
							switch rng.IntN(10) {
							case 0:
								if n, err = sem.Drain(ctx); err == nil {
									drained.Add(1)
								}
							case 1:
								err = sem.TryAcquire(ctx, n)
							default:
								err = sem.Acquire(ctx, n)
							}
							cancel()
							switch {
							case err == nil && n > 0:
								acquired.Add(1)
								sum.Add(-n)
								// Unknown or not, a release takes place once.
								err := sem.Release(ctx, n)
								if err != nil && !errors.Is(err, lock.ErrUnknown) {
									t.Errorf("release: %v", err)
								} else if err != nil {
									unknown.Add(1)
								}
								sum.Add(n)
							case err != nil && !isAny(err, lock.ErrNotAcquired, lock.ErrUnknown, context.DeadlineExceeded):
								t.Errorf("acquire: %v", err)
							}
						}
					})
				}
			}
			bounded.Wait(t, &wg)
			faults := f.rest()
			require.EqualValues(t, start, sum.Load())
			// The clients go on with what is still to be given back.
			c := fixture.ClientOf(t, s, lock.Config{})
			require.Eventually(t, func() bool {
				n, err := c.Semaphore(t.Name()).Available(bounded.Context(t))
				return err == nil && n == start
			}, time.Minute, 10*time.Millisecond)
			for _, c := range clients {
				require.NoError(t, c.Close(bounded.Context(t)))
			}
			// What is still to arrive, up to 375 ms late, changes nothing.
			f.stopLate(t)
			n, err := c.Semaphore(t.Name()).Available(bounded.Context(t))
			require.NoError(t, err)
			require.EqualValues(t, start, n)
			t.Logf("%d acquisitions, %d drains, %d unknown releases, %d faults: %v", acquired.Load(), drained.Load(), unknown.Load(), faults, f)
			require.Positive(t, acquired.Load())
			if target != "semaphore_undo" { // which only a cancel brings
				require.Positive(t, faults)
			}
		})
	}
}

func TestALatchOpensAtExactlyItsCountWhenRequestsAreLostDoubledAndLate(t *testing.T) {
	s := onRedis(t)
	for _, target := range []string{"latch_set", "latch_down", "latch_reset", "count", "*"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 3, 300*time.Millisecond)
			cfg := lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			ctx := bounded.Context(t)
			c, err := lock.New(f.Pool(), cfg)
			require.NoError(t, err)
			end := time.Now().Add(faultTime())
			rounds := 0
			var late []string
			for ; time.Now().Before(end); rounds++ {
				const n = 8
				name := fmt.Sprint(t.Name(), rounds)
				latch := c.CountDownLatch(name)
				sure := func(op func() error) { // unknown is not undone: it takes place, once
					if err := op(); err != nil && !errors.Is(err, lock.ErrUnknown) {
						t.Error(err)
					}
				}
				sure(func() error { _, err := latch.TrySet(ctx, n+1); return err })
				require.Eventually(t, func() bool { return fixture.Exists(t, s, name) }, time.Minute, time.Millisecond)
				var wg sync.WaitGroup
				for range n {
					wg.Go(func() { sure(func() error { return latch.CountDown(ctx) }) })
				}
				bounded.Wait(t, &wg)
				require.Eventually(t, func() bool {
					return string(fixture.Do(t, s, "GET", name).([]byte)) == "1" // never less: each counted once
				}, time.Minute, time.Millisecond, "%s", name)
				if rounds%2 == 0 {
					sure(func() error { return latch.CountDown(ctx) })
				} else {
					sure(func() error { _, err := latch.Reset(ctx); return err })
				}
				wait, cancel := context.WithTimeout(ctx, time.Minute)
				require.NoError(t, latch.Wait(wait))
				cancel()
				late = append(late, name)
			}
			faults := f.rest()
			require.NoError(t, c.Close(ctx))
			f.stopLate(t)
			for _, name := range late {
				require.False(t, fixture.Exists(t, s, name), "a copy that came late closed the latch again")
			}
			t.Logf("%d latches, %d faults: %v", rounds, faults, f)
			require.Positive(t, faults)
		})
	}
}
