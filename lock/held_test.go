package lock_test

import (
	"context"
	"errors"
	"reflect"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// TestACopyOfAHeldPanics: its Unlock would give back what another Held has.
func TestACopyOfAHeldPanics(t *testing.T) {
	c := fixture.ClientOf(t, fixture.Server(t), lock.Config{})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.Mutex("m").Lock)
	again, err := c.Mutex("m").Lock(first.Context(ctx))
	require.NoError(t, err)
	for _, held := range []*lock.Held{first, again} {
		copied := reflect.New(reflect.TypeOf(held).Elem())
		copied.Elem().Set(reflect.ValueOf(held).Elem())
		x := copied.Interface().(*lock.Held)
		const says = "lock: this Held is a copy: use the pointer that Lock returned"
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { x.Valid() })
	}
	require.Equal(t, 2, first.Count())
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, first.Unlock(ctx))
}

// TestAHeldThatNobodyTookPanics, because Valid would be wrong with any answer.
func TestAHeldThatNobodyTookPanics(t *testing.T) {
	ctx := bounded.Context(t)
	for _, x := range []*lock.Held{nil, new(lock.Held)} {
		const says = "lock: this Held is nil or zero: check the error of Lock, and use the Held that it returned"
		require.PanicsWithValue(t, says, func() { x.Valid() })
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { _ = x.Err() })
		require.PanicsWithValue(t, says, func() { x.Done() })
	}
	for _, x := range []*lock.MultiHeld{nil, new(lock.MultiHeld)} {
		const says = "lock: this MultiHeld is nil or zero: check the error of Lock, and use the MultiHeld that it returned"
		require.PanicsWithValue(t, says, func() { x.Valid() })
		require.PanicsWithValue(t, says, func() { _ = x.Unlock(ctx) })
		require.PanicsWithValue(t, says, func() { _ = x.Err() })
		require.PanicsWithValue(t, says, func() { x.Done() })
		require.PanicsWithValue(t, says, func() { x.Context(ctx) })
		require.PanicsWithValue(t, says, func() { x.Deadline() })
		require.PanicsWithValue(t, says, func() { x.Members() })
	}
}

type ctxKey string

func heldFor(t *testing.T, cfg lock.Config) (*lock.Client, *lock.Held) {
	c := fixture.ClientOf(t, onRedis(t), cfg)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	return c, held
}

func TestContextsOfOneParentCostAHoldNothing(t *testing.T) {
	_, held := heldFor(t, lock.Config{})
	base, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	const calls = 20_000
	for name, parent := range map[string]context.Context{
		"one that never ends": context.Background(),
		"a server's own":      base,
		"of a lock":           held.Context(base),
	} {
		t.Run(name, func(t *testing.T) {
			_ = held.Context(parent)
			kept, before := held.In().Watch().Kept(), liveHeap()
			for i := range calls {
				_ = held.Context(context.WithValue(parent, ctxKey("i"), i))
			}
			require.Equal(t, kept, held.In().Watch().Kept())
			require.Less(t, int64(liveHeap())-int64(before), int64(calls*100), "719 bytes a call before")
		})
	}
	for range 100 { // requests that end
		ctx, end := context.WithCancel(base)
		_ = held.Context(ctx)
		end()
	}
	require.Eventually(t, func() bool { return held.In().Watch().Kept() == 3 }, time.Minute, time.Millisecond)
	runtime.KeepAlive(held)
}

