package lock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestLockIsRedissonsHashWithOneFieldAndATTL(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)

	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fields := fixture.Hash(t, s, t.Name())
	require.Len(t, fields, 1)
	for field, count := range fields {
		require.Regexp(t, "^"+c.ID()+":.+:[0-9]+$", field)
		require.Equal(t, "1", count)
	}
	ttl := fixture.PTTL(t, s, t.Name())
	require.Positive(t, ttl)
	require.LessOrEqual(t, ttl, int64(30_000))

	require.NoError(t, held.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()))
}

func TestTryLockOfAHeldLockSaysWhoseTTL(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, a.Mutex(t.Name()).Lock)

	for _, c := range []*lock.Client{a, b} { // another owner of the same client is another too
		_, err := c.Mutex(t.Name()).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		var other *lock.HeldError
		require.ErrorAs(t, err, &other)
		require.Equal(t, t.Name(), other.Name)
		require.Greater(t, other.TTL, time.Duration(0))
	}
	require.NoError(t, held.Unlock(ctx))
	held = fixture.Hold(t, b.Mutex(t.Name()).TryLock)
	require.NoError(t, held.Unlock(ctx))
}

func TestReentryByContextNeedsAsManyUnlocks(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.Mutex(t.Name()), bounded.Context(t)

	outer := fixture.Hold(t, mu.Lock)
	inner, err := mu.Lock(outer.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, 2, outer.Count())
	require.Equal(t, outer.Token(), inner.Token())
	counts, err := redis.IntMap(fixture.Do(t, s, "HGETALL", t.Name()), nil)
	require.NoError(t, err)
	require.Len(t, counts, 1)
	for _, n := range counts {
		require.Equal(t, 2, n)
	}

	require.NoError(t, inner.Unlock(ctx))
	require.True(t, outer.Valid())
	require.False(t, inner.Valid())
	_, err = c.Mutex(t.Name()).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorIs(t, inner.Unlock(ctx), lock.ErrNotHeld)
	require.NoError(t, outer.Unlock(ctx))
	require.ErrorIs(t, outer.Unlock(ctx), lock.ErrNotHeld)
	held := fixture.Hold(t, mu.TryLock)
	require.Greater(t, held.Token(), outer.Token())
	require.NoError(t, held.Unlock(ctx))
}

func TestNamedOwnersReenterAndOthersDoNot(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.Mutex(t.Name()), lock.WithOwner(bounded.Context(t), "worker-7")
	first, err := mu.Lock(ctx)
	require.NoError(t, err)
	second, err := mu.TryLock(ctx)
	require.NoError(t, err)
	_, err = mu.TryLock(lock.WithOwner(ctx, "worker-8"))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	_, err = mu.TryLock(lock.WithoutOwner(ctx))
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	_, err = fixture.ClientOf(t, s, lock.Config{}).Mutex(t.Name()).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "an owner lives within one client")
	require.NoError(t, first.Unlock(ctx))
	require.NoError(t, second.Unlock(ctx))
}

func TestLockWaitsForTheHolder(t *testing.T) {
	s := onRedis(t)
	a := fixture.ClientOf(t, s, lock.Config{})
	b := fixture.ClientOf(t, s, lock.Config{MaxPoll: 20 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, a.Mutex(t.Name()).Lock)
	got := make(chan *lock.Held, 1)
	go func() {
		h, err := b.Mutex(t.Name()).Lock(ctx)
		if err == nil {
			got <- h
		}
		close(got)
	}()
	require.NoError(t, held.Unlock(ctx))
	next := bounded.Receive(t, got)
	require.NotNil(t, next)
	require.Greater(t, next.Token(), held.Token())
	require.NoError(t, next.Unlock(ctx))
}

func TestWaitEndedByContextIsItsErrorAndNotAcquired(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 5 * time.Millisecond})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	defer held.Unlock(ctx)

	wait, cancel := context.WithTimeout(ctx, 500*time.Millisecond)
	defer cancel()
	_, err := c.Mutex(t.Name()).Lock(wait)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)

	cause := errors.New("the caller changed its mind")
	ended, stop := context.WithCancelCause(ctx)
	stop(cause)
	_, err = c.Mutex(t.Name()).Lock(ended)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, cause)
	require.NotErrorIs(t, err, lock.ErrNotAcquired, "Redis was not asked")
}

func TestLockIsRenewedPastItsLease(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	first := held.Deadline()
	bounded.Until(t, func() bool {
		require.NoError(t, held.Err())
		return held.Deadline().After(first.Add(2 * time.Second))
	})
	require.NoError(t, held.Unlock(ctx))
}

