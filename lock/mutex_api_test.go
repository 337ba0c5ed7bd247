package lock_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestInspectSaysWhoHoldsTheLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	require.Equal(t, "app:"+t.Name(), mu.Name())
	info, err := mu.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.Info{}, info)
	require.False(t, mu.HeldBy(ctx))

	held, err := mu.Lock(lock.WithOwner(ctx, "worker-7"))
	require.NoError(t, err)
	inner, err := mu.Lock(held.Context(ctx))
	require.NoError(t, err)
	info, err = mu.Inspect(ctx)
	require.NoError(t, err)
	require.True(t, info.Locked)
	require.Equal(t, 2, info.Holders[0].Count)
	require.Regexp(t, "^"+c.ID()+":worker-7:[0-9]+$", info.Holders[0].Field)
	require.Greater(t, info.TTL, time.Duration(0))
	locked, err := mu.IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	ttl, err := mu.TTL(ctx)
	require.NoError(t, err)
	require.Greater(t, ttl, 20*time.Second)
	require.True(t, fixture.Exists(t, s, "app:"+t.Name()))

	require.True(t, mu.HeldBy(held.Context(ctx)))
	require.True(t, mu.HeldBy(lock.WithOwner(ctx, "worker-7")))
	require.False(t, mu.HeldBy(ctx))
	require.False(t, mu.HeldBy(lock.WithoutOwner(held.Context(ctx))))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	require.False(t, mu.HeldBy(lock.WithOwner(ctx, "worker-7")))
}

func TestForceUnlockTakesTheLockAndLeavesOtherKeysAlone(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 500 * time.Millisecond, MaxPoll: time.Hour})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	ok, err := mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, ok)
	held := fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{Lease: 500 * time.Millisecond}).Mutex(t.Name()).Lock)
	wg := fixture.InTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+t.Name()+"}", 1)
	ok, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, ok)
	bounded.Wait(t, wg)
	fixture.RequireLost(t, held, lock.NotOwner)

	fixture.Do(t, s, "HSET", t.Name()+"-user", "name", "bob")
	fixture.Do(t, s, "SET", t.Name()+"-text", "bob")
	for _, key := range []string{t.Name() + "-user", t.Name() + "-text"} {
		_, err = c.Mutex(key).ForceUnlock(ctx)
		require.ErrorIs(t, err, lock.ErrNotALock)
		require.True(t, fixture.Exists(t, s, key))
	}
}

func TestDoUnlocksWhateverHappens(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 300 * time.Millisecond})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)
	boom := errors.New("boom")
	require.ErrorIs(t, mu.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		require.True(t, mu.HeldBy(ctx))
		return mu.Do(ctx, func(context.Context, *lock.Held) error { return boom })
	}), boom)
	require.False(t, fixture.Exists(t, s, t.Name()))
	require.PanicsWithValue(t, "boom", func() {
		_ = mu.Do(ctx, func(context.Context, *lock.Held) error { panic("boom") })
	})
	require.False(t, fixture.Exists(t, s, t.Name()))
	err := mu.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		fixture.Do(t, s, "DEL", t.Name())
		bounded.Receive(t, ctx.Done())
		return context.Cause(ctx)
	})
	require.ErrorIs(t, err, lock.ErrLost)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.ErrorIs(t, mu.Do(ended, func(context.Context, *lock.Held) error { panic("not called") }), context.Canceled)
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
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Second})
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