func TestAHeldsContextIsItsParentsAndTheLocks(t *testing.T) {
	cause := errors.New("the caller has left")
	for how, run := range map[string]struct {
		end   func(c *lock.Client, held *lock.Held, cancel context.CancelCauseFunc)
		err   error
		cause func(error) bool
	}{
		"parent": {
			func(_ *lock.Client, _ *lock.Held, cancel context.CancelCauseFunc) { cancel(cause) },
			context.Canceled, func(err error) bool { return err == cause },
		},
		"unlock": {
			func(_ *lock.Client, held *lock.Held, _ context.CancelCauseFunc) {
				_ = held.Unlock(bounded.Context(t))
			},
			context.Canceled, func(err error) bool { return errors.Is(err, lock.ErrNotHeld) },
		},
		"loss": {
			func(c *lock.Client, held *lock.Held, _ context.CancelCauseFunc) {
				_, _ = c.Mutex(held.Name()).ForceUnlock(bounded.Context(t))
			},
			context.Canceled, func(err error) bool { return errors.Is(err, lock.ErrLost) },
		},
	} {
		for _, cancellable := range []bool{true, false} {
			if how == "parent" && !cancellable {
				continue
			}
			t.Run(how, func(t *testing.T) {
				c, held := heldFor(t, lock.Config{Lease: 300 * time.Millisecond})
				parent, cancel := context.WithoutCancel(t.Context()), context.CancelCauseFunc(func(error) {})
				if cancellable {
					parent, cancel = context.WithCancelCause(parent)
				}
				first := held.Context(context.WithValue(parent, ctxKey("k"), 1))
				second := held.Context(context.WithValue(parent, ctxKey("k"), 2))
				require.Equal(t, 1, first.Value(ctxKey("k")))
				require.Equal(t, 2, second.Value(ctxKey("k")))
				require.Nil(t, second.Value(ctxKey("other")))
				require.True(t, c.Mutex(held.Name()).HeldBy(second))
				_, has := second.Deadline()
				require.False(t, has)

				goroutines := runtime.NumGoroutine()
				var all []context.Context
				for range 100 {
					child, stop := context.WithCancel(second)
					defer stop()
					deeper, stop2 := context.WithTimeout(context.WithValue(child, ctxKey("k"), 3), time.Hour)
					defer stop2()
					beside, stop3 := context.WithCancelCause(context.WithValue(first, ctxKey("k"), 4))
					defer stop3(nil)
					all = append(all, child, deeper, beside)
				}
				require.Less(t, runtime.NumGoroutine(), goroutines+50, "children need no goroutines")
				called := make(chan struct{})
				context.AfterFunc(first, func() { close(called) })
				for _, ctx := range append(all, first, second) {
					require.NoError(t, ctx.Err())
					require.NoError(t, context.Cause(ctx))
				}
				run.end(c, held, cancel)
				for _, ctx := range append(all, first, second) {
					bounded.Receive(t, ctx.Done())
					require.Equal(t, run.err, ctx.Err())
					require.True(t, run.cause(context.Cause(ctx)), "%v", context.Cause(ctx))
				}
				bounded.Receive(t, called)
				if how == "parent" {
					require.NoError(t, held.Err())
					require.NoError(t, held.Context(bounded.Context(t)).Err())
					require.NoError(t, held.Unlock(bounded.Context(t)))
				}
				late := held.Context(parent)
				bounded.Receive(t, late.Done())
				require.Error(t, late.Err())
			})
		}
	}
}

