package hold_test

import (
	"context"
	"errors"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/engine/hold"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/script"
)

// take takes an object.
type take func(context.Context) (*lock.Held, error)

// takesOf returns two ways to take an object of a kind for an hour, without waiting and with it.
func (b *busy) takesOf(kind string) (try, wait take) {
	if kind == "permits" {
		s := b.c.PermitSemaphore("m")
		return func(ctx context.Context) (*lock.Held, error) { return s.TryAcquireFor(ctx, 2, time.Hour) },
			func(ctx context.Context) (*lock.Held, error) { return s.AcquireFor(ctx, 2, time.Hour) }
	}
	m := fixture.MutexKinds(b.c, "m")[kind]
	return func(ctx context.Context) (*lock.Held, error) { return m.TryLockFor(ctx, time.Hour) },
		func(ctx context.Context) (*lock.Held, error) { return m.LockFor(ctx, time.Hour) }
}

// withEach runs do with each kind of object, and fails unless the object is free ten seconds later.
func withEach(t *testing.T, event string, do func(b *busy, try, wait take)) {
	for _, kind := range []string{"mutex", "fair", "writer", "reader", "permits"} {
		t.Run(kind+"/"+event, func(t *testing.T) {
			withBusy(t, lock.Config{Connections: 1}, func(b *busy) {
				if kind == "permits" {
					fixture.Do(b, b.s, "SET", "m", 3)
				}
				try, wait := b.takesOf(kind)
				warm, err := try(context.Background()) // so that the client has a connection, and the server has the script
				require.NoError(b, err)
				require.NoError(b, warm.Unlock(context.Background()))
				synctest.Wait()
				do(b, try, wait)
				time.Sleep(10 * time.Second)
				if kind == "permits" {
					require.EqualValues(b, 3, fixture.Int(b, b.s, "GET", "m"))
					return
				}
				require.Empty(b, fixture.LockKeys(b, b.s))
			})
		})
	}
}

// TestAnAcquisitionWhoseCallerHasNothingIsGivenBack: the server may have carried the acquisition out,
// and would keep the object for the whole lease.
func TestAnAcquisitionWhoseCallerHasNothingIsGivenBack(t *testing.T) {
	leave := func(b *busy, take take) { // the caller leaves while its request is under way
		require.NoError(b, b.s.Pause())
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err := take(ctx)
		require.ErrorIs(b, err, context.DeadlineExceeded)
	}
	giveUp := func(b *busy, try, wait take, before func()) {
		held, err := try(context.Background())
		require.NoError(b, err)
		before()
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if beside, err := wait(ctx); err == nil { // a reader enters beside another
			require.NoError(b, beside.Unlock(context.Background()))
		}
		require.NoError(b, held.Unlock(context.Background()))
	}
	for event, do := range map[string]func(b *busy, try, wait take){
		"the answer comes when the caller has left": func(b *busy, _, wait take) {
			leave(b, wait)
			require.NoError(b, b.s.Resume())
		},
		"the answer is lost when the caller has left": func(b *busy, _, wait take) {
			leave(b, wait)
			b.wire.LoseAnswer()
			require.NoError(b, b.s.Resume())
		},
		"the answer is lost, and the caller does not wait": func(b *busy, try, _ take) {
			b.wire.LoseAnswer()
			_, err := try(context.Background())
			require.ErrorIs(b, err, lock.ErrUnknown)
		},
		"the answer is lost, and the caller tries again": func(b *busy, _, wait take) {
			b.wire.LoseAnswer()
			held, err := wait(context.Background())
			require.NoError(b, err)
			require.NoError(b, held.Unlock(context.Background()))
		},
		"the caller leaves because another has it": func(b *busy, try, wait take) { giveUp(b, try, wait, func() {}) },
		"the caller leaves because another has it, and an answer was lost": func(b *busy, try, wait take) {
			giveUp(b, try, wait, b.wire.LoseAnswer)
		},
	} {
		withEach(t, event, do)
	}
}

