package hold_test

import (
	"context"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

// TestTrustCountsFromTheSendingHoweverLateTheAnswer: the lease began when the server
// carried the request out. The client knows only that this was after the sending.
func TestTrustCountsFromTheSendingHoweverLateTheAnswer(t *testing.T) {
	const short, long = time.Second, 10 * time.Second
	ctx := context.Background()
	mutexes := map[string]func(*lock.Client) *lock.Mutex{
		"mutex":  func(c *lock.Client) *lock.Mutex { return c.Mutex("m") },
		"fenced": func(c *lock.Client) *lock.Mutex { return c.FencedMutex("m") },
		"fair":   func(c *lock.Client) *lock.Mutex { return c.FairMutex("m") },
		"writer": func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Writer() },
		"reader": func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Reader() },
	}
	for name, of := range mutexes {
		for op, take := range map[string]func(*testing.T, *lock.Mutex, func()) *lock.Held{
			"Lock": func(t *testing.T, m *lock.Mutex, sending func()) *lock.Held {
				sending()
				held, err := m.Lock(ctx)
				require.NoError(t, err)
				return held
			},
			"LockFor": func(t *testing.T, m *lock.Mutex, sending func()) *lock.Held {
				sending()
				held, err := m.LockFor(ctx, long)
				require.NoError(t, err)
				return held
			},
			"re-entry": func(t *testing.T, m *lock.Mutex, sending func()) *lock.Held {
				outer, err := m.LockFor(ctx, short)
				require.NoError(t, err)
				sending()
				held, err := m.LockFor(outer.Context(ctx), long)
				require.NoError(t, err)
				return held
			},
			"Extend": func(t *testing.T, m *lock.Mutex, sending func()) *lock.Held {
				held, err := m.LockFor(ctx, short)
				require.NoError(t, err)
				sending()
				require.NoError(t, held.Extend(ctx, long))
				return held
			},
			"hand-over": func(t *testing.T, m *lock.Mutex, sending func()) *lock.Held {
				first, err := m.Lock(ctx)
				require.NoError(t, err)
				got := make(chan *lock.Held, 1)
				go func() {
					held, err := m.LockFor(ctx, long)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
				synctest.Wait()
				sending()
				require.NoError(t, first.Unlock(ctx))
				return <-got
			},
		} {
			if op == "hand-over" && name != "mutex" && name != "fenced" {
				continue // the order of fair waiters is in Redis, so nothing is handed over
			}
			t.Run(name+"/"+op, func(t *testing.T) {
				var trusted []time.Duration
				for _, delay := range []time.Duration{0, 300 * time.Millisecond} {
					synctest.Test(t, func(t *testing.T) {
						s := fixture.Virtual(t)
						for _, sc := range script.All() { // otherwise the request is sent twice
							fixture.Do(t, s, "SCRIPT", "LOAD", sc.Text())
						}
						wire := fixture.NewWire(s)
						c, err := lock.New(wire.Pool(), lock.Config{Connections: 1})
						require.NoError(t, err)
						warm, err := of(c).Lock(ctx) // so that there is a connection
						require.NoError(t, err)
						require.NoError(t, warm.Unlock(ctx))
						var began time.Time
						held := take(t, of(c), func() {
							began = time.Now()
							wire.Delay(delay)
						})
						require.GreaterOrEqual(t, time.Since(began), delay, "the answer is late")
						trusted = append(trusted, held.Deadline().Sub(began))
						fixture.CloseNow(c)
					})
				}
				require.Greater(t, trusted[0], long/2)
				require.Equal(t, trusted[0], trusted[1])
			})
		}
	}
}

// TestTrustInPermitsCountsFromBeforeTheDial, because the request names the end of the lease and
// not its length.
func TestTrustInPermitsCountsFromBeforeTheDial(t *testing.T) {
	ctx := context.Background()
	for _, op := range []string{"Acquire", "Extend"} {
		var trusted []time.Duration
		for _, dial := range []time.Duration{0, 500 * time.Millisecond} {
			withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
				var slow atomic.Int64
				pool := b.wire.Pool()
				at := pool.DialContext
				pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
					time.Sleep(time.Duration(slow.Load()))
					return at(ctx)
				}
				c, err := lock.New(pool, lock.Config{Connections: 1})
				require.NoError(b, err)
				p := c.PermitSemaphore("m")
				require.NoError(b, p.Set(ctx, 3))
				held, err := p.AcquireFor(ctx, 1, 10*time.Second)
				require.NoError(b, err)
				slow.Store(int64(dial))
				b.wire.LoseAnswer()
				_, err = p.TryAcquireFor(ctx, 1, time.Second)
				require.ErrorIs(b, err, lock.ErrUnknown) // the connection has ended
				began := time.Now()
				if op == "Acquire" {
					held, err = p.AcquireFor(ctx, 1, time.Minute)
				} else {
					err = held.Extend(ctx, time.Minute)
				}
				require.NoError(b, err)
				require.GreaterOrEqual(b, time.Since(began), dial/2) // the call waits for the dial
				trusted = append(trusted, held.Deadline().Sub(began))
				require.NoError(b, held.Unlock(ctx))
				require.NoError(b, c.Close(ctx))
			})
		}
		require.Equal(t, trusted[0], trusted[1], op)
	}
}

