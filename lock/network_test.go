package lock_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestALostAnswerIsUnknownAndTheLockGoesBack(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	p.Replies(faultproxy.Lose)
	_, err := c.Mutex(t.Name()).TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	// The request arrived. Nobody answers for the field, so the client gives
	// it back, though it hears nothing of that either.
	fixture.AwaitGone(t, s, t.Name())
	p.Heal()
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestLockRetriesUnknownOutcomesUntilItHasTheLock(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	ctx := bounded.Context(t)
	p.Replies(faultproxy.Lose)
	go func() {
		for p.Accepted() < 3 && ctx.Err() == nil { // two connections were given up
			time.Sleep(time.Millisecond)
		}
		p.Heal()
	}()
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fields, err := redis.StringMap(fixture.Do(t, s, "HGETALL", t.Name()), nil)
	require.NoError(t, err)
	require.Len(t, fields, 1, "the fields of the attempts that went unanswered are gone")
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestFailFastReturnsTheFirstUnknown(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond, FailFast: true})
	p.Unreachable()
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrUnknown)
}

func TestUnlockWhoseAnswerWasLostIsReleased(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{IOTimeout: 50 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	up := p.Accepted()
	p.Replies(faultproxy.Lose)
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
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.TrustEnded, lost.Reason)
	require.False(t, held.Valid())
}

func TestACallerThatLeavesBreaksNoConnectionAndGivesTheLockBack(t *testing.T) {
	s := onRedis(t)
	p := fixture.Proxy(t, s, nil)
	c := fixture.ClientOver(t, p, lock.Config{Connections: 1})
	ctx := bounded.Context(t)
	warm := fixture.Hold(t, c.Mutex(t.Name()+" warm").Lock)
	fixture.Do(t, s, "CLIENT", "PAUSE", "300")
	wait, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	_, err := c.Mutex(t.Name()).Lock(wait)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, warm.Unlock(ctx))
	require.EqualValues(t, 1, p.Accepted(), "one connection served them all")
	fixture.AwaitGone(t, s, t.Name())
}