func TestAHeldsContextHasItsParentsDeadline(t *testing.T) {
	_, held := heldFor(t, lock.Config{})
	at := time.Now().Add(time.Hour)
	parent, cancel := context.WithDeadline(context.Background(), at)
	defer cancel()
	got, ok := held.Context(parent).Deadline()
	require.True(t, ok)
	require.Equal(t, at, got)
	short, cancel2 := context.WithTimeoutCause(parent, time.Millisecond, errors.New("too long"))
	defer cancel2()
	ctx := held.Context(short)
	bounded.Receive(t, ctx.Done())
	require.Equal(t, context.DeadlineExceeded, ctx.Err())
	require.EqualError(t, context.Cause(ctx), "too long")
	ended := held.Context(short)
	require.Equal(t, context.DeadlineExceeded, ended.Err())
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// spiedContext is a context that fails the test if its methods are called under a mutex that the end of
// a hold takes. Otherwise, a method of a Held's context could deadlock, because it may end the hold.
type spiedContext struct {
	context.Context
	isHeld func() bool // the mutex is held
	t      *testing.T
}

func (c spiedContext) requireNotHeld() {
	for range 200 { // another goroutine may hold the mutex for a moment
		if !c.isHeld() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	c.t.Errorf("a context is asked under a mutex:\n%s", debug.Stack())
}

func (c spiedContext) Err() error            { c.requireNotHeld(); return c.Context.Err() }
func (c spiedContext) Done() <-chan struct{} { c.requireNotHeld(); return c.Context.Done() }
func (c spiedContext) Deadline() (at time.Time, some bool) {
	c.requireNotHeld()
	return c.Context.Deadline()
}
func (c spiedContext) Value(key any) any { c.requireNotHeld(); return c.Context.Value(key) }

// taken is a Held or a MultiHeld.
type taken interface {
	Context(ctx context.Context) context.Context
	Unlock(ctx context.Context) error
}

// TestNoContextIsAskedUnderTheMutexesOfTheTables, by whatever call: of an owner that asks by
// several calls at once, of calls that wait, are refused, re-enter, or are left.
func TestNoContextIsAskedUnderTheMutexesOfTheTables(t *testing.T) {
	s := fixture.Mini(t)
	c, other := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	var members []*lock.Mutex
	for range 3 {
		members = append(members, fixture.ClientOf(t, fixture.Mini(t), lock.Config{}).Mutex("red"))
	}
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	require.NoError(t, err)
	all := append(members, c.Mutex("m"))
	locked := func() bool {
		return red.Line().Locked() || slices.ContainsFunc(all, func(m *lock.Mutex) bool { return lock.Table(lock.ClientOf(m)).Locked() })
	}
	spy := func(ctx context.Context) context.Context { return spiedContext{ctx, locked, t} }
	sem, latch := c.Semaphore("s"), c.CountDownLatch("l")
	ctx := context.Background()
	_, err = sem.TrySet(ctx, 1)
	require.NoError(t, err)
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	rw := c.RWMutex("rw")
	locks := map[string]func(ctx context.Context) (taken, error){
		"Lock":    func(ctx context.Context) (taken, error) { return c.Mutex("m").Lock(ctx) },
		"TryLock": func(ctx context.Context) (taken, error) { return c.Mutex("m").TryLock(ctx) },
		"fair":    func(ctx context.Context) (taken, error) { return c.FairMutex("f").Lock(ctx) },
		"read":    func(ctx context.Context) (taken, error) { return rw.Reader().Lock(ctx) },
		"write":   func(ctx context.Context) (taken, error) { return rw.Writer().Lock(ctx) },
		"red":     func(ctx context.Context) (taken, error) { return red.Lock(ctx) },
		"red try": func(ctx context.Context) (taken, error) { return red.TryLock(ctx) },
	}
	end := time.Now().Add(time.Second)
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for time.Now().Before(end) {
				if held, err := other.Mutex("m").TryLock(ctx); err == nil {
					time.Sleep(5 * time.Millisecond)
					_ = held.Unlock(ctx)
				}
				short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
				_ = sem.Acquire(spy(short), 2)
				_ = latch.Wait(spy(short))
				cancel()
			}
		})
		for name, take := range locks {
			shared := lock.WithOwner(ctx, "owner "+name[:3])
			for _, base := range []context.Context{ctx, shared} {
				wg.Go(func() {
					for time.Now().Before(end) {
						short, cancel := context.WithTimeout(base, 20*time.Millisecond)
						if held, err := take(spy(short)); err == nil {
							again, err := take(spy(held.Context(short)))
							if err == nil {
								_ = again.Unlock(spy(short))
							}
							_ = held.Unlock(spy(short))
						}
						cancel()
					}
				})
			}
		}
	}
	wg.Wait()
}

func TestExtendMovesTheEndAndNeverShortens(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held, err := c.Mutex(t.Name()).LockFor(ctx, 10*time.Second)
	require.NoError(t, err)
	require.NoError(t, held.Extend(ctx, time.Minute))
	long := held.Deadline()
	require.Greater(t, time.Until(long), 30*time.Second)
	require.NoError(t, held.Extend(ctx, time.Second))
	require.Equal(t, long, held.Deadline())
	ttl, err := c.Mutex(t.Name()).TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, ttl, 30*time.Second)
	require.ErrorContains(t, held.Extend(ctx, time.Microsecond), "lease is")
	fixture.Do(t, s, "DEL", t.Name())
	require.ErrorIs(t, held.Extend(ctx, time.Second), lock.ErrLost)
	require.ErrorIs(t, held.Extend(ctx, time.Second), lock.ErrLost)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.ErrorIs(t, held.Extend(ctx, time.Second), lock.ErrNotHeld)
}