func TestLossIsToldWithReasonAndEndsTheContext(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	work := held.Context(ctx)
	fixture.Do(t, s, "DEL", t.Name())

	bounded.Receive(t, held.Done())
	bounded.Receive(t, work.Done())
	var lost *lock.LostError
	require.ErrorAs(t, context.Cause(work), &lost)
	require.Equal(t, t.Name(), lost.Name)
	require.Equal(t, lock.NotOwner, lost.Reason)
	require.Equal(t, held.Token(), lost.Token)
	require.ErrorIs(t, held.Err(), lock.ErrLost)
	require.False(t, held.Valid())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
}

func TestUnlockOfADeletedLockIsLost(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "DEL", t.Name())
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

func TestUnlockDoesNotTouchAnothersLock(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	old := fixture.Hold(t, a.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "DEL", t.Name())
	now := fixture.Hold(t, b.Mutex(t.Name()).Lock)
	require.ErrorIs(t, old.Unlock(ctx), lock.ErrLost)
	require.True(t, now.Valid())
	require.NoError(t, now.Unlock(ctx), "it was still there")
}

func TestLockForEndsAfterItsLeaseAndIsTold(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held, err := c.Mutex(t.Name()).LockFor(ctx, 200*time.Millisecond)
	require.NoError(t, err)
	fixture.RequireLost(t, held, lock.Expired)
}

func TestUnlockWorksUnderACancelledContext(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	held, err := c.Mutex(t.Name()).Lock(ctx)
	require.NoError(t, err)
	cancel()
	require.True(t, held.Valid(), "the context bounded the waiting only")
	require.NoError(t, held.Unlock(ctx))
}

func TestScriptsAreLoadedAgainAfterAFlush(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 1500 * time.Millisecond})
	ctx := bounded.Context(t)
	for range 3 {
		fixture.Do(t, s, "SCRIPT", "FLUSH")
		held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
		fixture.Do(t, s, "SCRIPT", "FLUSH")
		before := c.Stats().Renewal.Renewed
		bounded.Until(t, func() bool { return c.Stats().Renewal.Renewed > before || !held.Valid() })
		fixture.Do(t, s, "SCRIPT", "FLUSH")
		require.NoError(t, held.Unlock(ctx))
	}
}

func TestBadInputIsOneClearError(t *testing.T) {
	c, err := lock.New(nil, lock.Config{})
	require.Nil(t, c)
	require.ErrorContains(t, err, "needs a *redis.Pool")
	_, err = lock.New(&redis.Pool{}, lock.Config{})
	require.ErrorContains(t, err, "no Dial")
	dial := func() (redis.Conn, error) { return nil, errors.New("nobody there") }
	_, err = lock.New(&redis.Pool{Dial: dial, MaxActive: 3}, lock.Config{})
	require.ErrorContains(t, err, "MaxActive is 3: the engine needs 5")
	_, err = lock.New(&redis.Pool{Dial: dial}, lock.Config{Lease: time.Millisecond, MaxPoll: -1, Connections: 1000})
	require.ErrorContains(t, err, "Config.Lease is 1ms")
	require.ErrorContains(t, err, "Config.MaxPoll is -1ns")
	require.ErrorContains(t, err, "Config.Connections is 1000")

	c = fixture.Client(t, &redis.Pool{Dial: dial}, lock.Config{})
	_, err = c.Mutex("").Lock(bounded.Context(t))
	require.ErrorContains(t, err, "name is empty")
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 100*time.Millisecond + 1, 31 * 24 * time.Hour} {
		_, err = c.Mutex("x").LockFor(bounded.Context(t), d)
		require.ErrorContains(t, err, "lease is", d)
	}
	_, err = c.Mutex("x").Lock(lock.WithOwner(bounded.Context(t), ""))
	require.ErrorContains(t, err, "owner's name")
	_, err = c.Mutex("x").TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotSent)
	require.ErrorContains(t, err, "nobody there")
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
}

func TestWrongTypeIsRefusedByRedisNotUnknown(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	fixture.Do(t, s, "SET", t.Name(), "a string")
	_, err := c.Mutex(t.Name()).Lock(bounded.Context(t))
	require.ErrorContains(t, err, "WRONGTYPE")
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
}

func TestTokensRiseOverFlushAndExpiry(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx, last := bounded.Context(t), int64(0)
	for i := range 30 {
		held, err := c.Mutex(t.Name()).Lock(ctx)
		require.NoError(t, err)
		require.Greater(t, held.Token(), last)
		last = held.Token()
		require.NoError(t, held.Unlock(ctx))
		if i%10 == 9 {
			fixture.Do(t, s, "DEL", "wheellock_token")
		}
	}
}

