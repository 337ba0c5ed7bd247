package renewal_test

import (
	"context"
	"fmt"
	"math/bits"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/renewal"
)

func TestOutageOfHalfTheTTLAndMoreLosesNothing(t *testing.T) {
	leases := 100_000
	if testing.Short() {
		leases = 5_000
	}
	for _, ttl := range []time.Duration{30 * time.Second, time.Second} {
		for name, timeout := range map[string]time.Duration{"black hole": ttl / 30, "refused": time.Millisecond} {
			t.Run(fmt.Sprintf("%v ttl=%v", name, ttl), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &store{}
					w, ln := newLane(t, &boundedRenewer{Renewer: s, after: timeout}, renewal.Config{TTL: ttl})
					hs := s.holdMany(t, ln, leases, ttl)
					time.Sleep(2 * ttl)
					outage := ttl * 55 / 100
					s.blackHole(outage)
					time.Sleep(outage + 5*ttl)
					require.Empty(t, w.Stats().Lost)
					require.Equal(t, leases, w.Stats().Leases)
					for _, h := range hs {
						require.True(t, h.lease.Valid())
					}
				})
			})
		}
	}
}

func TestLongOutageIsToldOnceBeforeTheStoreExpiresTheKeys(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		hs := s.holdMany(t, ln, 500, 30*time.Second)
		time.Sleep(time.Minute)
		s.setFault(func() fault { return fault{drop: true} })
		time.Sleep(time.Minute)
		for _, h := range hs {
			require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
			require.Greater(t, h.spared, time.Duration(0), "told before the store's expiry")
			late := h.toldAt().Sub(h.lease.Deadline())
			require.GreaterOrEqual(t, late, time.Duration(0))
			require.LessOrEqual(t, late, w.Config().Tick)
		}
		s.setFault(nil)
		fresh := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(5 * time.Minute)
		require.True(t, fresh.lease.Valid(), "new leases renew normally")
		require.Equal(t, 1, w.Stats().Leases)
	})
}

func TestMemoryReturnsAfterAllWasLost(t *testing.T) {
	if bounded.RaceDetector {
		t.Skip("slow, and other tests make the same calls")
	}
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		_, ln := newLane(t, s, renewal.Config{})
		warm := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(time.Minute)
		require.True(t, warm.lease.Release())
		live := func() int {
			runtime.GC()
			runtime.GC()
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			return int(m.HeapAlloc)
		}
		before := live()
		s.holdMany(t, ln, 100_000, 30*time.Second)
		time.Sleep(time.Minute)
		held := live()
		s.setFault(func() fault { return fault{drop: true} })
		time.Sleep(2 * time.Minute)
		require.Zero(t, ln.Stats().Leases)
		s.setFault(nil)
		s.expiry = nil
		after := live()
		t.Logf("%d B a lease while held, %d B of all of them left", (held-before)/100_000, after-before)
		require.Less(t, after-before, (held-before)/25, "but for the buffers of some batches")
	})
}

// TestALeaseAtItsEndTakesNoneWithIt: after an outage that some leases do not
// outlast, the others in their batches are renewed all the same.
func TestALeaseAtItsEndTakesNoneWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, &boundedRenewer{Renewer: s, after: time.Second}, renewal.Config{})
		hs := s.holdMany(t, ln, 20_000, 30*time.Second)
		time.Sleep(time.Minute)
		end := time.Now().Add(22 * time.Second)
		s.setFault(func() fault {
			if time.Now().Before(end) {
				return fault{drop: true}
			}
			return fault{after: 30 * time.Millisecond} // longer than the nearest leases are still trusted
		})
		time.Sleep(40 * time.Second)
		lost := 0
		for _, h := range hs {
			if len(h.reasons()) == 0 {
				continue
			}
			lost++
			require.Less(t, h.toldAt().Sub(end), 2500*time.Millisecond, "a backoff, a timeout and the queue")
		}
		require.Positive(t, lost)
		require.Less(t, lost, 10_000)
		require.Equal(t, len(hs)-lost, w.Stats().Leases)
	})
}

func TestADeadServerIsTriedSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var dead atomic.Bool
		var calls atomic.Int64
		w, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			if dead.Load() {
				calls.Add(1)
				b.Fail(errNetwork) // at once, as if no server listened
				return
			}
			s.Renew(ctx, b)
		}), renewal.Config{Dispatchers: 1})
		s.holdMany(t, ln, 20_000, 30*time.Second)
		time.Sleep(time.Minute)
		dead.Store(true)
		time.Sleep(15 * time.Second)
		// 2 calls at once, then after 0.1, 0.2, 0.4, 0.8 s and after each 1.25 s, each pause shorter by up to a quarter.
		require.Less(t, calls.Load(), int64(24))
		require.Greater(t, calls.Load(), int64(10))
		dead.Store(false)
		time.Sleep(1300 * time.Millisecond)
		require.Zero(t, w.Stats().Queued, "and all are renewed as soon as it is back")
		require.Empty(t, w.Stats().Lost)
	})
}

// TestATryThatTookLongHasNoRestBehindIt: a dispatcher rests so that a store which fails at once is
// tried seldom. A try that waited for longer than the rest has had its pause.
func TestATryThatTookLongHasNoRestBehindIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var silent atomic.Bool
		var ended time.Time
		var rests []time.Duration
		_, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			if !silent.Load() {
				s.Renew(ctx, b)
				return
			}
			if !ended.IsZero() {
				rests = append(rests, time.Since(ended))
			}
			time.Sleep(2 * time.Second)
			b.Fail(errNetwork)
			ended = time.Now()
		}), renewal.Config{Dispatchers: 1})
		s.holdMany(t, ln, 20_000, 30*time.Second)
		time.Sleep(time.Minute)
		silent.Store(true)
		time.Sleep(15 * time.Second)
		silent.Store(false)
		time.Sleep(3 * time.Second)
		require.Greater(t, len(rests), 4)
		for _, rest := range rests {
			require.Less(t, rest, 50*time.Millisecond, "the rests are %v", rests)
		}
	})
}

func TestAnAnswerEndsTheRestOfTheOtherDispatchers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var failing atomic.Bool
		var back atomic.Int64
		failing.Store(true)
		start := time.Now()
		_, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			if failing.Load() {
				b.Fail(errNetwork)
				return
			}
			time.Sleep(10 * time.Millisecond)
			back.CompareAndSwap(0, int64(time.Since(start)))
			s.Renew(ctx, b)
		}), renewal.Config{Dispatchers: 4, MaxBatch: 10})
		s.holdMany(t, ln, 4000, 30*time.Second)
		time.Sleep(15 * time.Second)
		failing.Store(false)
		for ln.Stats().Queued > 0 {
			time.Sleep(time.Millisecond)
		}
		require.Less(t, time.Since(start)-time.Duration(back.Load()), 1400*time.Millisecond, "400 batches, four at a time, 10 ms each")
	})
}

// TestOnePoisonedLeaseCostsOnlyItself: every batch with the lease fails, at once
// or after a silence.
func TestOnePoisonedLeaseCostsOnlyItself(t *testing.T) {
	for _, leases := range []int{1, 2, 3, 250, 5000} {
		for _, dispatchers := range []int{1, 2} {
			for _, silence := range []time.Duration{0, time.Second} {
				t.Run(fmt.Sprintf("leases=%d dispatchers=%d silence=%v", leases, dispatchers, silence), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) {
						s := &store{}
						poison := 0
						alone := 0
						w, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
							for i := range b.Len() {
								if b.Owner(i).(*holder).key != poison {
									continue
								}
								if b.Len() == 1 {
									alone++
								}
								time.Sleep(silence)
								b.Fail(errNetwork)
								return
							}
							s.Renew(ctx, b)
						}), renewal.Config{Dispatchers: dispatchers})
						hs := s.holdMany(t, ln, leases, 30*time.Second)
						time.Sleep(2 * time.Minute)
						require.Equal(t, []renewal.Reason{renewal.TrustEnded}, hs[poison].reasons())
						require.Equal(t, leases-1, w.Stats().Leases)
						require.Greater(t, alone, 3, "it was tried again, alone")
						// The others are late by the tries that it took to find it: a
						// batch fails twice whole, and then it is halved down to one.
						tries := 2 + bits.Len(uint(min(leases, renewal.DefaultMaxBatch)))
						require.Less(t, w.Stats().Lag.Max, time.Duration(tries)*silence+2*time.Second)
					})
				})
			}
		}
	}
}

func TestAHungLaneDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bad, good := &store{}, &store{}
		w, hung := newLane(t, bad, renewal.Config{})
		ok, err := w.Lane("good", good)
		require.NoError(t, err)
		bad.setFault(func() fault { return fault{drop: true} })
		lost := bad.holdMany(t, hung, 1000, 30*time.Second)
		kept := good.holdMany(t, ok, 1000, 30*time.Second)
		time.Sleep(5 * time.Minute)
		for i := range lost {
			require.Len(t, lost[i].reasons(), 1)
			require.Greater(t, lost[i].spared, time.Duration(0))
			require.Empty(t, kept[i].reasons())
		}
		require.Zero(t, ok.Stats().Lag.P99)
	})
}

func TestARenewerThatPanicsNowAndThenLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, calls := &store{}, 0
		w, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			if calls++; calls%2 == 1 {
				panic("half of the time")
			}
			s.Renew(ctx, b)
		}), renewal.Config{})
		h := s.hold(t, ln, renewedFor(30*time.Second))
		time.Sleep(5 * time.Minute)
		require.True(t, h.lease.Valid())
		require.Greater(t, w.Stats().Retried, uint64(20))
	})
}

func TestAnOwnerThatPanicsLeavesTheOthersTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, err := renewal.New(renewal.Config{})
		require.NoError(t, err)
		ln, err := w.Lane("", s)
		require.NoError(t, err)
		told := 0
		leases := make([]renewal.Lease, 10)
		for i := range leases {
			owner := ownerFunc(func(renewal.Reason) {
				told++
				if i%3 == 0 {
					panic(i)
				}
			})
			require.NoError(t, ln.Hold(&leases[i], owner, renewal.Terms{Stamp: time.Now(), TTL: time.Second, Fixed: true}))
		}
		require.Panics(t, w.Close)
		require.Equal(t, 10, told)
		w.Close()
	})
}

type ownerFunc func(renewal.Reason)

func (f ownerFunc) Lost(r renewal.Reason) { f(r) }

// TestALostLeaseSaysWhetherTheStoreMayHaveExtendedIt: its owner may want to take it back
// there.
func TestALostLeaseSaysWhetherTheStoreMayHaveExtendedIt(t *testing.T) {
	for name, c := range map[string]struct {
		fault  fault
		reason renewal.Reason
		says   bool
	}{
		"its answers are lost":        {fault{mute: true}, renewal.TrustEnded, true},
		"its requests are lost":       {fault{drop: true}, renewal.TrustEnded, true}, // the client cannot tell
		"there was no connection":     {fault{dial: time.Minute}, renewal.TrustEnded, false},
		"the store said no":           {fault{}, renewal.NotOwner, false},
		"the lane closed in mid-slot": {fault{before: time.Minute}, renewal.Closed, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &store{}
				w, ln := newLane(t, s, renewal.Config{TTL: 30 * time.Second})
				h, passed := s.hold(t, ln, renewedFor(30*time.Second)), s.hold(t, ln, renewedFor(30*time.Second))
				time.Sleep(time.Minute)
				require.False(t, h.lease.Unanswered())
				s.setFault(func() fault { return c.fault })
				if c.reason == renewal.NotOwner {
					s.delete(h.key)
					s.delete(passed.key)
				}
				for c.reason == renewal.Closed && w.Stats().InFlight < 2 {
					time.Sleep(time.Millisecond)
				}
				if c.reason == renewal.TrustEnded {
					time.Sleep(12 * time.Second) // they have been due
				}
				next := passed.another()
				require.True(t, passed.lease.Pass(&next.lease, next))
				require.False(t, h.lease.Unanswered(), "it is not lost")
				if c.reason == renewal.Closed {
					ln.Close()
				}
				time.Sleep(2 * time.Minute)
				require.Equal(t, []renewal.Reason{c.reason}, h.reasons())
				require.Equal(t, c.says, h.lease.Unanswered())
				require.Equal(t, c.says, next.lease.Unanswered(), "it was passed on")
				require.False(t, passed.lease.Unanswered())
			})
		})
	}
}
