package renewal_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/renewal"
)

// TestNoRenewalIsSentAfterReleaseOrLoss ends leases at every moment of a
// renewal: while they wait, while the Renewer dials, between two sends of one
// batch, while it waits for the answer.
func TestNoRenewalIsSentAfterReleaseOrLoss(t *testing.T) {
	ends := map[string]func(s *store, h *holder){
		"released": func(_ *store, h *holder) { h.lease.Release() },
		"fixed":    func(_ *store, h *holder) { h.lease.SetFixed(true) },
		"expired":  func(*store, *holder) {}, // by itself: nothing is answered
	}
	for name, end := range ends {
		t.Run(name, func(t *testing.T) {
			forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
				s := &store{}
				_, ln := newLane(t, s, cfg)
				hs := s.holdMany(t, ln, 600, 30*time.Second)
				written := make([]time.Time, len(hs))
				s.write = func(key int) { written[key] = time.Now() }
				ended := make([]time.Time, len(hs))
				s.setFault(func() fault {
					return fault{
						dial: 3 * time.Second, after: 2 * time.Second, repeat: true,
						drop: name == "expired", // so that it is tried until the end of trust
					}
				})
				for i, h := range hs {
					time.Sleep(30 * time.Millisecond)
					if name != "expired" {
						end(s, h)
						ended[i] = time.Now()
					}
				}
				time.Sleep(time.Minute)
				for i, h := range hs {
					if name == "expired" {
						require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
						ended[i] = h.toldAt()
					}
					require.False(t, written[i].After(ended[i]), "written %v after its end", written[i].Sub(ended[i]))
				}
			})
		})
	}
}

func TestTrustCountsFromTheFirstByteAndNotFromTheDial(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{dial: 4 * time.Second} })
		for w.Stats().Renewed == 0 {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, w.Margin(30*time.Second), s.timeLeft(h.key)-time.Until(h.lease.Deadline()))
		require.GreaterOrEqual(t, w.Stats().Lag.Max, 3900*time.Millisecond, "a slow dial is lag")
	})
}

func TestTrustOfABatchSentTwiceCountsFromTheFirst(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		w, ln := newLane(t, s, cfg)
		h := s.hold(t, ln, renewedFor(30*time.Second))
		s.setFault(func() fault { return fault{after: time.Second, repeat: true} })
		for w.Stats().Renewed == 0 {
			time.Sleep(time.Millisecond)
		}
		require.Equal(t, time.Second+w.Margin(30*time.Second), s.timeLeft(h.key)-time.Until(h.lease.Deadline()))
	})
}

// TestReleaseWaitsForTheEndOfWriting lets a connection take no bytes for a
// while.
func TestReleaseWaitsForTheEndOfWriting(t *testing.T) {
	forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
		s := &store{}
		var writing atomic.Bool
		w, ln := newLane(t, renewFunc(func(_ context.Context, b *renewal.Batch) {
			_, _ = b.Send(func([]int, time.Time) error {
				writing.Store(true)
				time.Sleep(2 * time.Second)
				writing.Store(false)
				return errNetwork
			})
		}), cfg)
		h, other := s.hold(t, ln, renewedFor(30*time.Second)), s.hold(t, ln, fixedFor(30*time.Second))
		for !writing.Load() {
			time.Sleep(time.Millisecond)
		}
		begin := time.Now()
		require.True(t, other.lease.Release())
		require.Zero(t, time.Since(begin), "one that is not written does not wait")
		invalid := make(chan bool, 1)
		go func() {
			time.Sleep(time.Second)
			invalid <- !h.lease.Valid()
		}()
		require.True(t, h.lease.Release())
		require.InDelta(t, 2*time.Second, time.Since(begin), float64(2*time.Millisecond))
		require.False(t, writing.Load())
		require.True(t, <-invalid, "but it has ended at once")
		require.Zero(t, w.Stats().Leases)
	})
}

// slowWriter is a Renewer whose n-th request is written at writes[n] after began. The others are written in no
// time, and renew.
type slowWriter struct {
	began  time.Time
	writes []time.Duration
	calls  atomic.Int32
}

func (r *slowWriter) Renew(_ context.Context, b *renewal.Batch) {
	n := int(r.calls.Add(1)) - 1
	live, _ := b.Send(func([]int, time.Time) error {
		if n < len(r.writes) {
			time.Sleep(time.Until(r.began.Add(r.writes[n])))
		}
		return nil
	})
	if n >= len(r.writes) {
		for _, i := range live {
			b.Renewed(i)
		}
	}
}