// TestAnUnlockWithoutAnAnswerIsSentAgain, because otherwise the object would stay taken until its lease
// ends.
func TestAnUnlockWithoutAnAnswerIsSentAgain(t *testing.T) {
	ctx := context.Background()
	briefly := func(b *busy, call func(context.Context) error) { // while Redis stands still
		short, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
		defer cancel()
		require.ErrorIs(b, call(short), lock.ErrUnknown)
	}
	for event, do := range map[string]func(b *busy, held *lock.Held){
		"its answer comes late": func(b *busy, held *lock.Held) {
			require.NoError(b, b.s.Pause())
			briefly(b, held.Unlock)
			require.NoError(b, b.s.Resume())
		},
		"it is not sent, because another request is under way": func(b *busy, held *lock.Held) {
			require.NoError(b, b.s.Pause())
			briefly(b, func(ctx context.Context) error { return held.Extend(ctx, 2*time.Hour) })
			briefly(b, held.Unlock)
			require.NoError(b, b.s.Resume())
		},
	} {
		withEach(t, event, func(b *busy, try, _ take) {
			held, err := try(ctx)
			require.NoError(b, err)
			do(b, held)
		})
	}
}

// TestAnUnlockThatIsRefusedIsNotCountedAsUnreleased, because the lock had already gone from Redis.
func TestAnUnlockThatIsRefusedIsNotCountedAsUnreleased(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		for _, lost := range []bool{false, true} {
			held, err := b.m.Lock(ctx)
			require.NoError(b, err)
			if lost {
				fixture.Do(b, b.s, "DEL", "m")
			}
			require.Equal(b, lost, errors.Is(held.Unlock(ctx), lock.ErrLost))
		}
		require.Zero(b, b.c.Stats().Unreleased)
	})
}

// TestAHandOverThatNobodyHasIsGivenBack: the script may have given the lock to the field of the next
// holder. If the answer is lost, the next holder does not know, and tries with another field.
func TestAHandOverThatNobodyHasIsGivenBack(t *testing.T) {
	ctx := context.Background()
	const (
		answer = time.Second     // IOTimeout and UnlockTimeout
		lease  = 4 * time.Second // of the next holder; its last second is not trusted
	)
	for event, unlock := range map[string]func(b *busy, held *lock.Held) error{
		"its answer comes when the Unlock has left": func(b *busy, held *lock.Held) error {
			require.NoError(b, b.s.Pause())
			err := held.Unlock(ctx)
			require.NoError(b, b.s.Resume())
			return err
		},
		"its answer is lost, and Redis cannot be asked again": func(b *busy, held *lock.Held) error {
			b.wire.LoseAnswers(math.MaxInt)
			defer b.wire.LoseAnswers(0)
			return held.Unlock(ctx)
		},
		"its answer comes when the next one could not trust it": func(b *busy, held *lock.Held) error {
			b.wire.Delay(lease - answer/2)
			time.AfterFunc(answer/2, func() { b.wire.Delay(0) })
			return held.Unlock(ctx)
		},
	} {
		t.Run(event, func(t *testing.T) {
			cfg := lock.Config{Connections: 1, Margin: 7 * time.Second, IOTimeout: answer, UnlockTimeout: answer}
			late := strings.Contains(event, "trust") // the timeouts let an answer come that late
			if late {
				cfg.Lease, cfg.IOTimeout, cfg.UnlockTimeout = time.Minute, lease, lease
			}
			withBusy(t, cfg, func(b *busy) {
				fixture.Do(b, b.s, "SCRIPT", "LOAD", script.Handoff.Text()) // otherwise the request is sent twice, with EVALSHA and EVAL
				held, err := b.m.LockFor(ctx, time.Hour)
				require.NoError(b, err)
				b.addWaiters(1, func(ctx context.Context) (*lock.Held, error) { return b.m.LockFor(ctx, lease) })
				other, err := b.c.Mutex("other").Lock(ctx)
				require.NoError(b, err)
				require.NoError(b, other.Unlock(ctx))
				time.Sleep(answer / 100) // so that the timeout of the next Unlock does not end with this one's
				began := time.Now()
				require.Equal(b, !late, errors.Is(unlock(b, held), lock.ErrUnknown))
				next := <-b.held
				require.Less(b, time.Since(began), lease, "before Redis takes it from nobody")
				require.NoError(b, next.Unlock(ctx))
				require.False(b, fixture.Exists(b, b.s, "m"))
			})
		})
	}
}