func TestMixesOfLockAndLockForNeverShortenTrust(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	outer, err := mu.LockFor(ctx, time.Minute)
	require.NoError(t, err)
	long := outer.Deadline()
	inner, err := mu.Lock(outer.Context(ctx)) // shorter, and renewed from now on
	require.NoError(t, err)
	require.Equal(t, long, outer.Deadline())
	brief, err := mu.LockFor(outer.Context(ctx), 100*time.Millisecond)
	require.NoError(t, err)
	require.NoError(t, brief.Unlock(ctx))
	require.Equal(t, long, outer.Deadline())
	bounded.Until(t, func() bool {
		require.NoError(t, inner.Err())
		return c.Stats().Renewal.Renewed >= 2
	})
	require.NoError(t, inner.Unlock(ctx))
	require.Equal(t, long, outer.Deadline())
	ttl, err := mu.TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, ttl, 30*time.Second)
	renewed := c.Stats().Renewal.Renewed
	time.Sleep(700 * time.Millisecond) // two renewals' time
	require.LessOrEqual(t, c.Stats().Renewal.Renewed, renewed+1, "what is left came from LockFor")
	require.NoError(t, outer.Unlock(ctx))
}

func TestGuardRunsACommandOnlyUnderTheLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	key := t.Name() + ":balance"
	reply, err := redis.String(held.Guard(ctx, "SET", []string{key}, 100))
	require.NoError(t, err)
	require.Equal(t, "OK", reply)
	n, err := redis.Int(held.Guard(ctx, "INCRBY", []string{key}, 7))
	require.NoError(t, err)
	require.Equal(t, 107, n)
	none, err := held.Guard(ctx, "GET", []string{key + "?"})
	require.NoError(t, err)
	require.Nil(t, none)
	_, err = held.Guard(ctx, "LPUSH", []string{key}, 1)
	require.ErrorContains(t, err, "WRONGTYPE")
	require.True(t, held.Valid(), "the command's error is not the lock's")

	fixture.Do(t, s, "DEL", t.Name())
	_, err = held.Guard(ctx, "INCRBY", []string{key}, 7)
	require.ErrorIs(t, err, lock.ErrLost)
	require.Equal(t, []byte("107"), fixture.Do(t, s, "GET", key))
	require.ErrorIs(t, held.Err(), lock.ErrLost)
}

func TestMaxHoldEndsALockThatIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{MaxHold: 10 * time.Minute})
		require.NoError(t, err)
		ctx, began := context.Background(), time.Now()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		work := held.Context(ctx)
		<-work.Done()
		var lost *lock.LostError
		require.ErrorAs(t, context.Cause(work), &lost)
		require.Equal(t, lock.MaxHold, lost.Reason)
		require.InDelta(t, 10*time.Minute.Seconds(), time.Since(began).Seconds(), 1)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
		require.NoError(t, c.Close(ctx))
	})
}