// TestTheTimeOfARunCountsFromTheSending: for 100 ms after an answer, the lock is handed
// over in memory. Redis may have answered at any time of the round trip, so its beginning counts.
func TestTheTimeOfARunCountsFromTheSending(t *testing.T) {
	ctx := context.Background()
	for name, begin := range map[string]func(*busy, time.Duration) *lock.Held{
		"that an acquisition began": func(b *busy, delay time.Duration) *lock.Held {
			other, err := lock.New(b.s.Pool(0), lock.Config{})
			require.NoError(b, err)
			held, err := other.Mutex("m").Lock(ctx)
			require.NoError(b, err)
			b.addWaiters(3, b.m.Lock)
			b.wire.Delay(delay)
			require.NoError(b, held.Unlock(ctx))
			held = <-b.held
			require.NoError(b, other.Close(ctx))
			return held
		},
		"that a hand-over began": func(b *busy, delay time.Duration) *lock.Held {
			first, err := b.m.Lock(ctx)
			require.NoError(b, err)
			b.addWaiters(3, b.m.Lock)
			b.wire.Delay(delay)
			require.NoError(b, first.Unlock(ctx))
			return <-b.held
		},
	} {
		for _, delay := range []time.Duration{30 * time.Millisecond, 60 * time.Millisecond} {
			t.Run(name+" "+delay.String(), func(t *testing.T) {
				withBusy(t, lock.Config{}, func(b *busy) {
					held := begin(b, delay)
					b.wire.Delay(0)
					time.Sleep(50 * time.Millisecond)
					pending, held := b.handOverInPause(held)
					require.Equal(t, 50*time.Millisecond+delay > 100*time.Millisecond, pending)
					require.NoError(t, b.handOver(held).Unlock(ctx))
				})
			})
		}
	}
}

// TestAnAnswerThatIsLostKeepsItsFieldFromTheNextHolder: the connection ended before the
// answer came, so the request may have extended the hold or run a command.
func TestAnAnswerThatIsLostKeepsItsFieldFromTheNextHolder(t *testing.T) {
	ctx := context.Background()
	for name, request := range map[string]func(*busy, *lock.Held){
		"Guard": func(b *busy, held *lock.Held) {
			_, err := held.Guard(ctx, "SET", []string{"guarded"}, 1)
			require.ErrorIs(b, err, lock.ErrUnknown)
		},
		"Extend": func(b *busy, held *lock.Held) {
			short, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			require.ErrorIs(b, held.Extend(short, time.Second), lock.ErrUnknown)
		},
		"re-entry": func(b *busy, held *lock.Held) {
			_, err := b.m.TryLock(held.Context(ctx))
			require.ErrorIs(b, err, lock.ErrUnknown)
		},
	} {
		t.Run(name, func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				held := b.startRun(2)
				field := b.field()
				synctest.Wait() // renewal has dialled its connection
				b.wire.LoseAnswer()
				request(b, held)
				pending, held := b.handOverInPause(held)
				require.True(t, pending)
				require.NotEqual(t, field, b.field())
				require.NoError(t, b.handOver(held).Unlock(ctx))
			})
		})
	}
}

// TestAHoldThatWasProlongedTooLateIsGivenBack: the answer to the Extend came after the holder was told
// of the loss, and Redis would keep the lock for the long new lease.
func TestAHoldThatWasProlongedTooLateIsGivenBack(t *testing.T) {
	ctx := lock.WithOwner(context.Background(), "owner")
	for name, prolong := range map[string]func(*busy, *lock.Held) error{
		"re-entry": func(b *busy, held *lock.Held) error {
			_, err := b.m.LockFor(held.Context(ctx), time.Hour)
			return err
		},
		"re-entry of an owner": func(b *busy, held *lock.Held) error {
			again, err := b.m.LockFor(ctx, time.Hour)
			if err == nil { // it has taken the lock anew
				require.NoError(b, again.Unlock(ctx))
			}
			return nil
		},
		"Extend": func(b *busy, held *lock.Held) error { return held.Extend(ctx, time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			withBusy(t, lock.Config{}, func(b *busy) {
				fixture.Do(b, b.s, "SCRIPT", "LOAD", script.Reenter.Text()) // otherwise Redis gets it after the loss
				held, err := b.m.LockFor(ctx, time.Second)
				require.NoError(b, err)
				b.wire.Delay(2 * time.Second)
				time.AfterFunc(2500*time.Millisecond, func() { b.wire.Delay(0) })
				err = prolong(b, held)
				require.ErrorIs(b, held.Err(), lock.ErrLost)
				if name != "re-entry of an owner" {
					require.Error(b, err)
				}
				if name == "Extend" {
					require.ErrorIs(b, err, lock.ErrLost)
				}
				time.Sleep(10 * time.Second)
				require.False(b, fixture.Exists(b, b.s, "m"))
			})
		})
	}
}

