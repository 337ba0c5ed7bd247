package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestFencedTokensAreRedissonsCounter(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	mu := c.FencedMutex(key)
	counter := "redisson_lock_token:{app:" + key + "}"
	require.Equal(t, "app:"+key, mu.Name())
	token, err := mu.Token(ctx)
	require.NoError(t, err)
	require.Zero(t, token)

	held, err := mu.Lock(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, held.Token())
	inner, err := mu.LockFor(held.Context(ctx), time.Minute)
	require.NoError(t, err)
	require.EqualValues(t, 1, inner.Token(), "a re-entry has the token of the hold")
	require.Equal(t, []byte("1"), fixture.Do(t, s, "GET", counter))
	require.EqualValues(t, -1, fixture.Do(t, s, "PTTL", counter))
	require.True(t, mu.HeldBy(held.Context(ctx)))
	info, err := mu.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, info.Holders[0].Count)
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))

	// A holder in Java, then us again: one sequence.
	fixture.Do(t, s, "HINCRBY", "app:"+key, "0b1c1a5e-9a9a-4c7b-8d1e-111111111111:1", 1)
	fixture.Do(t, s, "PEXPIRE", "app:"+key, 30_000)
	fixture.Do(t, s, "INCR", counter)
	_, err = mu.TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	fixture.Do(t, s, "DEL", "app:"+key)
	require.NoError(t, mu.Do(ctx, func(ctx context.Context, _ *lock.Held) error {
		token, err := mu.Token(ctx)
		require.EqualValues(t, 3, token)
		return err
	}))
	locked, err := mu.IsLocked(ctx)
	require.NoError(t, err)
	require.False(t, locked)
	_, err = c.FencedMutex("").Token(ctx)
	require.ErrorContains(t, err, "name is empty")
}

func TestAFencedLeaseIsHonoured(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	held, err := c.FencedMutex(key).TryLockFor(ctx, 200*time.Millisecond)
	require.NoError(t, err)
	ttl, err := c.FencedMutex(key).TTL(ctx)
	require.NoError(t, err)
	require.LessOrEqual(t, ttl, 200*time.Millisecond)
	bounded.Receive(t, held.Done())
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.LostError{Name: key, Reason: lock.Expired, Token: 1}, *lost)
	next := fixture.Hold(t, c.FencedMutex(key).Lock)
	require.EqualValues(t, 2, next.Token())
	forced, err := c.FencedMutex(key).ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, forced)
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", "redisson_lock_token:{"+key+"}"))
}

func TestFencedHandOffsHaveRisingTokens(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	const turns = 200
	last := int64(0) // guarded by the lock
	var wg sync.WaitGroup
	for i := range turns {
		wg.Go(func() {
			held, err := []*lock.Client{a, b}[i%2].FencedMutex(key).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			if held.Token() != last+1 {
				t.Errorf("token %d after %d", held.Token(), last)
			}
			last = held.Token()
			if err := held.Unlock(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	bounded.Wait(t, &wg)
	token, err := a.FencedMutex(key).Token(ctx)
	require.NoError(t, err)
	require.EqualValues(t, turns, token)
}

func TestAMutexIsNotReenteredAsAnotherSort(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(key).Lock)
	_, err := c.FencedMutex(key).Lock(held.Context(ctx))
	require.ErrorContains(t, err, "another kind of lock")
	_, err = c.FencedMutex(key).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	// A waiter of another sort is not handed the lock, but gets it.
	got := make(chan *lock.Held)
	go func() {
		held, err := c.FencedMutex(key).Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, 100*time.Microsecond)
	require.NoError(t, held.Unlock(ctx))
	fenced := bounded.Receive(t, got)
	require.EqualValues(t, 1, fenced.Token())
	require.NoError(t, fenced.Unlock(ctx))
}
