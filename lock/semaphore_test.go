package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
)

func TestASemaphoreIsRedissonsCounter(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	ctx := bounded.Context(t)
	sem := c.Semaphore(key)
	name := "app:" + key
	require.Equal(t, name, sem.Name())
	psc := listener(t, s, "redisson_sc:{"+name+"}")

	n, err := sem.Available(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	ttl, err := sem.TTL(ctx)
	require.NoError(t, err)
	require.Zero(t, ttl, "there is none")
	set, err := sem.TrySet(ctx, 5)
	require.NoError(t, err)
	require.True(t, set)
	requireMessage(t, psc, "5")
	set, err = sem.TrySet(ctx, 9)
	require.NoError(t, err)
	require.False(t, set)
	require.NoError(t, sem.Acquire(ctx, 3))
	require.Equal(t, []byte("2"), fixture.Do(t, s, "GET", name))

	err = sem.TryAcquire(ctx, 3)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	var few *lock.PermitsError
	require.ErrorAs(t, err, &few)
	require.Equal(t, lock.PermitsError{Name: name, Wanted: 3, Free: 2}, *few)

	require.NoError(t, sem.Release(ctx, 1))
	requireMessage(t, psc, "3")
	require.NoError(t, sem.Add(ctx, 4))
	requireMessage(t, psc, "7")
	require.NoError(t, sem.Add(ctx, -9)) // tells nobody
	n, err = sem.Available(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -2, n)
	require.ErrorAs(t, sem.TryAcquire(ctx, 1), &few)
	require.Equal(t, lock.PermitsError{Name: name, Wanted: 1, Free: -2}, *few)
	n, err = sem.Drain(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	require.NoError(t, sem.Release(ctx, 8))
	requireMessage(t, psc, "6")
	n, err = sem.Drain(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 6, n)
	n, err = sem.Available(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
	ttl, err = sem.TTL(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -1, ttl, "there is one")
	require.EqualValues(t, -1, fixture.Do(t, s, "PTTL", name), "Redisson's counter has no TTL")

	// Every request leaves its result beside the counter, for 30 s at most.
	keys := fixture.Keys(t, s, "{"+name+"}:*")
	require.Len(t, keys, 11)
	for _, result := range keys {
		require.Regexp(t, "^{"+name+"}:"+c.ID()+":[0-9]+:wheellock_result$", result)
		ttl := fixture.PTTL(t, s, result)
		require.Positive(t, ttl)
		require.LessOrEqual(t, ttl, int64(30_000))
	}
}

func TestSemaphoreNamesWithBracesDeriveAsRedissonsDo(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	name := "a{" + key + "}b"
	psc := listener(t, s, "redisson_sc:"+name)
	_, err := c.Semaphore(name).TrySet(ctx, 1)
	require.NoError(t, err)
	requireMessage(t, psc, "1")
	keys := fixture.Keys(t, s, name+":"+c.ID()+":*")
	require.Len(t, keys, 1)
	latch := c.CountDownLatch(name + "latch")
	psc = listener(t, s, "redisson_countdownlatch__channel__{"+name+"latch}")
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	requireMessage(t, psc, "1")
}

func TestASemaphoreWaiterIsWokenByRedissonsRelease(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	name := key
	fixture.Do(t, s, "SET", name, 0)
	done := make(chan error, 1)
	go func() { done <- c.Semaphore(name).Acquire(bounded.Context(t), 2) }()
	channel := "redisson_sc:{" + name + "}"
	fixture.AwaitSubscribers(t, s, channel, 1)
	fixture.Do(t, s, "INCRBY", name, 1)
	fixture.Do(t, s, "PUBLISH", channel, 1)
	fixture.Do(t, s, "INCRBY", name, 2)
	fixture.Do(t, s, "PUBLISH", channel, 3)
	require.NoError(t, bounded.Receive(t, done))
	require.Equal(t, []byte("1"), fixture.Do(t, s, "GET", name))
}

func TestSemaphoreWaitersAreServedInOrderAndLargeOnesAreNotStarved(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx := bounded.Context(t)
	sem := c.Semaphore(key)
	var mu sync.Mutex
	var order []int
	var wg sync.WaitGroup
	wants := []int64{1, 5, 1, 3, 1}
	for i, n := range wants {
		wg.Go(func() {
			if err := sem.Acquire(ctx, n); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			order = append(order, i)
		})
		require.Eventually(t, func() bool { return c.Stats().Waiting == i+1 }, time.Minute, 100*time.Microsecond)
	}
	for i, n := range wants {
		for range n { // one by one, so that many would be overtaken by few
			err := sem.TryAcquire(ctx, 1)
			require.ErrorIs(t, err, lock.ErrNotAcquired, "it would pass those who wait")
			require.ErrorContains(t, err, "other calls of this client wait for permits of")
			require.NoError(t, sem.Release(ctx, 1))
		}
		require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return len(order) > i }, time.Minute, 100*time.Microsecond)
	}
	bounded.Wait(t, &wg)
	require.Equal(t, []int{0, 1, 2, 3, 4}, order)
	require.NoError(t, sem.Release(ctx, 1))
	require.Zero(t, c.Stats().Waiting)
}

func TestAThousandSemaphoreWaitersAreNoHerd(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	ctx := bounded.Context(t)
	const waiters = 1000
	name := key
	var clients []*lock.Client
	var wg sync.WaitGroup
	for range 2 {
		c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
		clients = append(clients, c)
		for range waiters / 2 {
			wg.Go(func() {
				sem := c.Semaphore(name)
				if err := sem.Acquire(ctx, 1); err != nil {
					t.Error(err)
				} else if err := sem.Release(ctx, 1); err != nil {
					t.Error(err)
				}
			})
		}
		require.Eventually(t, func() bool { return c.Stats().Waiting == waiters/2 }, time.Minute, time.Millisecond)
	}
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+name+"}", 2)
	_, err := clients[0].Semaphore(name).TrySet(ctx, 3)
	require.NoError(t, err)
	bounded.Wait(t, &wg)
	tries := clients[0].Stats().Tries + clients[1].Stats().Tries
	t.Logf("%d tries for %d acquisitions", tries, waiters)
	// Each acquisition's release is heard by the first waiter of each client,
	// and each new first one may look for itself.
	require.Less(t, tries, uint64(6*waiters))
	n, err := clients[0].Semaphore(name).Available(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 3, n)
}