// TestAGuardAtTheEndOfALeaseLeavesTheMargin: it does not prolong the hold, so Redis keeps the lock until the
// lease ends, a margin after the holder was told.
func TestAGuardAtTheEndOfALeaseLeavesTheMargin(t *testing.T) {
	ctx := context.Background()
	withBusy(t, lock.Config{Margin: 2 * time.Second}, func(b *busy) {
		for _, s := range []*script.Script{script.Guard, script.Release} {
			fixture.Do(b, b.s, "SCRIPT", "LOAD", s.Text())
		}
		held, err := b.m.LockFor(ctx, 10*time.Second)
		require.NoError(b, err)
		time.Sleep(time.Until(held.Deadline()) - 100*time.Millisecond)
		b.wire.Delay(500 * time.Millisecond)
		_, _ = held.Guard(ctx, "INCR", []string{"guarded"})
		require.ErrorIs(b, held.Err(), lock.ErrLost)
		time.Sleep(time.Second)
		require.True(b, fixture.Exists(b, b.s, "m"))
		time.Sleep(time.Second)
		require.False(b, fixture.Exists(b, b.s, "m"))
	})
}

// TestARequestWaitsForOneThatMayStillRun: the connection failed, but the server may
// still carry out a request that was written to it, until the time limit of the request.
func TestARequestWaitsForOneThatMayStillRun(t *testing.T) {
	ctx := context.Background()
	withBusy(t, lock.Config{}, func(b *busy) {
		held, err := b.m.Lock(ctx)
		require.NoError(t, err)
		began := time.Now()
		synctest.Wait() // renewal has dialled its connection
		b.wire.LoseAnswer()
		_, err = held.Guard(ctx, "SET", []string{"guarded"}, 1)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.Zero(t, time.Since(began))
		_, err = held.Guard(ctx, "SET", []string{"guarded"}, 2)
		require.NoError(t, err)
		require.Greater(t, time.Since(began), time.Second)
		require.Less(t, time.Since(began), 10*time.Second)
		require.NoError(t, held.Unlock(ctx))
	})
}

// TestAnExtendWithoutAnAnswerIsSentAgain. Trust counts from the sending of the request that was answered.
func TestAnExtendWithoutAnAnswerIsSentAgain(t *testing.T) {
	withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
		ctx := context.Background()
		held, err := b.m.LockFor(ctx, time.Minute)
		require.NoError(b, err)
		began := time.Now()
		require.NoError(b, held.Extend(ctx, time.Hour))
		margin := time.Hour - held.Deadline().Sub(began)
		require.Zero(b, time.Since(began))
		b.wire.LoseAnswers(2)
		require.NoError(b, held.Extend(ctx, time.Hour))
		require.NotZero(b, time.Since(began), "it pauses before it asks again")
		require.Equal(b, time.Now().Add(time.Hour-margin), held.Deadline())
		require.NoError(b, held.Unlock(ctx))
	})
}

// TestAnExtendThatStaysUnknownChangesNoTrust: Redis has carried it out. When the holder was told
// of the loss, the next waiter gets the lock all the same, because the client releases it.
func TestAnExtendThatStaysUnknownChangesNoTrust(t *testing.T) {
	withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
		ctx := context.Background()
		held, err := b.m.LockFor(ctx, time.Minute)
		require.NoError(b, err)
		until := held.Deadline()
		fixture.Do(b, b.s, "SCRIPT", "LOAD", script.Reenter.Text()) // otherwise the first answer says only that the server lacks the script
		b.wire.LoseAnswers(math.MaxInt)
		short, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		require.ErrorIs(b, held.Extend(short, time.Hour), lock.ErrUnknown)
		b.wire.LoseAnswers(0)
		require.Greater(b, fixture.PTTL(b, b.s, "m"), time.Minute.Milliseconds())
		require.True(b, held.Valid())
		require.Equal(b, until, held.Deadline())
		time.Sleep(time.Until(until) - time.Millisecond)
		require.NoError(b, held.Err())
		time.Sleep(time.Millisecond)
		require.ErrorIs(b, held.Err(), lock.ErrLost)
		time.Sleep(10 * time.Second)
		require.False(b, fixture.Exists(b, b.s, "m"))
	})
}