// TestNothingIsSentOfALeaseThatWasTakenOutOfItsBatch after Release has returned, or Close has told its owner.
func TestNothingIsSentOfALeaseThatWasTakenOutOfItsBatch(t *testing.T) {
	const hung = 15 * time.Second // after all leases are due
	type world struct {
		s        *store
		w        *renewal.Watchdog
		from, to *renewal.Lane
		lease    *renewal.Lease
		passed   *holder
	}
	for name, c := range map[string]struct {
		writes []time.Duration
		take   func(*testing.T, *world)
		until  time.Duration
	}{
		"not":      {[]time.Duration{hung}, func(*testing.T, *world) {}, hung},
		"fixed":    {[]time.Duration{hung}, func(_ *testing.T, x *world) { x.lease.SetFixed(true) }, hung},
		"verified": {[]time.Duration{hung}, func(_ *testing.T, x *world) { x.lease.Verify() }, hung},
		"moved": {[]time.Duration{hung}, func(t *testing.T, x *world) {
			go x.lease.Move(x.to) // it waits, too
			synctest.Wait()
			require.Same(t, x.to, x.lease.Lane())
		}, hung},
		"verified and fixed": {[]time.Duration{hung}, func(_ *testing.T, x *world) {
			x.lease.Verify()
			x.lease.SetFixed(true)
		}, hung},
		"verified and renewed": {[]time.Duration{hung}, func(t *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
			require.EqualValues(t, 1, x.w.Stats().Renewed)
		}, hung},
		"verified and passed on": {[]time.Duration{hung}, func(t *testing.T, x *world) {
			x.lease.Verify()
			require.True(t, x.lease.Pass(&x.passed.lease, x.passed))
			x.lease = &x.passed.lease
		}, hung},
		"verified in two batches": {[]time.Duration{hung, hung + time.Second}, func(t *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
			x.lease.Verify()
		}, hung + time.Second},
		"verified in two batches, of which the second is written first": {[]time.Duration{hung + time.Second, hung}, func(t *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
			x.lease.Verify()
		}, hung + time.Second},
		"verified and being written again, and longer": {[]time.Duration{hung, hung + time.Second}, func(_ *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
		}, hung + time.Second},
		"verified, and never written": {[]time.Duration{time.Hour, time.Hour}, func(_ *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
		}, 0},
		"verified and being written again": {[]time.Duration{hung + time.Second, hung}, func(t *testing.T, x *world) {
			x.lease.Verify()
			time.Sleep(100 * time.Millisecond)
		}, hung + time.Second},
	} {
		for way, end := range map[string]func(*testing.T, *world){
			"release":   func(t *testing.T, x *world) { require.True(t, x.lease.Release()) },
			"lanes":     func(_ *testing.T, x *world) { x.lease.Lane().Close() },
			"watchdog":  func(_ *testing.T, x *world) { go x.w.Close() },
			"moved out": func(_ *testing.T, x *world) { x.lease.Move(x.to) },
		} {
			if way == "moved out" && name == "moved" {
				continue
			}
			t.Run(name+", "+way, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &store{}
					r := &slowWriter{began: time.Now(), writes: c.writes}
					w, from := newLane(t, r, renewal.Config{Dispatchers: 3})
					to, err := w.Lane("to", s)
					require.NoError(t, err)
					h, mate := s.hold(t, from, renewedFor(30*time.Second)), s.hold(t, from, renewedFor(30*time.Second))
					x := &world{s, w, from, to, &h.lease, &holder{key: h.key, store: s}}
					other := s.hold(t, to, fixedFor(time.Minute))
					for r.calls.Load() == 0 {
						time.Sleep(time.Millisecond)
					}
					synctest.Wait()
					c.take(t, x)
					mate.lease.SetFixed(true) // out of the same batch
					until := c.until
					if until == 0 { // the end of its trust
						until = x.lease.Deadline().Sub(r.began)
					}
					before := time.Now()
					require.True(t, other.lease.Release())
					require.Equal(t, before, time.Now())
					end(t, x)
					owner := h
					if x.lease == &x.passed.lease {
						owner = x.passed
					}
					if way == "watchdog" {
						time.Sleep(time.Until(r.began.Add(until + time.Second)))
					}
					if way == "watchdog" || way == "lanes" {
						require.Equal(t, []renewal.Reason{renewal.Closed}, owner.reasons())
						require.Equal(t, until, owner.toldAt().Sub(r.began))
					} else {
						require.Equal(t, until, time.Since(r.began))
						before = time.Now()
						x.lease.Release()
						if c.until != 0 { // all is written
							require.Equal(t, before, time.Now())
						}
					}
					time.Sleep(time.Hour)
					require.Zero(t, w.TakenOut())
				})
			})
		}
	}
}

func TestReleaseOfALeaseWhoseWriteNeverEndsWaitsForItsTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		stuck, free := make(chan struct{}), make(chan struct{})
		_, ln := newLane(t, renewFunc(func(_ context.Context, b *renewal.Batch) {
			_, _ = b.Send(func([]int, time.Time) error {
				close(stuck)
				<-free
				return errNetwork
			})
		}), renewal.Config{Dispatchers: 1})
		h := s.hold(t, ln, renewedFor(30*time.Second))
		end := h.lease.Deadline()
		<-stuck
		require.True(t, h.lease.Release())
		require.Equal(t, end, time.Now())
		close(free)
	})
}

