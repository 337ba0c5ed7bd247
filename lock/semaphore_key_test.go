package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// ending is what both semaphores share with Redisson's RExpirable.
type ending interface {
	Name() string
	TrySet(context.Context, int64) (bool, error)
	Delete(context.Context) (bool, error)
	Expire(context.Context, time.Duration) (bool, error)
	TTL(context.Context) (time.Duration, error)
}

func semaphores(c *lock.Client, name string) map[string]ending {
	return map[string]ending{"Semaphore": c.Semaphore(name), "PermitSemaphore": c.PermitSemaphore(name)}
}

func TestADeletedSemaphoreIsGoneAndCanBeSetAgain(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	ctx := context.Background()
	for kind := range semaphores(c, "") {
		t.Run(kind, func(t *testing.T) {
			sem := semaphores(c, fixture.KeyOf(t))[kind]
			taken := "{" + sem.Name() + "}:timeout"
			done, err := sem.Delete(ctx)
			require.NoError(t, err)
			require.False(t, done, "there is none")
			_, err = sem.TrySet(ctx, 3)
			require.NoError(t, err)
			_, member := javaID(1)
			fixture.Do(t, s, "ZADD", taken, javaNever, member)
			psc := listener(t, s, "redisson_sc:{"+sem.Name()+"}")
			done, err = sem.Delete(ctx)
			require.NoError(t, err)
			require.True(t, done)
			require.False(t, fixture.Exists(t, s, sem.Name()))
			require.Equal(t, kind == "Semaphore", fixture.Exists(t, s, taken), "a Semaphore has no business there")
			done, err = sem.TrySet(ctx, 2)
			require.NoError(t, err)
			require.True(t, done)
			requireMessage(t, psc, "2") // the deletion published nothing
			fixture.Do(t, s, "DEL", sem.Name())
			fixture.Do(t, s, "ZADD", taken, javaNever, member)
			done, err = sem.Delete(ctx)
			require.NoError(t, err)
			require.Equal(t, kind != "Semaphore", done, "its permits alone are one too")
		})
	}
}

// TestASemaphoreIsDeletedUnderItsWaiters: the deletion does not wake them, and the next
// SetPermits serves them.
func TestASemaphoreIsDeletedUnderItsWaiters(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key, ctx := fixture.KeyOf(t), context.Background()
	_, err := a.Semaphore(key).TrySet(ctx, 1)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() { got <- b.Semaphore(key).Acquire(ctx, 2) }()
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+key+"}", 1)
	// b has tried again after its subscription was confirmed. Redis keeps a result of each try.
	require.Eventually(t, func() bool { return len(fixture.Keys(t, s, "{"+key+"}:"+b.ID()+":*")) >= 2 }, time.Minute, time.Millisecond)
	tries := b.Stats().Tries
	done, err := a.Semaphore(key).Delete(ctx)
	require.NoError(t, err)
	require.True(t, done)
	done, err = a.Semaphore(key).TrySet(ctx, 2)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, <-got)
	require.Equal(t, tries+1, b.Stats().Tries, "woken once, and not by the deletion")
}

// TestPermitsOfADeletedSemaphoreAreLost, and their Unlock adds no permit to a semaphore that was set
// again under the name.
func TestPermitsOfADeletedSemaphoreAreLost(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	key, ctx := fixture.KeyOf(t), context.Background()
	sem := c.PermitSemaphore(key)
	require.NoError(t, sem.Set(ctx, 3))
	held, err := sem.Acquire(ctx, 2)
	require.NoError(t, err)
	done, err := fixture.ClientOf(t, s, lock.Config{}).PermitSemaphore(key).Delete(ctx)
	require.NoError(t, err)
	require.True(t, done)
	set, err := sem.TrySet(ctx, 7)
	require.NoError(t, err)
	require.True(t, set)
	<-held.Done()
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.NotOwner, lost.Reason)
	requireGone(t, sem.Release(ctx, held.Permits()...), held.Permits()...)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	requirePermits(t, sem, 7, 0)
}

