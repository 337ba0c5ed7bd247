package main

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
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

// TestUnlockWakesTheFirstOfAFairMutexWhileItsSlotIsMoved: one lock has gone to the other node, and one has not.
func TestUnlockWakesTheFirstOfAFairMutexWhileItsSlotIsMoved(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	const stays, goes = "{moved}stays", "{moved}goes"
	const waiter = "e88ab2a2-ce57-4d15-8a49-7b8f8cb2a6ac:52"
	slot := keys.Slot(stays)
	from, err := rc.Owner(slot)
	require.NoError(t, err)
	to := (from + 1) % 3
	for _, name := range []string{stays, goes} {
		s := rc.Servers[from]
		fixture.Do(t, s, "HSET", name, "b983c153-7421-469a-addb-44fb92259a1b:1", 1)
		fixture.Do(t, s, "PEXPIRE", name, 100_000)
		fixture.Do(t, s, "RPUSH", "redisson_lock_queue:"+name, waiter)
		fixture.Do(t, s, "ZADD", "redisson_lock_timeout:"+name, time.Now().Add(time.Hour).UnixMilli(), waiter)
	}
	require.NoError(t, rc.BeginMove(slot, from, to))
	require.NoError(t, rc.MoveKeys(slot, from, to, goes, "redisson_lock_queue:"+goes, "redisson_lock_timeout:"+goes))
	for name, node := range map[string]int{stays: from, goes: to} {
		hears := fixture.Dial(t, rc.Servers[node])
		channel := "redisson_lock__channel:" + name + ":" + waiter
		_, _ = hears.Do("ASKING")
		_, _ = hears.Do("SSUBSCRIBE", channel) // from version 7 on, the message comes in this way
		_, err := hears.Do("SUBSCRIBE", channel)
		require.NoError(t, err)
		w := wheellock(t, "redis-cluster://"+rc.Addrs()[0], "unlock", "-force", name)
		require.Zero(t, w.run(t), w.stderr)
		require.Equal(t, name+": unlocked\n", w.stdout.String())
		push, err := redis.Values(redis.ReceiveWithTimeout(hears, time.Minute))
		require.NoError(t, err, "nobody told it of %s", name)
		require.Contains(t, []string{"message", "smessage"}, string(push[0].([]byte)))
		require.Equal(t, "0", string(push[2].([]byte)))
	}
}

// TestAQueueIsSeenThatItsServerHasGivenAway: each node answers about it, in any order.
func TestAQueueIsSeenThatItsServerHasGivenAway(t *testing.T) {
	t.Parallel()
	rc := fixture.Cluster(t, redistest.ClusterOptions{})
	slot := keys.Slot("{moved}")
	from, err := rc.Owner(slot)
	require.NoError(t, err)
	to := (from + 1) % 3
	nodes := map[string]*redistest.Server{"from": rc.Servers[from], "to": rc.Servers[to], "other": rc.Servers[(from+2)%3]}
	var late atomic.Value // the server that is asked when the others have answered
	late.Store("")
	has := func(name string) bool {
		var all, others sync.WaitGroup
		all.Add(3)
		others.Add(2)
		defer all.Wait()
		return anyHasQueue(bounded.Context(t), []string{"from", "to", "other"}, func(_ context.Context, server string) (redis.Conn, error) {
			conn := fixture.Dial(t, nodes[server])
			if late.Load() == server {
				others.Wait()
				return &told{Conn: conn, closed: all.Done}, nil
			}
			return &told{Conn: conn, closed: func() { others.Done(); all.Done() }}, nil
		}, name)
	}
	seen := func(when string) {
		t.Helper()
		for server := range nodes {
			late.Store(server)
			require.True(t, has("{moved}f"), "%s: %s", when, server)
			require.False(t, has("{moved}none"), "%s: %s", when, server)
		}
	}
	fixture.Do(t, rc.Servers[from], "RPUSH", "redisson_lock_queue:{moved}f", "waiter")
	seen("before")
	require.NoError(t, rc.BeginMove(slot, from, to))
	seen("it has not left yet")
	require.NoError(t, rc.MoveKeys(slot, from, to))
	seen("it has left")
	require.NoError(t, rc.EndMove(slot, from, to))
	seen("after")
}

// told is a connection that tells when it is closed.
type told struct {
	redis.Conn
	closed func()
}

func (c *told) Close() error {
	defer c.closed()
	return c.Conn.Close()
}

func (c *told) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	return redis.DoContext(c.Conn, ctx, command, args...)
}

func (c *told) ReceiveContext(ctx context.Context) (any, error) {
	return redis.ReceiveContext(c.Conn, ctx)
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

// TestAFailedWriteIsNotAnUnknownLock: what was read or done is known, only nobody can read it.
func TestAFailedWriteIsNotAnUnknownLock(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	unwritable, err := os.Open(os.DevNull) // for reading
	require.NoError(t, err)
	defer unwritable.Close()
	unread, gone, err := os.Pipe() // a write to it is also a signal, which ends most programs
	require.NoError(t, err)
	require.NoError(t, unread.Close())
	defer gone.Close()
	const cannot = "cannot write to the standard output: "
	cases := []struct{ args, says string }{
		{"inspect n", "wheellock: " + cannot},
		{"inspect -json n", "wheellock: " + cannot},
		{"list", "wheellock: " + cannot},
		{"list -json", "wheellock: " + cannot},
		{"check", "wheellock: " + cannot},
		{"version", "wheellock: " + cannot},
		{"unlock -force n", "wheellock: n: unlocked, but " + cannot},
		{"unlock -force n", "wheellock: n: was free, but " + cannot},
	}
	for _, stdout := range []*os.File{unwritable, gone} {
		fixture.Hold(t, fixture.ClientOf(t, s, lock.Config{Lease: time.Hour}).Mutex("n").Lock)
		for _, c := range cases {
			w := wheellock(t, s.URL(), strings.Fields(c.args)...)
			w.Stdout = stdout
			require.Equal(t, statusUnwritten, w.run(t), c.args)
			require.Contains(t, w.stderr.String(), c.says)
		}
		require.False(t, fixture.Exists(t, s, "n"))
	}
}