// TestARefusedUnlockMayHaveReleasedTheLockBefore: the answer to its first request is lost, and then the
// server refuses the login.
func TestARefusedUnlockMayHaveReleasedTheLockBefore(t *testing.T) {
	for _, isLast := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			wire := fixture.NewWire(fixture.Virtual(t))
			pool := wire.Pool()
			var isRefused atomic.Bool
			dial := pool.DialContext
			pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
				if isRefused.Load() {
					return nil, redis.Error("WRONGPASS invalid username-password pair or user is disabled.")
				}
				return dial(ctx)
			}
			c, err := lock.New(pool, lock.Config{})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			held, err := c.Mutex("m").Lock(t.Context())
			require.NoError(t, err)
			inner, err := c.Mutex("m").Lock(held.Context(t.Context()))
			require.NoError(t, err)
			if isLast {
				require.NoError(t, inner.Unlock(t.Context()))
				inner = held
			}
			synctest.Wait()
			wire.LoseAnswer()
			isRefused.Store(true)
			require.ErrorIs(t, inner.Unlock(t.Context()), lock.ErrUnknown)
			require.EqualValues(t, 1, c.Stats().Unreleased)
		})
	}
}

// TestALockWhoseHandOverIsRefusedIsReleased: Redis cannot make a token for the next holder, but the
// Unlock must not fail because of that.
func TestALockWhoseHandOverIsRefusedIsReleased(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		held, err := b.m.Lock(ctx)
		require.NoError(b, err)
		next := make(chan error, 1)
		go func() {
			_, err := b.m.LockFor(ctx, time.Minute)
			next <- err
		}()
		synctest.Wait()
		fixture.Do(b, b.s, "SET", "wheellock_token", int64(1)<<53)
		require.NoError(b, held.Unlock(ctx))
		require.ErrorContains(b, <-next, "is past 2^53")
		require.False(b, fixture.Exists(b, b.s, "m"))
		require.EqualValues(b, 1, b.c.Stats().Released)
	})
}

// TestAHandOverOfALockThatAnotherHasSaysSo: the key was deleted, and another client took the lock before
// the hand-over.
func TestAHandOverOfALockThatAnotherHasSaysSo(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx := context.Background()
		other, err := lock.New(b.s.Pool(0), lock.Config{})
		require.NoError(b, err)
		held, err := b.m.LockFor(ctx, time.Minute)
		require.NoError(b, err)
		b.addWaiters(1, b.m.Lock)
		fixture.Do(b, b.s, "DEL", "m")
		theirs, err := other.Mutex("m").TryLock(ctx)
		require.NoError(b, err)
		require.ErrorIs(b, held.Unlock(ctx), lock.ErrLost)
		synctest.Wait()
		require.Empty(b, b.held)
		require.True(b, theirs.Valid())
		require.NoError(b, theirs.Unlock(ctx))
		require.NoError(b, (<-b.held).Unlock(ctx))
		require.NoError(b, other.Close(ctx))
	})
}

// TestAnUnlockOfALostLockGivesBackTheRestOfItsLease: Redis keeps a lost lock until its lease ends,
// although its holder has stopped working.
func TestAnUnlockOfALostLockGivesBackTheRestOfItsLease(t *testing.T) {
	ctx := context.Background()
	const lease = 8 * time.Second // the last 2 s are not trusted
	for event, lose := range map[string]func(held *lock.Held){
		"the holder was told": func(held *lock.Held) {
			time.Sleep(lease - time.Second)
			require.ErrorIs(t, held.Err(), lock.ErrLost)
		},
		"the watchdog has just found it": func(held *lock.Held) { hold.EndLease(in(held)) },
	} {
		t.Run(event, func(t *testing.T) {
			withBusy(t, lock.Config{Lease: 2 * time.Minute, Margin: 30 * time.Second}, func(b *busy) {
				held, err := b.m.LockFor(ctx, lease)
				require.NoError(b, err)
				lose(held)
				require.True(b, fixture.Exists(b, b.s, "m"))
				require.ErrorIs(b, held.Unlock(ctx), lock.ErrLost)
				synctest.Wait()
				require.False(b, fixture.Exists(b, b.s, "m"))
				require.ErrorIs(b, held.Unlock(ctx), lock.ErrNotHeld)
			})
		})
	}
}

// copying is a connection that carries out a copy of the next request for permits before the request.
type copying struct {
	redis.ConnWithTimeout
	copied *atomic.Bool
	copy   func(command string, args ...any)
}