func TestASemaphoreEndsByItselfWithAllThatBelongsToIt(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		v := startVirtualFair(t)
		c := v.client(lock.Config{})
		ctx := context.Background()
		ttlIs := func(want time.Duration, sem ending) {
			t.Helper()
			left, err := sem.TTL(ctx)
			require.NoError(t, err)
			require.Equal(t, want, left)
		}
		for _, kind := range []string{"Semaphore", "PermitSemaphore"} {
			sem := semaphores(c, kind)[kind]
			ttlIs(0, sem)
			done, err := sem.Expire(ctx, time.Minute)
			require.NoError(t, err)
			require.False(t, done, "there is none")
			_, err = sem.TrySet(ctx, 3)
			require.NoError(t, err)
			ttlIs(-1, sem)
			var before, after *lock.Held
			if kind == "PermitSemaphore" {
				before, err = c.PermitSemaphore(kind).Acquire(ctx, 1)
				require.NoError(t, err)
			}
			for _, d := range []time.Duration{time.Hour, time.Minute, 250 * 365 * 24 * time.Hour, 20 * time.Minute} {
				done, err = sem.Expire(ctx, d)
				require.NoError(t, err)
				require.True(t, done)
				ttlIs(d, sem)
			}
			time.Sleep(time.Minute)
			ttlIs(19*time.Minute, sem)
			if kind == "PermitSemaphore" {
				require.EqualValues(t, (19 * time.Minute).Milliseconds(), v.do("PTTL", "{PermitSemaphore}:timeout"))
				require.NoError(t, before.Unlock(ctx)) // so the set of them is made anew
				after, err = c.PermitSemaphore(kind).Acquire(ctx, 2)
				require.NoError(t, err)
				require.EqualValues(t, (19 * time.Minute).Milliseconds(), v.do("PTTL", "{PermitSemaphore}:timeout"))
			} else {
				require.NoError(t, c.Semaphore(kind).Acquire(ctx, 1))
				require.NoError(t, c.Semaphore(kind).Release(ctx, 2))
				ttlIs(19*time.Minute, sem)
			}
			time.Sleep(19*time.Minute - time.Millisecond)
			ttlIs(time.Millisecond, sem)
			require.True(t, after == nil || after.Valid())
			time.Sleep(time.Millisecond)
			ttlIs(0, sem)
			if after != nil {
				<-after.Done()
				var lost *lock.LostError
				require.ErrorAs(t, after.Err(), &lost)
				require.Equal(t, lock.NotOwner, lost.Reason)
				require.ErrorIs(t, after.Unlock(ctx), lock.ErrLost)
				ttlIs(0, sem)
			}
		}
	})
}

func TestPermitsAreReleasedIfTheSemaphoreExists(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem, ctx := c.Semaphore(fixture.KeyOf(t)), context.Background()
	release := func(n int64, want bool) {
		t.Helper()
		done, err := sem.ReleaseIfExists(ctx, n)
		require.NoError(t, err)
		require.Equal(t, want, done)
	}
	release(1, false)
	release(0, false)
	require.False(t, fixture.Exists(t, s, sem.Name()))
	_, err := sem.TrySet(ctx, 0)
	require.NoError(t, err)
	psc := listener(t, s, "redisson_sc:{"+sem.Name()+"}")
	release(0, true)
	release(2, true)
	requireMessage(t, psc, "2") // a release of 0 permits publishes nothing
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", sem.Name()))
	ended, cancel := context.WithCancel(ctx)
	cancel()
	done, err := sem.ReleaseIfExists(ended, 1)
	require.NoError(t, err)
	require.True(t, done)
	require.NoError(t, sem.Add(ctx, 1<<31-4))
	for range 2 {
		_, err = sem.ReleaseIfExists(ctx, 1)
		require.ErrorContains(t, err, "there would be more than 2147483647 permits")
	}
	_, err = sem.Delete(ctx)
	require.NoError(t, err)
	release(1, false)
	require.False(t, fixture.Exists(t, s, sem.Name()))
}