// TestNoLeaseLastsBeyondMaxHold: after MaxHold the holder has lost the lock, so a longer lease would
// keep others out for nothing.
func TestNoLeaseLastsBeyondMaxHold(t *testing.T) {
	const lease, maxHold = time.Second, 2 * time.Second
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{Lease: lease, MaxHold: maxHold})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		other, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(other)
		free := func(name string, began time.Time, take func(context.Context) error) {
			t.Helper()
			require.NoError(t, take(ctx), name)
			require.Less(t, time.Since(began), maxHold+lease+time.Second, name)
		}
		for name, mu := range fixture.MutexKinds(c, "m") {
			began := time.Now()
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			time.Sleep(300 * time.Millisecond)
			require.NoError(t, held.Extend(ctx, 1700*time.Millisecond), name)
			require.EqualError(t, held.Extend(ctx, 20*time.Second),
				`lock: "m": the lease is 20s: it must end in 1.7s, when the time of Config.MaxHold has passed: ask for a shorter one`, name)
			_, err = mu.TryLockFor(held.Context(ctx), 20*time.Second)
			require.ErrorContains(t, err, "Config.MaxHold", name)
			again, err := mu.Lock(held.Context(ctx))
			require.NoError(t, err, name)
			require.NoError(t, again.Unlock(ctx), name)
			again, err = mu.LockFor(held.Context(ctx), time.Second)
			require.NoError(t, err, name)
			require.NoError(t, again.Unlock(ctx), name)
			<-held.Done()
			var lost *lock.LostError
			require.ErrorAs(t, held.Err(), &lost)
			require.Equal(t, lock.MaxHold, lost.Reason)
			free(name, began, func(ctx context.Context) error {
				held, err := exclusive(other, name).Lock(ctx)
				if err != nil {
					return err
				}
				return held.Unlock(ctx)
			})

			held, err = mu.LockFor(ctx, time.Second)
			require.NoError(t, err)
			require.NoError(t, held.Extend(ctx, 20*time.Second), "%s: MaxHold is for what is renewed", name)
			_, err = mu.Lock(held.Context(ctx))
			require.NoError(t, err)
			require.NoError(t, held.Extend(ctx, 19*time.Second), "%s: it lasts for longer anyway", name)
			require.ErrorContains(t, held.Extend(ctx, 30*time.Second), "Config.MaxHold", name)
			require.Greater(t, time.Until(held.Deadline()), 19*time.Second, name)
			require.NoError(t, held.Unlock(ctx))
			for synctest.Wait(); c.Stats().Held > 0; {
				time.Sleep(time.Second)
			}
		}

		p := c.PermitSemaphore("p")
		_, err = p.TrySet(ctx, 1)
		require.NoError(t, err)
		began := time.Now()
		permit, err := p.Acquire(ctx, 1)
		require.NoError(t, err)
		require.ErrorContains(t, permit.Extend(ctx, 20*time.Second), "Config.MaxHold")
		free("permit", began, func(ctx context.Context) error {
			_, err := other.PermitSemaphore("p").Acquire(ctx, 1)
			return err
		})

		m, err := lock.NewMultiLock(c.Mutex("a"), c.RWMutex("b").Writer())
		require.NoError(t, err)
		began = time.Now()
		both, err := m.Lock(ctx)
		require.NoError(t, err)
		_, err = m.LockFor(both.Context(ctx), 20*time.Second)
		require.ErrorContains(t, err, "Config.MaxHold")
		<-both.Done()
		free("multi", began, func(ctx context.Context) error {
			m, err := lock.NewMultiLock(other.Mutex("a"), other.RWMutex("b").Writer())
			require.NoError(t, err)
			held, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return held.Unlock(ctx)
		})
	})
}

// exclusive is the lock "m" of that kind; of a reader, the writer.
func exclusive(c *lock.Client, kind string) *lock.Mutex {
	if kind == "reader" {
		kind = "writer"
	}
	return fixture.MutexKinds(c, "m")[kind]
}

// TestALostHoldGivesALongerLeaseBack: a clock that is set forward ends a hold long before its field.
func TestALostHoldGivesALongerLeaseBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(c)
		other, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		defer fixture.CloseNow(other)
		for name, mu := range fixture.MutexKinds(c, "m") {
			for how, longer := range map[string]func(*lock.Held) error{
				"Extend": func(held *lock.Held) error { return held.Extend(ctx, 10*time.Minute) },
				"LockFor": func(held *lock.Held) error {
					_, err := mu.LockFor(held.Context(ctx), 10*time.Minute)
					return err
				},
			} {
				held, err := mu.Lock(ctx)
				require.NoError(t, err)
				require.NoError(t, longer(held), "%s, %s", name, how)
				held.In().Hold().Lost(renewal.TrustEnded)
				short, cancel := context.WithTimeout(ctx, 10*time.Second)
				next, err := exclusive(other, name).Lock(short)
				cancel()
				require.NoError(t, err, "%s, %s", name, how)
				require.NoError(t, next.Unlock(ctx))
			}
		}
	})
}

