package lock_test

import (
	"context"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/script"
)

func TestPermitsAreRedissonsCounterAndSortedSet(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), bounded.Context(t)
	key := sem.Name()
	psc := listener(t, s, "redisson_sc:{"+key+"}")
	set, err := sem.TrySet(ctx, 5)
	require.NoError(t, err)
	require.True(t, set)
	requireMessage(t, psc, "5")
	before := time.Now().UnixMilli()
	held, err := sem.Acquire(ctx, 3)
	require.NoError(t, err)
	require.Zero(t, held.Token())
	require.Equal(t, key, held.Name())
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", key))
	taken, err := redis.StringMap(fixture.Do(t, s, "ZRANGE", "{"+key+"}:timeout", 0, -1, "WITHSCORES"), nil)
	require.NoError(t, err)
	require.Len(t, taken, 3)
	require.Len(t, held.Permits(), 3)
	for _, id := range held.Permits() {
		raw, err := hex.DecodeString(id)
		require.NoError(t, err)
		require.Len(t, raw, 16)
		var score int64
		_, err = fmt.Sscan(taken[string(raw)], &score)
		require.NoError(t, err)
		require.GreaterOrEqual(t, score, before+30_000)
		require.LessOrEqual(t, score, time.Now().UnixMilli()+30_000)
	}
	_, err = sem.TryAcquire(ctx, 3)
	var few *lock.PermitsError
	require.ErrorAs(t, err, &few)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.EqualValues(t, 2, few.Free)
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Available: 2, Taken: 3}, info)
	require.Equal(t, 1, c.Stats().Held)

	require.NoError(t, sem.Set(ctx, 7)) // two more
	requireMessage(t, psc, "4")
	rest, n, err := sem.Drain(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 4, n)
	require.Len(t, rest.Permits(), 4)
	_, _, err = sem.Drain(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, sem.Set(ctx, 5)) // two less than are taken
	info, err = sem.Inspect(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -2, info.Available)
	require.NoError(t, rest.Unlock(ctx))
	require.ErrorIs(t, rest.Unlock(ctx), lock.ErrNotHeld)
	requireMessage(t, psc, "2")
	require.NoError(t, held.Unlock(ctx))
	requireMessage(t, psc, "5")
	require.NoError(t, sem.Add(ctx, 1))
	requireMessage(t, psc, "6")
	require.False(t, fixture.Exists(t, s, "{"+key+"}:timeout"))
	require.Zero(t, c.Stats().Held)
}

// TestADrainOfNoFreePermitWantsOne: fewer than the most that it takes are enough.
func TestADrainOfNoFreePermitWantsOne(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, _ *redistest.Server, c, other *lock.Client) {
		sem := c.PermitSemaphore("s")
		require.NoError(t, sem.Set(t.Context(), 2))
		all, n, err := other.PermitSemaphore("s").Drain(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 2, n)
		var few *lock.PermitsError
		_, _, err = sem.Drain(t.Context())
		require.ErrorAs(t, err, &few)
		require.Equal(t, lock.PermitsError{Name: "s", Wanted: 1}, *few)
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error)
		go func() {
			_, err := sem.Acquire(ctx, 2)
			left <- err
		}()
		synctest.Wait()
		_, _, err = sem.Drain(t.Context())
		require.ErrorAs(t, err, &few)
		require.Equal(t, lock.PermitsError{Name: "s", Wanted: 1, OthersWait: true}, *few)
		cancel()
		err = <-left
		require.ErrorAs(t, err, &few)
		require.Equal(t, lock.PermitsError{Name: "s", Wanted: 2}, *few)
		require.NoError(t, all.Unlock(t.Context()))
	})
}

func TestPermitsAreRenewedAndThoseOfTheDeadComeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		ctx, cancel := context.WithCancel(context.Background())
		dead, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		_, err = dead.PermitSemaphore("s").TrySet(ctx, 4)
		require.NoError(t, err)
		lost, err := dead.PermitSemaphore("s").Acquire(ctx, 2)
		require.NoError(t, err)
		held, err := c.PermitSemaphore("s").Acquire(ctx, 1)
		require.NoError(t, err)
		time.Sleep(10 * time.Minute) // twenty leases
		require.True(t, lost.Valid())
		require.True(t, held.Valid())
		info, err := c.PermitSemaphore("s").Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, lock.PermitInfo{Exists: true, Available: 1, Taken: 3}, info)
		cancel()
		require.Error(t, dead.Close(ctx)) // its holder is gone, its permits are not
		start := time.Now()
		more, err := c.PermitSemaphore("s").Acquire(context.Background(), 3)
		require.NoError(t, err)
		require.Greater(t, time.Since(start), 15*time.Second)
		require.LessOrEqual(t, time.Since(start), 31*time.Second, "it waits for the permits' end, no longer")
		require.NoError(t, more.Unlock(context.Background()))
		require.NoError(t, held.Unlock(context.Background()))
		info, err = c.PermitSemaphore("s").Inspect(context.Background())
		require.NoError(t, err)
		require.EqualValues(t, 4, info.Available)
		require.NoError(t, c.Close(context.Background()))
	})
}