func TestUnlockOfAKeyThatSomethingElseHasTakenIsLost(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	fixture.Do(t, s, "SET", t.Name(), "text")
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.Zero(t, c.Stats().Held)
	require.Equal(t, []byte("text"), fixture.Do(t, s, "GET", t.Name()), "it is not ours to delete")
	fixture.Do(t, s, "DEL", t.Name())
}

// TestALeaseShorterThanTheMarginCanBeHad: the margin of a lease is a quarter of it
// at most.
func TestALeaseShorterThanTheMarginCanBeHad(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	const lease = 2 * time.Second // longer than a busy machine needs for an answer
	c := fixture.ClientOf(t, s, lock.Config{Lease: 30 * time.Second, Margin: 5 * time.Second})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	mu := c.Mutex(fixture.KeyOf(t))
	began := time.Now()
	held, err := mu.LockFor(ctx, lease)
	require.NoError(t, err)
	require.False(t, held.Deadline().Before(began.Add(lease*3/4)))
	require.False(t, held.Deadline().After(time.Now().Add(lease*3/4)))
	inner, err := mu.LockFor(held.Context(ctx), lease)
	require.NoError(t, err)
	require.NoError(t, inner.Extend(ctx, lease))
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	held, err = mu.TryLockFor(ctx, lease)
	require.NoError(t, err)
	bounded.Receive(t, held.Done())
	require.True(t, fixture.Exists(t, s, mu.Name()), "it is told before the key is gone")
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.Expired, lost.Reason)
}

func TestALockUnderContentionHasOneHolder(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	counter, turns := 0, 0 // guarded by the lock alone; the race detector watches
	var wg sync.WaitGroup
	for range 4 {
		c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Millisecond})
		for range 4 {
			wg.Go(func() {
				for range 10 {
					held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
					counter++
					require.Equal(t, 1, counter)
					turns++
					counter--
					require.NoError(t, held.Unlock(ctx))
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	require.Equal(t, 160, turns)
}

// TestEveryKindOfMutexSaysHowItIsHeld, in Redis and by the owner of a context.
func TestEveryKindOfMutexSaysHowItIsHeld(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	ctx := bounded.Context(t)
	for kind, mu := range fixture.MutexKinds(c, t.Name()) {
		locked, err := mu.IsLocked(ctx)
		require.NoError(t, err, kind)
		require.False(t, locked, kind)
		ttl, err := mu.TTL(ctx)
		require.NoError(t, err, kind)
		require.Zero(t, ttl, kind)
		require.False(t, mu.HeldBy(ctx), kind)

		held := fixture.Hold(t, mu.Lock)
		again, err := mu.Lock(held.Context(ctx))
		require.NoError(t, err, kind)
		require.True(t, mu.HeldBy(held.Context(ctx)), kind)
		locked, err = mu.IsLocked(ctx)
		require.NoError(t, err, kind)
		require.True(t, locked, kind)
		ttl, err = mu.TTL(ctx)
		require.NoError(t, err, kind)
		require.Greater(t, ttl, lock.DefaultLease/2, kind)
		require.LessOrEqual(t, ttl, lock.DefaultLease, kind)
		info, err := mu.Inspect(ctx)
		require.NoError(t, err, kind)
		require.Equal(t, kind == "writer", info.Writing, kind)
		require.Len(t, info.Holders, 1, kind)
		require.Equal(t, 2, info.Holders[0].Count, kind)
		require.Equal(t, kind == "writer", info.Holders[0].Writing, kind)
		require.Regexp(t, "^"+c.ID()+":[0-9]+:[0-9]+$", info.Holders[0].Field, kind)

		ok, err := mu.ForceUnlock(ctx)
		require.NoError(t, err, kind)
		require.True(t, ok, kind)
		require.ErrorIs(t, again.Unlock(ctx), lock.ErrLost, kind)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost, kind)
	}
}

func TestDoUnlocksWhateverHappens(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
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

func TestATokenCounterAtItsEndIsAnErrorAndOneThatIsNoNumberIsReplaced(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	fixture.Do(t, s, "SET", "wheellock_token", "9007199254740991")
	_, err := c.Mutex("m").Lock(ctx)
	require.ErrorContains(t, err, "past 2^53; set it to the seconds of TIME x 2^20, do not delete it")
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.False(t, fixture.Exists(t, s, "m"))
	for _, counter := range []string{"no number", "-7", "1e300x"} {
		fixture.Do(t, s, "SET", "wheellock_token", counter)
		held := fixture.Hold(t, c.Mutex("m").Lock)
		require.Greater(t, held.Token(), time.Now().Add(-time.Hour).Unix()<<20)
		require.NoError(t, held.Unlock(ctx))
	}
}
