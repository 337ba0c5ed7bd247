package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// atOnce runs the commands as a script of Redisson does: a waiter of ours, which
// asks all the time, meets none of the states between them.
func atOnce(t *testing.T, s *redistest.Server, commands ...[]any) {
	c, err := s.Dial()
	require.NoError(t, err)
	defer c.Close()
	require.NoError(t, c.Send("MULTI"))
	for _, words := range commands {
		require.NoError(t, c.Send(words[0].(string), words[1:]...))
	}
	fixture.DoOn(t, c, "EXEC")
}

// fairWaiter locks and tells its number, in a goroutine, and returns when it
// stands in the queue as the n-th.
func fairWaiter(t *testing.T, s *redistest.Server, c *lock.Client, key string, n int, wg *sync.WaitGroup, turn func()) {
	t.Helper()
	wg.Go(func() {
		held, err := c.FairMutex(key).Lock(bounded.Context(t))
		if err != nil {
			t.Error(err)
			return
		}
		turn()
		if err := held.Unlock(bounded.Context(t)); err != nil {
			t.Error(err)
		}
	})
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) >= n }, time.Minute, 200*time.Microsecond)
}

func TestAFairMutexServesInTheOrderOfArrivalAcrossClients(t *testing.T) {
	s := onRedis(t)
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	var clients []*lock.Client
	for range 3 {
		clients = append(clients, fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}))
	}
	held := fixture.Hold(t, clients[0].FairMutex(key).Lock)
	queue, scores, signs, channel := fairKeys(key)
	require.False(t, fixture.Exists(t, s, queue))
	before := float64(time.Now().UnixMilli())
	var order []int // guarded by the lock
	var wg sync.WaitGroup
	const waiters = 30
	for i := range waiters {
		fairWaiter(t, s, clients[i%3], key, i+1, &wg, func() { order = append(order, i) })
	}
	fields := queueOf(t, s, key)
	for i, field := range fields {
		require.Regexp(t, "^"+clients[i%3].ID()+":[0-9]+:[0-9]+$", field)
		score := scoreOf(t, s, key, field) - before
		require.InDelta(t, 11_000, score, 60_000, "Redisson waits some seconds for each, if it dies")
	}
	_, err := clients[1].FairMutex(key).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.Equal(t, fields, queueOf(t, s, key), "who only tries does not queue")
	for _, k := range []string{queue, scores, signs} {
		require.Positive(t, fixture.PTTL(t, s, k), "a queue of the dead ends by itself")
	}
	require.Equal(t, waiters, clients[0].Stats().Waiting+clients[1].Stats().Waiting+clients[2].Stats().Waiting)
	for _, field := range fields {
		fixture.AwaitSubscribers(t, s, channel+":"+field, 1)
	}
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, &wg)
	want := make([]int, waiters)
	for i := range want {
		want[i] = i
	}
	require.Equal(t, want, order)
	require.Empty(t, fixture.Do(t, s, "KEYS", "*{"+key+"}*"))
	require.False(t, fixture.Exists(t, s, key))
}

func TestAFairMutexIsReentrantAndHasTokens(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.FairMutex(fixture.KeyOf(t)), bounded.Context(t)
	held := fixture.Hold(t, mu.Lock)
	var wg sync.WaitGroup
	fairWaiter(t, s, c, mu.Name(), 1, &wg, func() {})
	inner, err := mu.Lock(held.Context(ctx)) // passes the queue
	require.NoError(t, err)
	require.Equal(t, 2, inner.Count())
	info, err := mu.Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, 2, info.Holders[0].Count)
	require.True(t, mu.HeldBy(held.Context(ctx)))
	require.NoError(t, inner.Unlock(ctx))
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	bounded.Wait(t, &wg)
	next, err := mu.TryLockFor(ctx, 300*time.Millisecond)
	require.NoError(t, err)
	require.Greater(t, next.Token(), held.Token())
	bounded.Receive(t, next.Done())
	require.ErrorIs(t, next.Err(), lock.ErrLost)
	_, err = c.FairMutex("").Lock(ctx)
	require.ErrorContains(t, err, "name is empty")
	_, err = mu.LockFor(ctx, time.Microsecond)
	require.ErrorContains(t, err, "lease is")
	fixture.Do(t, s, "SET", mu.Name()+"s", "text")
	_, err = c.FairMutex(mu.Name() + "s").Lock(ctx)
	require.ErrorContains(t, err, "WRONGTYPE")
}