func TestACancelledSemaphoreWaiterTakesNothing(t *testing.T) {
	t.Parallel()
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	sem := c.Semaphore(key)
	bg := bounded.Context(t)
	ctx, cancel := context.WithCancel(bg)
	left := make(chan error, 10)
	for range cap(left) {
		go func() { left <- sem.Acquire(ctx, 1) }()
	}
	require.Eventually(t, func() bool { return c.Stats().Waiting == cap(left) }, time.Minute, time.Millisecond)
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+key+"}", 1)
	cancel()
	for range cap(left) {
		require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	}
	require.Zero(t, c.Stats().Waiting)
	require.NoError(t, sem.Release(bg, 7))
	require.ErrorIs(t, sem.Acquire(ctx, 1), context.Canceled)
	require.NoError(t, sem.Release(ctx, 1), "a release works under a cancelled context")
	n, err := sem.Available(bg)
	require.NoError(t, err)
	require.EqualValues(t, 8, n)
	fixture.AwaitSubscribers(t, s, "redisson_sc:{"+key+"}", 0)
}

// TestSemaphoreCancelsAreExactAtAnyMoment cancels waits while permits come.
func TestSemaphoreCancelsAreExactAtAnyMoment(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	sem := c.Semaphore(key)
	bg := bounded.Context(t)
	got := int64(0)
	const rounds = 300
	for range rounds {
		ctx, cancel := context.WithCancel(bg)
		left := make(chan error, 1)
		go func() { left <- sem.Acquire(ctx, 1) }()
		go cancel()
		require.NoError(t, sem.Release(bg, 1))
		if err := bounded.Receive(t, left); err == nil {
			got++
		} else {
			require.ErrorIs(t, err, context.Canceled)
		}
	}
	require.Eventually(t, func() bool {
		n, err := sem.Available(bg)
		return err == nil && n == rounds-got
	}, time.Minute, time.Millisecond)
}

// TestNoPermitsAreAlwaysFree: as with Redisson, which answers true, whether the
// semaphore exists or not.
func TestNoPermitsAreAlwaysFree(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	sem := c.Semaphore(key)
	require.NoError(t, sem.Acquire(ctx, 0))
	require.NoError(t, sem.TryAcquire(ctx, 0))
	require.NoError(t, sem.Release(ctx, 0))
	require.False(t, fixture.Exists(t, s, key))
	require.ErrorContains(t, c.Semaphore("").Acquire(ctx, 0), "name is empty")
	require.ErrorContains(t, c.Semaphore("").Release(ctx, 0), "name is empty")
	require.NoError(t, sem.Add(ctx, -1)) // fewer than none are free
	require.NoError(t, sem.Acquire(ctx, 0))
	require.NoError(t, sem.Release(ctx, 0))
	n, err := sem.Available(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -1, n)
}

