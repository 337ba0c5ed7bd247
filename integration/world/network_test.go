package world_test

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestALostAnswerIsUnknownAndTheLockGoesBack(t *testing.T) {
	s := onRedis(t)
	var healed atomic.Bool
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Script != "" && !healed.Load() {
			return faultproxy.LoseReply
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	_, err := c.Mutex(t.Name()).TryLock(bounded.Context(t))
	require.True(t, fixture.IsNoAnswer(err), err)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	// The request arrived. The field has no holder, so the client releases it,
	// although it gets no answer to that either.
	fixture.AwaitGone(t, s, t.Name())
	healed.Store(true)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestLockRetriesUnknownOutcomesUntilItHasTheLock(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	ctx := bounded.Context(t)
	p.SetReplies(faultproxy.Lose)
	go func() {
		for p.Accepted() < 3 && ctx.Err() == nil { // two connections were given up
			time.Sleep(time.Millisecond)
		}
		p.Heal()
	}()
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fields := fixture.Hash(t, s, t.Name())
	require.Len(t, fields, 1, "the fields of the attempts that went unanswered are gone")
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

// TestAnAcquisitionThatComesAfterItsReleaseIsReleased: the caller has left, and the client sent
// the release before Redis had the field. No other client must wait until its lease ends.
func TestAnAcquisitionThatComesAfterItsReleaseIsReleased(t *testing.T) {
	for name, tc := range map[string]struct {
		script string
		take   func(context.Context, *lock.Client, string) (*lock.Held, error)
	}{
		"Mutex": {"acquire", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.Mutex(name).TryLock(ctx)
		}},
		"FencedMutex": {"acquire", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.FencedMutex(name).TryLock(ctx)
		}},
		"FairMutex": {"fair_take", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.FairMutex(name).Lock(ctx)
		}},
		"reader": {"rw_read", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.RWMutex(name).Reader().TryLock(ctx)
		}},
		"writer": {"rw_write", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.RWMutex(name).Writer().TryLock(ctx)
		}},
		"permits": {"permit_take", func(ctx context.Context, c *lock.Client, name string) (*lock.Held, error) {
			return c.PermitSemaphore(name).TryAcquire(ctx, 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			p := fixture.Proxy(t, s, nil)
			c := fixture.ClientOver(t, p, lock.Config{Lease: time.Hour, IOTimeout: 50 * time.Millisecond})
			ctx := bounded.Context(t)
			key := t.Name()
			require.NoError(t, c.Semaphore(key+" permits").Add(ctx, 2))
			if name == "permits" {
				key += " permits"
			}
			warm, err := tc.take(ctx, c, key) // the server knows the script then
			require.NoError(t, err)
			require.NoError(t, warm.Unlock(ctx))
			short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
			defer cancel()
			p.HoldBack(tc.script)
			_, err = tc.take(short, c, key)
			require.ErrorIs(t, err, lock.ErrUnknown)
			time.Sleep(200 * time.Millisecond) // its release is answered meanwhile, as a rule
			p.LetThrough()
			bounded.Until(t, p.HasSettled)
			if name == "permits" {
				bounded.Until(t, func() bool { return fixture.Int(t, s, "GET", key) == 2 }) // at most a minute passes between two releases
				return
			}
			fixture.AwaitGone(t, s, key)
		})
	}
}

// TestAWaiterOfThisClientDoesNotWaitForASlowRelease: the release was carried out, but
// its answer is lost. The waiter takes the free lock while Unlock still asks.
func TestAWaiterOfThisClientDoesNotWaitForASlowRelease(t *testing.T) {
	s := onRedis(t)
	var lose atomic.Pointer[string] // the field whose release is not answered
	var lost atomic.Int32
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if field := lose.Load(); c.Script == "release" && field != nil && slices.Contains(c.Args, *field) {
			lost.Add(1)
			return faultproxy.LoseReply
		}
		return faultproxy.Pass
	})
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond, MaxPoll: 100 * time.Millisecond, UnlockTimeout: time.Minute})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	for field := range fixture.Hash(t, s, t.Name()) {
		lose.Store(&field)
	}
	unlocked := make(chan error, 1)
	go func() { unlocked <- held.Unlock(ctx) }()
	require.Eventually(t, func() bool { return lost.Load() > 0 }, time.Minute, time.Millisecond)
	next := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.Empty(t, unlocked, "the release is not answered yet")
	lose.Store(nil)
	require.NoError(t, bounded.Receive(t, unlocked))
	require.True(t, next.Valid())
	require.NoError(t, next.Unlock(ctx))
}

func TestFailFastReturnsTheFirstErrorOfTheNetwork(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond, FailFast: true})
	p.RefuseDials()
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotSent)
}

func TestUnlockWhoseAnswerWasLostIsReleased(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	up := p.Accepted()
	p.SetReplies(faultproxy.Lose)
	go func() {
		for p.Accepted() == up && ctx.Err() == nil { // the first release went unanswered
			time.Sleep(time.Millisecond)
		}
		p.Heal()
	}()
	require.NoError(t, held.Unlock(ctx), "the resend found the field absent: the first one had removed it")
	require.False(t, fixture.Exists(t, s, t.Name()))
}

func TestUnlockThatIsNeverAnsweredIsUnknownAndMayBeCalledAgain(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 20 * time.Millisecond, UnlockTimeout: 100 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	work := held.Context(ctx)
	p.BlackHole()
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrUnknown)
	require.Error(t, work.Err(), "no work goes on after Unlock was called")
	require.False(t, held.Valid())
	require.True(t, fixture.Exists(t, s, t.Name()))
	p.Heal()
	// The client goes on trying by itself.
	fixture.AwaitGone(t, s, t.Name())
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
}

func TestABlackHoleIsToldBeforeRedisExpiresTheKey(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{Lease: 4 * time.Second, Margin: time.Second})
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	p.BlackHole()
	bounded.Receive(t, held.Done())
	require.True(t, fixture.Exists(t, s, t.Name()), "told while Redis still has the key")
	fixture.RequireLost(t, held, lock.TrustEnded)
}

func TestACallerThatLeavesBreaksNoConnectionAndGivesTheLockBack(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{Connections: 1})
	ctx := bounded.Context(t)
	m := c.Mutex(t.Name() + " warm") // a lease that is not renewed needs no second connection
	warm := fixture.Hold(t, func(ctx context.Context) (*lock.Held, error) { return m.LockFor(ctx, time.Minute) })
	fixture.Do(t, s, "CLIENT", "PAUSE", "300")
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := c.Mutex(t.Name()).LockFor(wait, time.Minute)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, warm.Unlock(ctx))
	require.EqualValues(t, 1, p.Accepted(), "one connection served them all")
	fixture.AwaitGone(t, s, t.Name())
}