func TestACancelledFairWaiterLeavesNoTraceAndTheNextHasItsTurn(t *testing.T) {
	s := onRedis(t)
	a, b := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}), fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key, bg := fixture.KeyOf(t), bounded.Context(t)
	javaHolds(t, s, key)
	ctx, cancel := context.WithCancel(bg)
	left := make(chan error, 1)
	go func() {
		_, err := a.FairMutex(key).Lock(ctx)
		left <- err
	}()
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == 1 }, time.Minute, time.Millisecond)
	var wg sync.WaitGroup
	fairWaiter(t, s, b, key, 2, &wg, func() {})
	fields := queueOf(t, s, key)
	behind := scoreOf(t, s, key, fields[1])
	cancel()
	require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	require.Eventually(t, func() bool { return slices.Equal(queueOf(t, s, key), fields[1:]) }, time.Minute, time.Millisecond)
	require.GreaterOrEqual(t, scoreOf(t, s, key, fields[1]), behind, "those behind had nothing to wait for")
	require.Zero(t, a.Stats().Waiting)

	// Java's last unlock tells the first in the queue, by its own channel.
	_, _, _, channel := fairKeys(key)
	fixture.AwaitSubscribers(t, s, channel+":"+fields[1], 1)
	fixture.Do(t, s, "DEL", key)
	fixture.Do(t, s, "PUBLISH", channel+":"+fields[1], 0)
	bounded.Wait(t, &wg)
	require.Empty(t, fixture.Do(t, s, "KEYS", "*{"+key+"}*"))
}

func TestADeadFairWaiterCostsItsSignsOfLifeAndALiveOneIsNotPassed(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 50 * time.Millisecond})
	key := fixture.KeyOf(t)
	queue, scores, signs, _ := fairKeys(key)
	javaHolds(t, s, key)
	var order []int // guarded by the lock
	var wg sync.WaitGroup
	fairWaiter(t, s, c, key, 1, &wg, func() { order = append(order, 1) })
	// Two that died after they came, and one alive behind them.
	for i := range 2 {
		dead := fmt.Sprintf("22222222-9a9a-4c7b-8d1e-111111111111:%d:1", i)
		javaWaits(t, s, key, dead, time.Now().Add(time.Hour))
		fixture.Do(t, s, "HSET", signs, dead, "7/50")
	}
	fairWaiter(t, s, c, key, 4, &wg, func() { order = append(order, 2) })
	tries := c.Stats().Tries
	start := time.Now()
	require.Eventually(t, func() bool { return c.Stats().Tries > tries+40 }, time.Minute, time.Millisecond) // twenty periods
	require.Len(t, queueOf(t, s, key), 4, "the first one is alive")
	require.LessOrEqual(t, float64(c.Stats().Tries-tries), 2*(time.Since(start).Seconds()/0.05+3), "nobody spins")
	fixture.Do(t, s, "DEL", key)
	bounded.Wait(t, &wg)
	require.Equal(t, []int{1, 2}, order)
	for _, k := range []string{queue, scores, signs, key} {
		require.False(t, fixture.Exists(t, s, k))
	}
}