func TestBadInputOfASemaphoreIsRefused(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	sem := c.Semaphore(key)
	_, err := sem.TrySet(ctx, -1)
	require.ErrorContains(t, err, "permits is -1: it must be from 0")
	_, err = sem.TrySet(ctx, 1<<31)
	require.ErrorContains(t, err, "2147483647")
	for _, n := range []int64{-1, 1 << 31} {
		require.ErrorContains(t, sem.Acquire(ctx, n), "must be from 0")
		require.ErrorContains(t, sem.TryAcquire(ctx, n), "must be from 0")
		require.ErrorContains(t, sem.Release(ctx, n), "must be from 0")
	}
	require.ErrorContains(t, sem.Add(ctx, -1<<63), "permits is")
	require.ErrorContains(t, c.Semaphore("").Acquire(ctx, 1), "name is empty")
	_, err = c.Semaphore("").Available(ctx)
	require.ErrorContains(t, err, "name is empty")
	_, err = c.Semaphore("").Drain(ctx)
	require.ErrorContains(t, err, "name is empty")
	require.ErrorContains(t, c.Semaphore("").Release(ctx, 1), "name is empty")

	require.NoError(t, sem.Add(ctx, 1<<31-1))
	require.ErrorContains(t, sem.Release(ctx, 1), "more than 2147483647 permits")
	n, err := sem.Available(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1<<31-1, n)

	fixture.Do(t, s, "HSET", key+"h", "a", "b")
	fixture.Do(t, s, "SET", key+"s", "bob")
	for _, key := range []string{key + "h", key + "s"} {
		other := c.Semaphore(key)
		_, err = other.Available(ctx)
		require.Error(t, err)
		for _, err := range []error{other.Acquire(ctx, 1), other.Release(ctx, 1), err} {
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
		}
	}
	require.Equal(t, []byte("bob"), fixture.Do(t, s, "GET", key+"s"))
}

func TestCloseWakesSemaphoreWaitersAndLetsPermitsBeReleased(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx := bounded.Context(t)
	left := make(chan error, 2)
	go func() { left <- c.Semaphore(key).Acquire(ctx, 1) }()
	_, err := c.CountDownLatch(key+"latch").TrySet(ctx, 1)
	require.NoError(t, err)
	go func() { left <- c.CountDownLatch(key + "latch").Wait(ctx) }()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 2 }, time.Minute, time.Millisecond)
	require.NoError(t, c.Close(ctx))
	for range 2 {
		require.ErrorIs(t, bounded.Receive(t, left), lock.ErrClosed)
	}
	require.ErrorIs(t, c.Semaphore(key).TryAcquire(ctx, 1), lock.ErrClosed)
	require.ErrorIs(t, c.Semaphore(key).Release(ctx, 1), lock.ErrClosed)
}

func TestSemaphoreWithoutPubSubPolls(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	key := fixture.KeyOf(t)
	s := onRedis(t)
	user := "semnosub"
	fixture.Do(t, s, "ACL", "SETUSER", user, "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	defer fixture.Do(t, s, "ACL", "DELUSER", user)
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername(user), redis.DialPassword("pw"))
	}}
	c := fixture.Client(t, pool, lock.Config{MaxPoll: 20 * time.Millisecond})
	var wg sync.WaitGroup
	for i := range 3 {
		wg.Go(func() {
			if err := c.Semaphore(key).Acquire(bounded.Context(t), 1); err != nil {
				t.Error(i, err)
			}
		})
	}
	require.Eventually(t, func() bool { return c.Stats().Tries > 6 }, time.Minute, time.Millisecond)
	fixture.Do(t, s, "SET", key, 3)
	bounded.Wait(t, &wg)
}

// TestAKeyThatIsNoCounterIsToldAtOnceWhateverItsName: the name stands in the answer of Redis, and it may
// have the word of a state that would pass.
func TestAKeyThatIsNoCounterIsToldAtOnceWhateverItsName(t *testing.T) {
	s := fixture.Server(t)
	c, ctx := fixture.ClientOf(t, s, lock.Config{}), bounded.Context(t)
	for _, word := range []string{"BUSY", "OOM", "ASK", "READONLY", "TRYAGAIN"} {
		name := "jobs:" + word
		fixture.Do(t, s, "SET", name, "many")
		calls := c.Stats().Tries
		for _, err := range []error{
			c.Semaphore(name).TryAcquire(ctx, 1), c.Semaphore(name).Acquire(ctx, 1), c.Semaphore(name).Release(ctx, 1), c.CountDownLatch(name).CountDown(ctx),
		} {
			require.ErrorIs(t, err, lock.ErrNotALock)
			require.NotErrorIs(t, err, lock.ErrUnknown)
		}
		require.Equal(t, calls+2, c.Stats().Tries, "none is sent again")
	}
}