func TestRedissonAndWeShareThePermits(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second, MaxPoll: time.Hour})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), bounded.Context(t)
	taken, channel := "{"+sem.Name()+"}:timeout", "redisson_sc:{"+sem.Name()+"}"
	fixture.Do(t, s, "SET", sem.Name(), 2)
	// Java takes one for a second, and one for ever.
	fixture.Do(t, s, "DECRBY", sem.Name(), 2)
	fixture.Do(t, s, "ZADD", taken, time.Now().Add(300*time.Millisecond).UnixMilli(), "java-permit-0001", javaNever, "java-permit-0002")
	held, err := sem.Acquire(ctx, 1) // no message wakes it, but it knows when the first permit ends
	require.NoError(t, err)
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Available: 0, Taken: 2}, info)
	// Java looks for permits whose lease has ended. It finds none of ours, because ours are renewed.
	before := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool {
		over := fixture.Strings(t, s, "ZRANGEBYSCORE", taken, 0, time.Now().UnixMilli())
		require.Empty(t, over)
		return c.Stats().Renewal.Renewed >= before+4
	}, time.Minute, time.Millisecond)
	got := make(chan *lock.Held)
	go func() {
		held, err := sem.Acquire(ctx, 1)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	fixture.AwaitSubscribers(t, s, channel, 1)
	fixture.Do(t, s, "ZREM", taken, "java-permit-0002") // Java's release
	fixture.Do(t, s, "INCRBY", sem.Name(), 1)
	fixture.Do(t, s, "PUBLISH", channel, 1)
	second := bounded.Receive(t, got)
	// Java releases ours by its id.
	raw, err := hex.DecodeString(held.Permits()[0])
	require.NoError(t, err)
	require.EqualValues(t, 1, fixture.Do(t, s, "ZREM", taken, raw))
	fixture.Do(t, s, "INCRBY", sem.Name(), 1)
	fixture.RequireLost(t, held, lock.NotOwner)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
	require.NoError(t, second.Unlock(ctx))
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", sem.Name()))
}

func TestAPermitLeaseEndsAndCanBeExtended(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem, ctx := c.PermitSemaphore(fixture.KeyOf(t)), bounded.Context(t)
	require.NoError(t, sem.Set(ctx, 2))
	held, err := sem.AcquireFor(ctx, 2, 200*time.Millisecond)
	require.NoError(t, err)
	_, err = held.Guard(ctx, "GET", []string{sem.Name()})
	require.ErrorContains(t, err, "not available for permits")
	work := held.Context(lock.WithOwner(ctx, "mine"))
	require.NoError(t, c.Mutex(sem.Name()+"lock").Do(work, func(ctx context.Context, _ *lock.Held) error {
		require.True(t, c.Mutex(sem.Name()+"lock").HeldBy(lock.WithOwner(ctx, "mine")), "permits are no owner")
		return nil
	}))
	bounded.Receive(t, held.Done())
	require.ErrorIs(t, held.Err(), lock.ErrLost)
	bounded.Receive(t, work.Done())
	require.ErrorIs(t, context.Cause(work), lock.ErrLost)
	wait, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	again, err := sem.AcquireFor(wait, 2, time.Second)
	require.NoError(t, err)
	require.NoError(t, again.Extend(ctx, time.Hour))
	long := again.Deadline()
	require.Greater(t, time.Until(long), 50*time.Minute)
	require.NoError(t, again.Extend(ctx, time.Second))
	require.Equal(t, long, again.Deadline())
	scores := fixture.Strings(t, s, "ZRANGEBYSCORE", "{"+sem.Name()+"}:timeout", time.Now().Add(50*time.Minute).UnixMilli(), "+inf")
	require.Len(t, scores, 2)
	fixture.Do(t, s, "ZREM", "{"+sem.Name()+"}:timeout", scores[0])
	require.ErrorIs(t, again.Extend(ctx, time.Hour), lock.ErrLost)
	require.ErrorIs(t, again.Unlock(ctx), lock.ErrLost)
	fixture.AwaitGone(t, s, "{"+sem.Name()+"}:timeout")
}

func TestPermitWaitersAreServedInOrderAndCancelTakesNothing(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}), fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	require.NoError(t, a.PermitSemaphore(key).Set(ctx, 3))
	all, _, err := a.PermitSemaphore(key).Drain(ctx)
	require.NoError(t, err)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	for i, n := range []int64{3, 1, 2} {
		wg.Go(func() {
			held, err := b.PermitSemaphore(key).Acquire(ctx, n)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
			if err := held.Unlock(ctx); err != nil {
				t.Error(err)
			}
		})
		require.Eventually(t, func() bool { return b.Stats().Waiting == i+1 }, time.Minute, 100*time.Microsecond)
	}
	ended, cancel := context.WithCancel(ctx)
	left := make(chan error)
	go func() {
		_, err := b.PermitSemaphore(key).Acquire(ended, 1)
		left <- err
	}()
	require.Eventually(t, func() bool { return b.Stats().Waiting == 4 }, time.Minute, 100*time.Microsecond)
	_, err = b.PermitSemaphore(key).TryAcquire(ctx, 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	cancel()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+key+"}", 1)
	require.NoError(t, all.Unlock(ctx))
	bounded.Wait(t, &wg)
	require.Equal(t, 0, order[0], "three at once are not passed by one")
	info, err := a.PermitSemaphore(key).Inspect(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, info.Available)
}