func TestWriteMustReturnBeforeTheFirstTrustEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		var sent atomic.Int64
		_, ln := newLane(t, renewFunc(func(ctx context.Context, b *renewal.Batch) {
			last, _ := ctx.Deadline()
			live, _ := b.Send(func(live []int, by time.Time) error {
				earliest, latest := time.Time{}, time.Time{}
				for _, i := range live {
					end := b.Owner(i).(*holder).lease.Deadline()
					if earliest.IsZero() || end.Before(earliest) {
						earliest = end
					}
					if end.After(latest) {
						latest = end
					}
				}
				require.Equal(t, earliest, by)
				require.Equal(t, latest, last, "the call goes on for the others")
				sent.Add(1)
				return nil
			})
			for _, i := range live {
				b.Renewed(i)
			}
		}), renewal.Config{})
		for range 300 {
			s.hold(t, ln, renewedFor(30*time.Second))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Minute)
		require.Positive(t, sent.Load())
	})
}

func TestARenewerThatSaysNothingRenewsNothing(t *testing.T) {
	for name, r := range map[string]renewFunc{
		"does nothing": func(context.Context, *renewal.Batch) {},
		"only sends": func(_ context.Context, b *renewal.Batch) {
			_, _ = b.Send(func([]int, time.Time) error { return nil })
		},
		"answers before it has sent": func(_ context.Context, b *renewal.Batch) {
			for i := range b.Len() {
				b.Renewed(i)
			}
		},
		"answers though it could not send": func(_ context.Context, b *renewal.Batch) {
			_, _ = b.Send(func([]int, time.Time) error { return errNetwork })
		},
		"panics": func(context.Context, *renewal.Batch) { panic("always") },
	} {
		t.Run(name, func(t *testing.T) {
			forEachConfig(t, func(t *testing.T, cfg renewal.Config) {
				s := &store{}
				var reports atomic.Int64
				cfg.OnBatch = func(r renewal.BatchReport) {
					if r.Err != nil && r.Unknown == r.Leases {
						reports.Add(1)
					}
				}
				w, ln := newLane(t, r, cfg)
				h := s.hold(t, ln, renewedFor(30*time.Second))
				time.Sleep(time.Minute)
				require.Equal(t, []renewal.Reason{renewal.TrustEnded}, h.reasons())
				require.Greater(t, h.spared, time.Duration(0))
				require.Zero(t, w.Stats().Renewed)
				require.Greater(t, w.Stats().Retried, uint64(10), "it is tried again until its trust ends")
				require.Positive(t, reports.Load())
			})
		})
	}
}

// TestAPartlyAnsweredBatchRetriesTheRest leaves every third lease unknown, for
// a while.
func TestAPartlyAnsweredBatchRetriesTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		over := time.Now().Add(time.Minute)
		w, ln := newLane(t, renewFunc(func(_ context.Context, b *renewal.Batch) {
			live, _ := b.Send(func([]int, time.Time) error { return nil })
			for _, i := range live {
				key := b.Owner(i).(*holder).key
				if key%3 == 0 && time.Now().Before(over.Add(-45*time.Second)) {
					b.Fail(errors.New("ask again later"))
					continue
				}
				s.extend([]int{key}, b.TTL())
				b.Renewed(i)
			}
		}), renewal.Config{})
		hs := s.holdMany(t, ln, 600, 30*time.Second)
		time.Sleep(time.Until(over))
		require.Empty(t, w.Stats().Lost)
		require.Greater(t, w.Stats().Retried, uint64(200))
		for _, h := range hs {
			require.True(t, h.lease.Valid())
		}
	})
}

// TestASecondSendLeavesOutWhatWasAnswered sends a batch in two halves.
func TestASecondSendLeavesOutWhatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w, ln := newLane(t, renewFunc(func(_ context.Context, b *renewal.Batch) {
			sent := map[int]int{}
			for {
				live, err := b.Send(func([]int, time.Time) error { return nil })
				if err != nil || len(live) == 0 {
					break
				}
				half := live[:(len(live)+1)/2]
				for _, i := range half {
					sent[i]++
					s.extend([]int{b.Owner(i).(*holder).key}, b.TTL())
					b.Renewed(i)
				}
			}
			require.Len(t, sent, b.Len())
			for _, n := range sent {
				require.Equal(t, 1, n)
			}
		}), renewal.Config{})
		s.holdMany(t, ln, 600, 30*time.Second)
		time.Sleep(time.Minute)
		require.Empty(t, w.Stats().Lost)
		require.Zero(t, w.Stats().Retried)
		require.InDelta(t, 6*600, float64(w.Stats().Renewed), 600)
	})
}