func (c copying) Send(command string, args ...any) error {
	if command == "EVALSHA" && args[0] == script.PermitTake.SHA() && c.copied.CompareAndSwap(false, true) {
		c.copy(command, args...)
	}
	return c.ConnWithTimeout.Send(command, args...)
}

// TestPermitsOfWhichSomeAreGoneAreGivenBack: a copy of the request was carried out first, and one of
// its permits was released by its id. The caller releases the others and takes new ones.
func TestPermitsOfWhichSomeAreGoneAreGivenBack(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		var copied atomic.Bool
		ctx, taken := context.Background(), keys.PermitsTaken("m")
		fixture.Do(b, b.s, "SET", "m", 5)
		fixture.Do(b, b.s, "SCRIPT", "LOAD", script.PermitTake.Text())
		pool := b.wire.Pool()
		dial := pool.DialContext
		pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
			conn, err := dial(ctx)
			if err != nil {
				return nil, err
			}
			return copying{conn.(redis.ConnWithTimeout), &copied, func(command string, args ...any) {
				fixture.Do(b, b.s, command, args...)
				ids, err := redis.Strings(fixture.Do(b, b.s, "ZRANGE", taken, 0, -1), nil)
				require.NoError(b, err)
				require.Len(b, ids, 2)
				fixture.Do(b, b.s, "ZREM", taken, ids[0])
				fixture.Do(b, b.s, "INCR", "m")
			}}, nil
		}
		c, err := lock.New(pool, lock.Config{})
		require.NoError(b, err)
		short, cancel := context.WithTimeout(ctx, 10*time.Second)
		defer cancel()
		held, err := c.PermitSemaphore("m").AcquireFor(short, 2, time.Hour)
		require.NoError(b, err)
		require.True(b, copied.Load())
		require.Len(b, held.Permits(), 2)
		time.Sleep(10 * time.Second)
		require.EqualValues(b, 3, fixture.Int(b, b.s, "GET", "m"), "of 5")
		require.EqualValues(b, 2, fixture.Int(b, b.s, "ZCARD", taken))
		require.NoError(b, held.Unlock(ctx))
		require.EqualValues(b, 5, fixture.Int(b, b.s, "GET", "m"))
		require.NoError(b, c.Close(ctx))
	})
}

// detour has a writer's request arrive when the test says so.
type detour struct {
	noClock bool // the client may not ask for the server's time

	mu     sync.Mutex // guards what follows
	isNext bool       // the next such request takes the detour
	before redis.Conn // on which it was written, and which carries nothing any more
	after  redis.Conn // on which it arrives with the next flush
}

// begin has the next request of a writer take the detour.
func (d *detour) begin() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.isNext = true
}

// cut ends the connection on which the request was written.
func (d *detour) cut(t *testing.T) {
	d.mu.Lock()
	defer d.mu.Unlock()
	require.NotNil(t, d.before)
	require.NoError(t, d.before.Close())
}

type detourConn struct {
	redis.ConnWithTimeout
	d *detour
}

func (c detourConn) Send(command string, args ...any) error {
	c.d.mu.Lock()
	defer c.d.mu.Unlock()
	switch {
	case c.d.noClock && command == "TIME":
		command = "FORBIDDEN"
	case c.d.isNext && command == "EVALSHA" && args[0] == script.RwWrite.SHA():
		c.d.isNext, c.d.before = false, c.ConnWithTimeout
		return c.d.after.Send(command, args...)
	case c.d.before == c.ConnWithTimeout:
		return nil
	}
	return c.ConnWithTimeout.Send(command, args...)
}