func TestBadInputOfTheKeyOfASemaphoreIsRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), context.Background()
	ended, cancel := context.WithCancel(ctx)
	cancel()
	for kind, sem := range semaphores(c, key) {
		for _, d := range []time.Duration{0, -time.Second, time.Microsecond, time.Second + 1} {
			_, err := sem.Expire(ctx, d)
			require.ErrorContains(t, err, "it must be whole milliseconds")
		}
		unnamed := semaphores(c, "")[kind]
		_, err1 := unnamed.Delete(ctx)
		_, err2 := unnamed.Expire(ctx, time.Second)
		_, err3 := unnamed.TTL(ctx)
		for _, err := range []error{err1, err2, err3} {
			require.ErrorContains(t, err, "name is empty")
		}
		_, err1 = sem.Delete(ended)
		_, err2 = sem.Expire(ended, time.Second)
		for _, err := range []error{err1, err2} {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	for _, n := range []int64{-1, 1 << 31} {
		_, err := c.Semaphore(key).ReleaseIfExists(ctx, n)
		require.ErrorContains(t, err, "must be from 0")
	}
	_, err := c.Semaphore("").ReleaseIfExists(ctx, 1)
	require.ErrorContains(t, err, "name is empty")

	// Keys that are no semaphore stay as they are.
	for i, at := range [][2][]any{
		{{"HSET", "a", 1}, nil},
		{{"SET", "bob"}, nil},
		{{"SET", "1"}, {"HSET", "a", 1}},
	} {
		key := fixture.KeyOf(t)
		var before []any
		for n, key := range []string{key, "{" + key + "}:timeout"} {
			if at[n] != nil {
				fixture.Do(t, s, at[n][0].(string), append([]any{key}, at[n][1:]...)...)
			}
			before = append(before, fixture.Do(t, s, "DUMP", key), fixture.Do(t, s, "PTTL", key))
		}
		kinds := semaphores(c, key)
		if i == 2 {
			delete(kinds, "Semaphore")
		}
		for _, sem := range kinds {
			_, err1 := sem.Delete(ctx)
			_, err2 := sem.Expire(ctx, time.Hour)
			errs := []error{err1, err2}
			if i != 2 {
				_, err := sem.TTL(ctx)
				errs = append(errs, err)
				_, err = c.Semaphore(key).ReleaseIfExists(ctx, 1)
				errs = append(errs, err)
			}
			for _, err := range errs {
				require.Error(t, err)
				require.NotErrorIs(t, err, lock.ErrUnknown)
				require.ErrorIs(t, err, lock.ErrNotALock)
			}
		}
		var after []any
		for _, key := range []string{key, "{" + key + "}:timeout"} {
			after = append(after, fixture.Do(t, s, "DUMP", key), fixture.Do(t, s, "PTTL", key))
		}
		require.Equal(t, before, after)
	}

	require.NoError(t, c.Close(ctx))
	for _, sem := range semaphores(c, key) {
		_, err1 := sem.Delete(ctx)
		_, err2 := sem.Expire(ctx, time.Second)
		_, err3 := sem.TTL(ctx)
		_, err4 := c.Semaphore(key).ReleaseIfExists(ctx, 1)
		for _, err := range []error{err1, err2, err3, err4} {
			require.ErrorIs(t, err, lock.ErrClosed)
		}
	}
}

// TestADeletedSemaphoreIsNotMadeByWhatIsUndone: the answer of a taking is lost, its
// caller leaves, and before the taking is undone the semaphore is deleted.
func TestADeletedSemaphoreIsNotMadeByWhatIsUndone(t *testing.T) {
	s := onRedis(t)
	p := fixture.Stall(t, s)
	c := fixture.ClientOver(t, p, lock.Config{})
	bystander := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), context.Background()
	_, err := bystander.Semaphore(key).TrySet(ctx, 5)
	require.NoError(t, err)
	p.HoldBack("semaphore_take", "semaphore_undo")
	wait, cancel := context.WithCancel(ctx)
	left := make(chan error, 1)
	go func() { left <- c.Semaphore(key).Acquire(wait, 3) }()
	fixture.AwaitArrived(t, p, "semaphore_take", 1)
	cancel()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	p.LetThrough("semaphore_take")
	fixture.AwaitArrived(t, p, "semaphore_undo", 1)
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", key))
	_, err = bystander.Semaphore(key).Delete(ctx)
	require.NoError(t, err)
	p.LetThrough()
	bounded.Until(t, p.HasSettled)
	require.False(t, fixture.Exists(t, s, key))
}

// TestADeletionInALongOutageTakesEffectOnce.
func TestADeletionInALongOutageTakesEffectOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		for _, kind := range []string{"Semaphore", "PermitSemaphore"} {
			sem := semaphores(c, kind)[kind]
			_, err = sem.TrySet(ctx, 5)
			require.NoError(t, err)
			require.NoError(t, s.Pause())
			_, err = sem.Delete(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
			_, err = sem.TTL(ctx)
			require.ErrorIs(t, err, lock.ErrUnknown)
			time.Sleep(10 * time.Second)
			require.NoError(t, s.Resume())
			time.Sleep(5 * time.Second)
			left, err := sem.TTL(ctx)
			require.NoError(t, err)
			require.Zero(t, left)
			set, err := sem.TrySet(ctx, 6)
			require.NoError(t, err)
			require.True(t, set)
			time.Sleep(time.Hour)
			left, err = sem.TTL(ctx)
			require.NoError(t, err)
			require.EqualValues(t, -1, left)
		}
		require.NoError(t, c.Close(ctx))
	})
}
