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
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestPermitsAreReleasedByIDExactlyOnceWhenRequestsAreLostDoubledAndLate: one client
// takes permits and another one releases them. Each is released once, so no request
// may ever be told that a permit is not taken: that would be the answer to a copy.
// Takings are not disturbed: what comes of one that is late ends with its lease.
func TestPermitsAreReleasedByIDExactlyOnceWhenRequestsAreLostDoubledAndLate(t *testing.T) {
	s := onRedis(t)
	for _, target := range []string{"permit_free", "permit_set_lease", "permit_deadline", "permit_release"} {
		t.Run(target, func(t *testing.T) {
			t.Parallel()
			f := newFaulty(t, target, 23, 300*time.Millisecond)
			cfg := lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond, MaxPoll: 50 * time.Millisecond}
			key, ctx := keyOf(t), context.Background()
			const total = 9
			fixture.Do(t, s, "SET", key, total)
			taker, err := lock.New(f.Pool(), cfg)
			require.NoError(t, err)
			releaser, err := lock.New(f.Pool(), cfg)
			require.NoError(t, err)
			var releases, unknown atomic.Int64
			end := time.Now().Add(faultTime())
			var wg sync.WaitGroup
			for i := range 5 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(uint64(i), 5))
					theirs := releaser.PermitSemaphore(key)
					for time.Now().Before(end) {
						wait, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
						held, err := taker.PermitSemaphore(key).AcquireFor(wait, 1+rng.Int64N(4), time.Hour)
						cancel()
						if err != nil {
							if !errors.Is(err, context.DeadlineExceeded) {
								t.Error(err)
							}
							continue
						}
						ids := held.Permits()
						if rng.IntN(2) == 0 {
							if err := theirs.SetLease(ctx, ids[0], 2*time.Hour); err != nil && !errors.Is(err, lock.ErrUnknown) {
								t.Error(err)
							}
						}
						if left, err := theirs.Lease(ctx, ids[0]); err != nil && !errors.Is(err, lock.ErrUnknown) || err == nil && left < 30*time.Minute {
							t.Error(left, err)
						}
						first := rng.IntN(len(ids) + 1) // in two requests, or one
						for _, ids := range [][]string{ids[:first], ids[first:]} {
							switch err := theirs.Release(ctx, ids...); {
							case errors.Is(err, lock.ErrUnknown):
								unknown.Add(1)
							case err != nil:
								t.Error(err)
							default:
								releases.Add(1)
							}
						}
						// The taker may or may not give back what is still on its way.
						if err := held.Unlock(ctx); err != nil && !isAny(err, lock.ErrLost, lock.ErrUnknown) {
							t.Error(err)
						}
					}
				})
			}
			bounded.Wait(t, &wg)
			faults := f.rest()
			require.Eventually(t, func() bool {
				info, err := fixture.ClientOf(t, s, lock.Config{}).PermitSemaphore(key).Inspect(ctx)
				require.NoError(t, err)
				return info == lock.PermitInfo{Exists: true, Available: total}
			}, time.Minute, 20*time.Millisecond)
			require.NoError(t, taker.Close(ctx))
			require.NoError(t, releaser.Close(ctx))
			f.stopLate(t) // what is still to arrive changes nothing
			require.Equal(t, fmt.Appendf(nil, "%d", total), fixture.Do(t, s, "GET", key))
			requirePermits(t, fixture.ClientOf(t, s, lock.Config{}).PermitSemaphore(key), total, 0)
			t.Logf("%d releases, %d unknown, %d faults: %v", releases.Load(), unknown.Load(), faults, f)
			require.Positive(t, releases.Load())
			require.Positive(t, faults)
		})
	}
}

// TestTheAnswerOfAReleaseByIDIsThatOfItsFirstCopy: the answer is lost, or the request
// comes twice, and who asked hears how the first one went.
func TestTheAnswerOfAReleaseByIDIsThatOfItsFirstCopy(t *testing.T) {
	s := onRedis(t)
	for _, fault := range []faultproxy.Fate{
		faultproxy.LoseRequest, faultproxy.LoseReply, faultproxy.Twice, faultproxy.AfterThree, faultproxy.Late(125 * time.Millisecond),
	} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			var faults atomic.Int64
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if (c.Script == "permit_free" || c.Script == "permit_set_lease") && faults.Add(-1) >= 0 {
					return fault
				}
				return faultproxy.Pass
			})
			c, err := lock.New(p.Pool(), lock.Config{IOTimeout: 30 * time.Millisecond})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			key, ctx := keyOf(t), context.Background()
			sem, bystander := c.PermitSemaphore(key), fixture.ClientOf(t, s, lock.Config{}).PermitSemaphore(key)
			require.NoError(t, bystander.Set(ctx, 3))
			held, err := bystander.AcquireFor(ctx, 3, time.Hour)
			require.NoError(t, err)
			ids := held.Permits()
			absent, _ := javaID(1)
			faults.Store(1)
			require.NoError(t, sem.SetLease(ctx, ids[0], 2*time.Hour))
			faults.Store(1)
			require.NoError(t, sem.Release(ctx, ids...))
			faults.Store(1)
			requireGone(t, sem.Release(ctx, absent, ids[0]), absent, ids[0])
			faults.Store(1)
			requireGone(t, sem.SetLease(ctx, ids[0], time.Hour), ids[0])
			bounded.Until(t, p.SendLate)
			requirePermits(t, bystander, 3, 0)
			require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			requirePermits(t, bystander, 3, 0)
		})
	}
}

// TestALeaseIsNotSetBackByARequestThatIsLate.
func TestALeaseIsNotSetBackByARequestThatIsLate(t *testing.T) {
	s := onRedis(t)
	for _, fault := range []faultproxy.Fate{faultproxy.AfterThree, faultproxy.Late(125 * time.Millisecond)} {
		t.Run(fault.String(), func(t *testing.T) {
			t.Parallel()
			var faults atomic.Int64
			faults.Store(1)
			p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
				if c.Script == "permit_set_lease" && faults.Add(-1) >= 0 {
					return fault
				}
				return faultproxy.Pass
			})
			c, err := lock.New(p.Pool(), lock.Config{IOTimeout: 30 * time.Millisecond})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			key, ctx := keyOf(t), context.Background()
			id, member := javaID(7)
			javaTakes(t, s, key, member, javaNever)
			require.NoError(t, c.PermitSemaphore(key).SetLease(ctx, id, time.Minute))
			require.NoError(t, c.PermitSemaphore(key).SetLease(ctx, id, time.Hour))
			bounded.Until(t, p.SendLate)
			left, err := c.PermitSemaphore(key).Lease(ctx, id)
			require.NoError(t, err)
			require.Greater(t, left, 50*time.Minute)
		})
	}
}