func TestRedissonsPlaceInTheFairQueueIsKept(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 20 * time.Millisecond})
	key := fixture.KeyOf(t)
	queue, scores, _, channel := fairKeys(key)
	held := fixture.Hold(t, c.FairMutex(key).Lock)
	javaWaits(t, s, key, javaOwner, time.Now().Add(time.Hour))
	psc := listener(t, s, channel+":"+javaOwner)
	var wg sync.WaitGroup
	got := make(chan struct{})
	fairWaiter(t, s, c, key, 2, &wg, func() { close(got) })
	require.NoError(t, held.Unlock(bounded.Context(t)))
	requireMessage(t, psc, "0") // Java's turn
	tries := c.Stats().Tries
	require.Eventually(t, func() bool { return c.Stats().Tries > tries+20 }, time.Minute, time.Millisecond)
	select {
	case <-got:
		t.Fatal("Java was passed over")
	default:
	}
	require.EqualValues(t, -1, fixture.PTTL(t, s, queue), "Redisson's queue has no TTL")
	// Java takes it, as Redisson does: every score is 300 s less. Ours lives on.
	ours := queueOf(t, s, key)[1]
	atOnce(t, s,
		[]any{"LPOP", queue},
		[]any{"ZREM", scores, javaOwner},
		[]any{"ZINCRBY", scores, -3_500_000, ours},
		[]any{"HSET", key, javaOwner, 1},
		[]any{"PEXPIRE", key, 30_000})
	require.Eventually(t, func() bool { return scoreOf(t, s, key, ours) > float64(time.Now().UnixMilli()) }, time.Minute, time.Millisecond)
	// Another of Java's waits before ours, dies, and its time is over. One who stood
	// behind ours for a moment would get a new time from ours.
	atOnce(t, s,
		[]any{"ZADD", scores, time.Now().Add(-time.Second).UnixMilli(), javaOwner + "1"},
		[]any{"LPUSH", queue, javaOwner + "1"},
		[]any{"DEL", key})
	bounded.Wait(t, &wg)
	require.Empty(t, fixture.Do(t, s, "KEYS", "*{"+key+"}*"))
}

func TestFairForceUnlockGivesTheFirstItsTurn(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	mu, ctx := c.FairMutex(fixture.KeyOf(t)), bounded.Context(t)
	done, err := mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, done)
	javaHolds(t, s, mu.Name())
	var wg sync.WaitGroup
	fairWaiter(t, s, c, mu.Name(), 1, &wg, func() {})
	_, _, _, channel := fairKeys(mu.Name())
	fixture.AwaitSubscribers(t, s, channel+":"+queueOf(t, s, mu.Name())[0], 1)
	done, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, done)
	bounded.Wait(t, &wg)
	fixture.Do(t, s, "HSET", mu.Name()+"h", "name", "bob")
	_, err = c.FairMutex(mu.Name() + "h").ForceUnlock(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
}

func TestCloseLetsFairWaitersLeaveTheQueue(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key := fixture.KeyOf(t)
	javaHolds(t, s, key)
	left := make(chan error)
	go func() {
		_, err := c.FairMutex(key).Lock(bounded.Context(t))
		left <- err
	}()
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == 1 }, time.Minute, time.Millisecond)
	closed := make(chan error)
	go func() { closed <- c.Close(bounded.Context(t)) }()
	require.ErrorIs(t, bounded.Receive(t, left), lock.ErrClosed)
	require.NoError(t, bounded.Receive(t, closed))
	require.Empty(t, queueOf(t, s, key))
}

// TestManyFairWaitersThatLeaveGoTogether: each place is found by a walk along the
// queue, so a script for each would hold up all of Redis.
func TestManyFairWaitersThatLeaveGoTogether(t *testing.T) {
	s := fixture.Server(t)
	key := fixture.KeyOf(t)
	holder, c := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	held := fixture.Hold(t, holder.FairMutex(key).Lock)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	const waiters = 400
	for range waiters {
		wg.Go(func() { _, _ = c.FairMutex(key).Lock(ctx) })
	}
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == waiters }, time.Minute, time.Millisecond)
	before := statOf(t, s, "lrem", "calls") + statOf(t, s, "lrange", "calls")
	cancel()
	bounded.Wait(t, &wg)
	require.Eventually(t, func() bool { return len(queueOf(t, s, key)) == 0 }, time.Minute, time.Millisecond)
	require.Less(t, statOf(t, s, "lrem", "calls")+statOf(t, s, "lrange", "calls")-before, waiters/2)
	_, scores, signs, _ := fairKeys(key)
	require.False(t, fixture.Exists(t, s, scores))
	require.False(t, fixture.Exists(t, s, signs))
	require.NoError(t, held.Unlock(bounded.Context(t)))
}