func TestAForgottenHeldIsNotRenewedIfSoConfigured(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 1500 * time.Millisecond, DropForgotten: true})
	lockAndForget := func(name string, ctx context.Context) <-chan struct{} {
		held, err := c.Mutex(name).Lock(ctx)
		require.NoError(t, err)
		return held.Done()
	}
	done := lockAndForget("forgotten", ctx)
	kept, err := c.Mutex("kept").Lock(ctx)
	require.NoError(t, err)
	lockAndForget("kept", kept.Context(ctx)) // a re-entry: the other Held still wants it
	unlocked, err := c.Mutex("unlocked").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, unlocked.Unlock(ctx))
	require.Eventually(t, func() bool {
		runtime.GC()
		return fixture.IsClosed(done)
	}, time.Minute, 10*time.Millisecond)
	held, err := c.Mutex("forgotten").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	require.True(t, kept.Valid())
	require.Equal(t, 2, kept.Count())
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+5 }, time.Minute, time.Millisecond)
	require.True(t, kept.Valid())
	require.NoError(t, kept.Unlock(ctx))
	runtime.KeepAlive(kept)
}

// TestAForgottenHeldIsNotRenewedThoughOthersWait: the queue of its lock refers to what its call has left
// behind, and must not keep the Held.
func TestAForgottenHeldIsNotRenewedThoughOthersWait(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, onRedis(t), lock.Config{Lease: 1500 * time.Millisecond, DropForgotten: true})
	for kind, lockIt := range map[string]func(context.Context) (*lock.Held, error){
		"Mutex":      c.Mutex("mutex").Lock,
		"FairMutex":  c.FairMutex("fair").Lock,
		"RW writers": c.RWMutex("rw").Writer().Lock,
	} {
		t.Run(kind, func(t *testing.T) {
			first, err := lockIt(ctx)
			require.NoError(t, err)
			forgotten, taken := make(chan struct{}), make(chan error, 1)
			go func() {
				defer close(forgotten)
				if _, err := lockIt(ctx); err != nil {
					t.Error(err)
				}
			}()
			bounded.Until(t, func() bool { return c.Stats().Waiting == 1 })
			go func() {
				held, err := lockIt(ctx)
				if err == nil {
					err = held.Unlock(ctx)
				}
				taken <- err
			}()
			bounded.Until(t, func() bool { return c.Stats().Waiting == 2 })
			require.NoError(t, first.Unlock(ctx))
			bounded.Receive(t, forgotten)
			require.Eventually(t, func() bool {
				runtime.GC()
				return len(taken) == 1
			}, time.Minute, 10*time.Millisecond)
			require.NoError(t, <-taken)
		})
	}
}

func TestAForgottenHeldIsRenewedByDefault(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 1500 * time.Millisecond})
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t)) // another test has a name of its own
	require.NoError(t, err)
	renewed := c.Stats().Renewal.Renewed
	bounded.Until(t, func() bool {
		require.Equal(t, 1, c.Stats().Held, "it was lost, and is not renewed any more")
		runtime.GC()
		return c.Stats().Renewal.Renewed >= renewed+4
	})
	require.Equal(t, 1, c.Stats().Held)
}

// TestAForgottenMultiHeldIsNotRenewedIfSoConfigured: of a MultiLock, and of a RedLock.
func TestAForgottenMultiHeldIsNotRenewedIfSoConfigured(t *testing.T) {
	t.Parallel()
	ctx := bounded.Context(t)
	cfg := fixture.RedConfig()
	cfg.DropForgotten = true
	fleet := fixture.NewRedFleet(t, fiveMasters(t), t.Name()+"red", cfg)
	multi, err := lock.NewMultiLock(fleet.Clients[0].Mutex(t.Name()+"a"), fleet.Clients[1].Mutex(t.Name()+"b"))
	require.NoError(t, err)
	for name, take := range map[string]func(context.Context) (*lock.MultiHeld, error){"MultiLock": multi.Lock, "RedLock": fleet.Lock.Lock} {
		lockAndForget := func() <-chan struct{} {
			held, err := take(ctx)
			require.NoError(t, err)
			return held.Done()
		}
		done := lockAndForget()
		require.Eventually(t, func() bool {
			runtime.GC()
			return fixture.IsClosed(done)
		}, time.Minute, 10*time.Millisecond, name)
		held, err := take(ctx)
		require.NoError(t, err, name)
		for range 3 { // it is used, and so not forgotten
			runtime.GC()
			require.True(t, held.Valid(), name)
		}
		require.NoError(t, held.Unlock(ctx), name)
	}
}
