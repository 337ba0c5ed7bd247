package lock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestALatchIsRedissonsCounter(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:", MaxPoll: time.Hour})
	ctx := bounded.Context(t)
	latch := c.CountDownLatch(key)
	name := "app:" + key
	require.Equal(t, name, latch.Name())
	channel := "redisson_countdownlatch__channel__{" + name + "}"
	psc := listener(t, s, channel)
	require.NoError(t, latch.Wait(ctx), "a latch that was never set is open")
	require.NoError(t, latch.CountDown(ctx))
	require.False(t, fixture.Exists(t, s, name))

	set, err := latch.TrySet(ctx, 3)
	require.NoError(t, err)
	require.True(t, set)
	requireMessage(t, psc, "1")
	set, err = latch.TrySet(ctx, 5)
	require.NoError(t, err)
	require.False(t, set)
	require.Equal(t, []byte("3"), fixture.Do(t, s, "GET", name))
	done := make(chan error, 100)
	for range cap(done) {
		go func() { done <- latch.Wait(ctx) }()
	}
	require.Eventually(t, func() bool { return c.Stats().Waiting == cap(done) }, time.Minute, time.Millisecond)
	fixture.AwaitSubscribers(t, s, channel, 2)
	require.NoError(t, latch.CountDown(ctx))
	fixture.Do(t, s, "DECR", name) // Redisson's countDown
	n, err := latch.Count(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 1, n)
	ended, cancel := context.WithCancel(ctx)
	cancel()
	require.NoError(t, latch.CountDown(ended), "it works under a cancelled context")
	requireMessage(t, psc, "0")
	for range cap(done) {
		require.NoError(t, bounded.Receive(t, done))
	}
	require.False(t, fixture.Exists(t, s, name))
	n, err = latch.Count(ctx)
	require.NoError(t, err)
	require.Zero(t, n)
}

func TestALatchWaiterIsWokenByRedissonAndByReset(t *testing.T) {
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx := bounded.Context(t)
	for i, open := range []func(name, channel string){
		func(name, channel string) {
			fixture.Do(t, s, "DEL", name)
			fixture.Do(t, s, "PUBLISH", channel, 0)
		},
		func(name, _ string) {
			done, err := fixture.ClientOf(t, s, lock.Config{}).CountDownLatch(name).Reset(ctx)
			require.NoError(t, err)
			require.True(t, done)
		},
	} {
		name := fmt.Sprint(key, i)
		channel := "redisson_countdownlatch__channel__{" + name + "}"
		fixture.Do(t, s, "SET", name, 1)
		done := make(chan error, 1)
		go func() { done <- c.CountDownLatch(name).Wait(ctx) }()
		fixture.AwaitSubscribers(t, s, channel, 1)
		open(name, channel)
		require.NoError(t, bounded.Receive(t, done))
	}
	done, err := c.CountDownLatch(key).Reset(ctx)
	require.NoError(t, err)
	require.False(t, done)
}

func TestALatchRefusesBadInputAndACancelEndsItsWait(t *testing.T) {
	t.Parallel()
	key := fixture.KeyOf(t)
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	ctx, cancel := context.WithCancel(bounded.Context(t))
	defer cancel()
	latch := c.CountDownLatch(key)
	for _, n := range []int64{-1, 0, 1 << 31} {
		_, err := latch.TrySet(ctx, n)
		require.ErrorContains(t, err, "it must be from 1")
	}
	require.ErrorContains(t, c.CountDownLatch("").Wait(ctx), "name is empty")
	require.ErrorContains(t, c.CountDownLatch("").CountDown(ctx), "name is empty")
	fixture.Do(t, s, "SET", key+"s", "bob")
	fixture.Do(t, s, "HSET", key+"h", "a", 1)
	for _, key := range []string{key + "s", key + "h"} {
		other := c.CountDownLatch(key)
		_, resetErr := other.Reset(ctx)
		for _, err := range []error{other.Wait(ctx), other.CountDown(ctx), resetErr} {
			require.Error(t, err)
			require.NotErrorIs(t, err, lock.ErrUnknown)
			require.NotErrorIs(t, err, lock.ErrNotAcquired)
		}
		require.True(t, fixture.Exists(t, s, key))
	}
	_, err := latch.TrySet(ctx, 1)
	require.NoError(t, err)
	left := make(chan error, 10)
	for range cap(left) {
		go func() { left <- latch.Wait(ctx) }()
	}
	require.Eventually(t, func() bool { return c.Stats().Waiting == cap(left) }, time.Minute, time.Millisecond)
	fixture.AwaitSubscribers(t, s, "redisson_countdownlatch__channel__{"+key+"}", 1)
	cancel()
	for range cap(left) {
		require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	}
	require.ErrorIs(t, latch.Wait(ctx), context.Canceled)
	require.Zero(t, c.Stats().Waiting)
	fixture.AwaitSubscribers(t, s, "redisson_countdownlatch__channel__{"+key+"}", 0)
}