// TestTryAcquireAsksOnce: a caller that does not wait is told at once that Redis is gone, and by
// then may have nothing.
func TestTryAcquireAsksOnce(t *testing.T) {
	fixture.Bubble(t, lock.Config{}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
		ctx := context.Background()
		sem := c.Semaphore("s")
		_, err := sem.TrySet(ctx, 3)
		require.NoError(t, err)
		require.NoError(t, s.Pause())
		began := time.Now()
		require.ErrorIs(t, sem.TryAcquire(ctx, 1), lock.ErrUnknown)
		require.Less(t, time.Since(began), 3*time.Second)
		require.NoError(t, s.Resume())
		time.Sleep(time.Minute)
		n, err := sem.Available(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 3, n, "what it took was given back")
	})
	synctest.Test(t, func(t *testing.T) {
		pool := &redis.Pool{DialContext: func(context.Context) (redis.Conn, error) { return nil, errors.New("refused") }}
		c := fixture.Client(t, pool, lock.Config{})
		require.ErrorIs(t, c.Semaphore("s").TryAcquire(context.Background(), 1), lock.ErrNotSent)
	})
}

// TestFailFastIsForThoseWhoWait: a Release whose answer was lost is sent again.
func TestFailFastIsForThoseWhoWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		wire := fixture.NewWire(fixture.Virtual(t))
		c := fixture.Client(t, wire.Pool(), lock.Config{FailFast: true})
		sem := c.Semaphore("s")
		for i, change := range []func() error{
			func() error { _, err := sem.TrySet(ctx, 3); return err },
			func() error { return sem.Release(ctx, 1) },
			func() error { _, err := sem.Drain(ctx); return err },
		} {
			wire.LoseAnswer()
			require.NoError(t, change(), i)
		}
		wire.LoseAnswer()
		require.ErrorIs(t, sem.Acquire(ctx, 1), lock.ErrUnknown)
	})
}

// TestARequestThatIsTooOldToBeSentAgainSaysSo: UnlockTimeout and a context may end later. Nothing is sent afterwards,
// except what gives permits back.
func TestARequestThatIsTooOldToBeSentAgainSaysSo(t *testing.T) {
	const stopped = "the client has stopped trying, so look whether it was done before you try again"
	for what, call := range map[string]func(ctx context.Context, c *lock.Client) error{
		"release":    func(ctx context.Context, c *lock.Client) error { return c.Semaphore("s").Release(ctx, 1) },
		"count down": func(ctx context.Context, c *lock.Client) error { return c.CountDownLatch("l").CountDown(ctx) },
		"acquire":    func(ctx context.Context, c *lock.Client) error { return c.Semaphore("s").Acquire(ctx, 1) },
		"drain":      func(ctx context.Context, c *lock.Client) error { _, err := c.Semaphore("s").Drain(ctx); return err },
	} {
		for _, limit := range []time.Duration{10 * time.Second, 20 * time.Second, time.Minute} {
			t.Run(fmt.Sprint(what, " for ", limit), func(t *testing.T) {
				fixture.Bubble(t, lock.Config{UnlockTimeout: limit}, func(t *testing.T, s *redistest.Server, c, _ *lock.Client) {
					ctx, cancel := context.WithTimeout(t.Context(), limit)
					defer cancel()
					_, err := c.Semaphore("s").TrySet(ctx, 3)
					require.NoError(t, err)
					_, err = c.CountDownLatch("l").TrySet(ctx, 3)
					require.NoError(t, err)
					require.NoError(t, s.Pause())
					began := time.Now()
					err = call(ctx, c)
					took := time.Since(began)
					require.ErrorIs(t, err, lock.ErrUnknown)
					require.Contains(t, err.Error(), "no answer in time")
					require.Equal(t, limit < 20*time.Second, took < 20*time.Second, took)
					require.Equal(t, limit >= 20*time.Second, strings.HasSuffix(err.Error(), ": "+stopped), err)
					if began = time.Now(); limit >= 20*time.Second && what != "acquire" && what != "drain" {
						require.NoError(t, c.Close(t.Context()))
						require.Zero(t, time.Since(began), "nothing is sent that Close waits for")
					}
					require.NoError(t, s.Resume())
				})
			})
		}
	}
}

// TestARequestIsNotSentAgainAfterASuspension of the machine, in which Redis may have forgotten its result.
func TestARequestIsNotSentAgainAfterASuspension(t *testing.T) {
	now := time.Now()
	require.False(t, lock.IsTooOld(time.Time{}))
	require.False(t, lock.IsTooOld(now))
	require.False(t, lock.IsTooOld(bounded.BeforeSuspension(now, 10)))
	require.True(t, lock.IsTooOld(bounded.BeforeSuspension(now, 21)))
	require.True(t, lock.IsTooOld(now.Add(-21*time.Second)))
}