// TestAWriterIsNotAnnouncedByARequestThatArrivesLate: the connection has ended, but the request is still
// under way when the writer waits no more.
func TestAWriterIsNotAnnouncedByARequestThatArrivesLate(t *testing.T) {
	const timeout = 2 * time.Second
	type writer struct {
		leave context.CancelFunc
		ended chan error
		d     *detour
		reads *lock.Held // keeps the writer out
	}
	for name, end := range map[string]func(t *testing.T, w writer){
		"it leaves after the connection has ended": func(t *testing.T, w writer) {
			w.d.cut(t)
			synctest.Wait()
			w.leave()
			require.ErrorIs(t, <-w.ended, context.Canceled)
			require.NoError(t, w.reads.Unlock(t.Context()))
		},
		"it leaves before the connection ends": func(t *testing.T, w writer) {
			w.leave()
			require.ErrorIs(t, <-w.ended, context.Canceled)
			w.d.cut(t)
			require.NoError(t, w.reads.Unlock(t.Context()))
		},
		"it gets the lock": func(t *testing.T, w writer) {
			w.d.cut(t)
			synctest.Wait()
			require.NoError(t, w.reads.Unlock(t.Context()))
			require.NoError(t, <-w.ended)
		},
	} {
		for clock, noClock := range map[string]bool{"with a limit": false, "without a limit": true} {
			t.Run(name+"/"+clock, func(t *testing.T) {
				fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, reader, _ *lock.Client) {
					d := &detour{after: fixture.Dial(t, s), noClock: noClock}
					pool := s.Pool(0)
					dial := pool.DialContext
					pool.DialContext = func(ctx context.Context) (redis.Conn, error) {
						conn, err := dial(ctx)
						if err != nil {
							return nil, err
						}
						return detourConn{conn.(redis.ConnWithTimeout), d}, nil
					}
					c, err := lock.New(pool, lock.Config{IOTimeout: timeout, MaxPoll: time.Minute})
					require.NoError(t, err)
					reads, err := reader.RWMutex("m").Reader().Lock(t.Context())
					require.NoError(t, err)
					ctx, leave := context.WithCancel(t.Context())
					defer leave()
					w := writer{leave, make(chan error, 1), d, reads}
					go func() {
						held, err := c.RWMutex("m").Writer().Lock(ctx)
						if err == nil {
							err = held.Unlock(ctx)
						}
						w.ended <- err
					}()
					isAnnounced := func() bool { return fixture.Exists(t, s, keys.RWWriters("m")) }
					time.Sleep(time.Second)
					require.True(t, isAnnounced())
					d.begin()
					fixture.Do(t, s, "PUBLISH", keys.RWChannel("m"), "1") // it tries again
					time.Sleep(100 * time.Millisecond)

					end(t, w)
					time.Sleep(timeout / 4)
					require.False(t, isAnnounced())
					again, err := reader.RWMutex("m").Reader().Lock(t.Context())
					require.NoError(t, err)
					fixture.DoOn(t, d.after, "")
					require.True(t, isAnnounced(), "it did not arrive in time")
					time.Sleep(20 * time.Second)
					require.False(t, isAnnounced(), "readers are kept out for two minutes")
					require.NoError(t, again.Unlock(t.Context()))
					require.NoError(t, c.Close(t.Context()))
				})
			})
		}
	}
}

// TestAnAcquisitionWhoseAnswerIsLostIsTriedAgainForItsOwner: a hold whose answer was lost
// must not refuse its own owner.
func TestAnAcquisitionWhoseAnswerIsLostIsTriedAgainForItsOwner(t *testing.T) {
	ctx := lock.WithOwner(context.Background(), "o")
	withEach(t, "the answer is lost", func(b *busy, _, wait take) {
		b.wire.LoseAnswer()
		held, err := wait(ctx)
		require.NoError(b, err)
		if held.Permits() == nil {
			again, err := wait(ctx)
			require.NoError(b, err)
			require.Equal(b, 2, held.Count())
			require.NoError(b, again.Unlock(ctx))
		}
		time.Sleep(10 * time.Second)
		require.NoError(b, held.Extend(ctx, 2*time.Hour))
		require.NoError(b, held.Unlock(ctx))
	})
}

// TestAFairWaiterThatHasEndedListensNoMore: every fair waiter has a channel of its own, so it must end its
// subscription.
func TestAFairWaiterThatHasEndedListensNoMore(t *testing.T) {
	withBusy(t, lock.Config{}, func(b *busy) {
		ctx, m := context.Background(), b.c.FairMutex("m")
		channels := func() int { return len(fixture.Do(b, b.s, "PUBSUB", "CHANNELS", "*m*").([]any)) }
		held, err := m.Lock(ctx)
		require.NoError(b, err)
		b.addWaiters(3, m.Lock)
		time.Sleep(time.Second)
		require.Equal(b, 3, channels())
		for range 3 {
			held = b.handOver(held)
		}
		require.NoError(b, held.Unlock(ctx))
		time.Sleep(time.Minute)
		require.Zero(b, channels())
	})
}