func TestBadInputOfAPermitSemaphoreIsRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	sem := c.PermitSemaphore(key)
	for _, n := range []int64{-1, 0, 1001} {
		_, err := sem.Acquire(ctx, n)
		require.ErrorContains(t, err, "it must be from 1 to 1000")
	}
	_, err := sem.AcquireFor(ctx, 0, time.Microsecond)
	require.ErrorContains(t, err, "is 0: it must be from 1 to")
	require.ErrorContains(t, err, "it must be whole milliseconds")
	require.ErrorContains(t, sem.Set(ctx, -1), "is -1: it must be from 0 to")
	_, err = c.PermitSemaphore("").TryAcquire(ctx, 1)
	require.ErrorContains(t, err, "name is empty")
	_, err = c.PermitSemaphore("").Inspect(ctx)
	require.ErrorContains(t, err, "name is empty")
	_, err = sem.TryAcquire(ctx, 1)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "it was never set")
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{}, info)
	fixture.Do(t, s, "SET", key+"s", "bob")
	fixture.Do(t, s, "HSET", key+"h", "a", "b")
	for _, name := range []string{key + "s", key + "h"} {
		_, err = c.PermitSemaphore(name).Acquire(ctx, 1)
		require.Error(t, err)
		require.NotErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	}
}

// TestHoldsOfManyPermitsHarmNoOtherLock: a hold of a thousand permits is a thousand members
// of a sorted set, and all of them are renewed.
func TestHoldsOfManyPermitsHarmNoOtherLock(t *testing.T) {
	fixture.SkipSlow(t)
	n := 200
	if fixture.IsBrief() {
		n = 50
	}
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	other := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	locks := fixture.LockAll(t, other, fixture.Names("other", 200))
	c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second})
	sem := c.PermitSemaphore(t.Name())
	require.NoError(t, sem.Set(ctx, int64(n)*1000))
	helds := make([]*lock.Held, n)
	for i := range helds {
		held, err := sem.Acquire(ctx, 1000)
		require.NoError(t, err, i)
		helds[i] = held
	}
	fixture.AwaitRenewed(t, c, 2*n)
	require.Empty(t, other.Stats().Renewal.Lost)
	require.Empty(t, c.Stats().Renewal.Lost)
	for name, held := range locks {
		require.True(t, held.Valid(), name)
	}
	info, err := sem.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.PermitInfo{Exists: true, Taken: int64(n) * 1000}, info)
	for _, held := range helds {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
}

// TestAPermitsHolderIsToldFirstWhateverTheClocksShow: the deadlines are times of day,
// but the server's, also if the request of another client has no time limit.
func TestAPermitsHolderIsToldFirstWhateverTheClocksShow(t *testing.T) {
	fixture.SkipSlow(t)
	const margin = 25 * time.Millisecond // of a lease of 1 s
	for _, ahead := range []time.Duration{-time.Hour, 0, 15 * time.Millisecond, 100 * time.Millisecond, time.Second} {
		for _, limited := range []bool{true, false} {
			t.Run(fmt.Sprintf("ahead=%v limited=%v", ahead, limited), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					v := startVirtualFair(t)
					c := v.client(lock.Config{})
					sem := c.PermitSemaphore("p")
					_, err := sem.TrySet(context.Background(), 1)
					require.NoError(t, err)
					held, err := sem.AcquireFor(context.Background(), 1, time.Second)
					require.NoError(t, err)
					begin := time.Now()
					require.Equal(t, begin.Add(time.Second-margin), held.Deadline())
					// Another client, whose clock is ahead, wants it all the time.
					for told := false; ; time.Sleep(time.Millisecond) {
						synctest.Wait()
						if held.Err() != nil {
							told = true
						}
						now, limit := time.Now().Add(ahead).UnixMilli(), int64(0)
						if limited {
							limit = time.Now().Add(time.Second).UnixMilli()
						}
						answer := v.do("EVAL", script.PermitTake.Text(), 2, "p", "{p}:timeout",
							"another-one!", 1, 0, now+1000, now, "redisson_sc:{p}", "publish", limit).([]any)
						if answer[0] == int64(1) {
							require.True(t, told, "after %v", time.Since(begin))
							require.Less(t, time.Since(begin), 1100*time.Millisecond, "and nobody waits for longer")
							return
						}
					}
				})
			})
		}
	}
}
