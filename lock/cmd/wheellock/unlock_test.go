package main

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

// TestUnlockWakesTheFirstOfAFairMutex: a client of Redisson, which hears only of its own turn.
func TestUnlockWakesTheFirstOfAFairMutex(t *testing.T) {
	t.Parallel()
	for name, key := range map[string]string{"f": "{f}", "{g}f": "{g}f"} {
		s := fixture.Server(t)
		fixture.Do(t, s, "HSET", name, "b983c153-7421-469a-addb-44fb92259a1b:1", 1)
		fixture.Do(t, s, "PEXPIRE", name, 100_000)
		waiter := "e88ab2a2-ce57-4d15-8a49-7b8f8cb2a6ac:52"
		fixture.Do(t, s, "RPUSH", "redisson_lock_queue:"+key, waiter)
		fixture.Do(t, s, "ZADD", "redisson_lock_timeout:"+key, time.Now().Add(time.Hour).UnixMilli(), waiter)
		hears := redis.PubSubConn{Conn: fixture.Dial(t, s)}
		require.NoError(t, hears.Subscribe("redisson_lock__channel:"+key+":"+waiter))
		require.IsType(t, redis.Subscription{}, hears.ReceiveWithTimeout(time.Minute))
		w := wheellock(t, s.URL(), "unlock", "-force", name)
		require.Zero(t, w.run(t), w.stderr)
		require.Equal(t, name+": unlocked\n", w.stdout.String())
		message, ok := hears.ReceiveWithTimeout(time.Minute).(redis.Message)
		require.True(t, ok, "nobody told it")
		require.Equal(t, "0", string(message.Data))
		require.Equal(t, []string{waiter}, fixture.Strings(t, s, "LRANGE", "redisson_lock_queue:"+key, 0, -1))
	}
}

// TestServersThatAreDownDoNotHideAQueue: the queue is on another server.
func TestServersThatAreDownDoNotHideAQueue(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	fixture.Do(t, s, "RPUSH", "redisson_lock_queue:{f}", "waiter")
	ended := make(chan struct{})
	dial := func(ctx context.Context, name string) (redis.Conn, error) {
		switch name {
		case "hung":
			<-ctx.Done()
			close(ended)
			return nil, ctx.Err()
		case "dead":
			return nil, errors.New("connection refused")
		}
		return fixture.Dial(t, s), nil
	}
	all := []string{"dead", "hung", "owner"}
	require.True(t, anyHasQueue(bounded.Context(t), all, dial, "f"))
	<-ended
	ended = make(chan struct{})
	require.False(t, anyHasQueue(bounded.Context(t), all, dial, "g"))
	<-ended
	require.False(t, anyHasQueue(bounded.Context(t), all[:1], dial, "f"))
}

// TestUnlockWakesOurWaiters, whatever the kind of the lock.
func TestUnlockWakesOurWaiters(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	for name, mu := range map[string]*lock.Mutex{"plain": c.Mutex("plain"), "fair": c.FairMutex("fair"), "read": c.RWMutex("read").Reader()} {
		holder := fixture.ClientOf(t, s, lock.Config{Lease: time.Hour})
		take := holder.Mutex(name).Lock
		if name == "read" {
			take = holder.RWMutex(name).Writer().Lock
		}
		fixture.Hold(t, take)
		waiting := c.Stats().Waiting
		var wg sync.WaitGroup
		wg.Go(func() {
			held, err := mu.Lock(bounded.Context(t))
			if err != nil {
				t.Error(err)
				return
			}
			_ = held.Unlock(bounded.Context(t))
		})
		bounded.Until(t, func() bool { return c.Stats().Waiting > waiting })
		bounded.Until(t, func() bool { return len(fixture.Strings(t, s, "PUBSUB", "CHANNELS", "*"+name+"*")) > 0 })
		require.Zero(t, wheellock(t, s.URL(), "unlock", "-force", name).run(t))
		bounded.Wait(t, &wg)
	}
}
