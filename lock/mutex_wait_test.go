package lock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
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
	"github.com/wheellock/wheellock/lock/locktest"
)

// TestAWaiterThatListensAsksNoMoreUntilSomethingHappens, whatever it waits for.
func TestAWaiterThatListensAsksNoMoreUntilSomethingHappens(t *testing.T) {
	for _, kind := range []string{"Mutex", "FencedMutex", "reader", "writer", "Semaphore", "PermitSemaphore", "CountDownLatch"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			ctx, cancel := context.WithCancel(bounded.Context(t))
			cfg := lock.Config{Lease: time.Hour, MaxPoll: time.Hour}
			a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
			var err error
			var wait func() error
			locks := func(m func(*lock.Client) *lock.Mutex) {
				_, err = m(a).Lock(ctx)
				wait = func() error { _, err := m(b).Lock(ctx); return err }
			}
			switch kind {
			case "Mutex":
				locks(func(c *lock.Client) *lock.Mutex { return c.Mutex("m") })
			case "FencedMutex":
				locks(func(c *lock.Client) *lock.Mutex { return c.FencedMutex("m") })
			case "writer":
				locks(func(c *lock.Client) *lock.Mutex { return c.RWMutex("m").Writer() })
			case "reader":
				_, err = a.RWMutex("m").Writer().Lock(ctx)
				wait = func() error { _, err := b.RWMutex("m").Reader().Lock(ctx); return err }
			case "Semaphore":
				wait = func() error { return b.Semaphore("m").Acquire(ctx, 2) }
				_, err = a.Semaphore("m").TrySet(ctx, 1) // one is free, and not enough
			case "PermitSemaphore":
				wait = func() error { _, err := b.PermitSemaphore("m").Acquire(ctx, 2); return err }
				_, err = a.PermitSemaphore("m").TrySet(ctx, 1)
			case "CountDownLatch":
				wait = func() error { return b.CountDownLatch("m").Wait(ctx) }
				_, err = a.CountDownLatch("m").TrySet(ctx, 1)
			}
			require.NoError(t, err)
			var wg sync.WaitGroup
			for range 5 {
				wg.Go(func() {
					if err := wait(); !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
				})
			}
			require.Eventually(t, func() bool { return b.Stats().Waiting == 5 }, time.Minute, time.Millisecond)
			asked := -1
			require.Eventually(t, func() bool {
				before := asked
				asked = statOf(t, s, "evalsha", "calls")
				return asked == before
			}, 20*time.Second, 200*time.Millisecond)
			cancel()
			bounded.Wait(t, &wg)
		})
	}
}

func TestARemoteReleaseWakesTheWaiterAtOnce(t *testing.T) {
	s := onRedis(t)
	a := fixture.ClientOf(t, s, lock.Config{})
	b := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // polling would not end in the test's time
	ctx := bounded.Context(t)
	held := fixture.Hold(t, a.Mutex(t.Name()).Lock)
	wg := fixture.LockInTurn(t, b, t.Name(), 5, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+t.Name()+"}", 1)
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, wg)
}

func TestRedissonsReleaseWakesOurWaiterAndOursIsPublished(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	name := t.Name()
	fixture.Do(t, s, "HINCRBY", name, javaOwner, 1)
	fixture.Do(t, s, "PEXPIRE", name, 30_000)
	psc := listener(t, s, "redisson_lock__channel:{"+name+"}")

	got := make(chan struct{})
	wg := fixture.LockInTurn(t, c, name, 1, func(*lock.Held) { close(got) })
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+name+"}", 2)
	select {
	case <-got:
		t.Fatal("Java holds it")
	default:
	}
	fixture.Do(t, s, "DEL", name)
	fixture.Do(t, s, "PUBLISH", "redisson_lock__channel:{"+name+"}", 0)
	bounded.Wait(t, wg)
	for range 2 { // Java's release, then ours
		m, ok := psc.ReceiveWithTimeout(time.Minute).(redis.Message)
		require.True(t, ok)
		require.Equal(t, "0", string(m.Data))
	}
}

func TestAReleaseBetweenTheRefusalAndTheSubscriptionIsNotMissed(t *testing.T) {
	s := onRedis(t)
	// The subscriber's connection is held up until the lock is free.
	free := make(chan struct{})
	n := 0
	var mu sync.Mutex
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		mu.Lock()
		n++
		third := n == 2 // the first is the command connection of this one key
		mu.Unlock()
		if third {
			bounded.Receive(t, free)
		}
		return s.DialContext(ctx)
	}}
	c := fixture.Client(t, pool, lock.Config{MaxPoll: time.Hour, IOTimeout: 3 * time.Second, Connections: 1})
	fixture.Do(t, s, "HSET", t.Name(), "java:1", 1)
	fixture.Do(t, s, "PEXPIRE", t.Name(), 3_600_000)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	require.Eventually(t, func() bool { mu.Lock(); defer mu.Unlock(); return n == 2 }, time.Minute, time.Millisecond)
	fixture.Do(t, s, "DEL", t.Name()) // nobody hears of it
	close(free)
	bounded.Wait(t, wg)
}

func TestWithoutPubSubAWaiterPolls(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := onRedis(t)
	fixture.Do(t, s, "ACL", "SETUSER", "nosub", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
	defer fixture.Do(t, s, "ACL", "DELUSER", "nosub")
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("nosub"), redis.DialPassword("pw"))
	}}
	c := fixture.Client(t, pool, lock.Config{MaxPoll: 20 * time.Millisecond})
	fixture.Do(t, s, "HSET", t.Name(), "java:1", 1)
	fixture.Do(t, s, "PEXPIRE", t.Name(), 3_600_000)
	wg := fixture.LockInTurn(t, c, t.Name(), 3, func(*lock.Held) {})
	require.Eventually(t, func() bool { // it has asked more than once
		info, err := s.Info("commandstats")
		require.NoError(t, err)
		return info["cmdstat_subscribe"] != ""
	}, time.Minute, time.Millisecond)
	fixture.Do(t, s, "DEL", t.Name())
	bounded.Wait(t, wg)
}

func TestACutPubSubConnectionIsReplaced(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	fixture.Do(t, s, "HSET", t.Name(), "java:1", 1)
	fixture.Do(t, s, "PEXPIRE", t.Name(), 3_600_000)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	channel := "redisson_lock__channel:{" + t.Name() + "}"
	fixture.AwaitSubscribers(t, s, channel, 1)
	fixture.Do(t, s, "CLIENT", "KILL", "TYPE", "pubsub")
	fixture.Do(t, s, "DEL", t.Name()) // perhaps while it is cut: the new subscription makes it look again
	bounded.Wait(t, wg)
}

func TestTenThousandWaitersOnTenThousandKeysShareOneSubscriberConnection(t *testing.T) {
	fixture.SkipSlow(t)
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour, Lease: time.Hour, IOTimeout: time.Minute})
	const keys = 10_000
	name := func(i int) string { return fmt.Sprint("k", i) }
	conn := fixture.Dial(t, s)
	each := func(cmd func(i int) error) {
		for i := range keys {
			require.NoError(t, cmd(i))
		}
		_, err := conn.Do("")
		require.NoError(t, err)
	}
	each(func(i int) error { return conn.Send("HSET", name(i), "java:1", 1) })
	each(func(i int) error { return conn.Send("PEXPIRE", name(i), 3_600_000) })
	before := runtime.NumGoroutine()
	var wg sync.WaitGroup
	for i := range keys {
		wg.Go(func() {
			held, err := c.Mutex(name(i)).Lock(bounded.Context(t))
			if err == nil {
				err = held.Unlock(bounded.Context(t))
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	require.Eventually(t, func() bool {
		channels, err := redis.Strings(conn.Do("PUBSUB", "CHANNELS"))
		require.NoError(t, err)
		return len(channels) == keys
	}, 60*time.Second, 20*time.Millisecond)
	require.Less(t, runtime.NumGoroutine()-before-keys, 100, "no goroutine of ours for a waiter")
	subs, err := redis.String(conn.Do("CLIENT", "LIST", "TYPE", "pubsub"))
	require.NoError(t, err)
	require.Equal(t, 1, strings.Count(subs, "\n"))
	each(func(i int) error { return conn.Send("DEL", name(i)) })
	each(func(i int) error { return conn.Send("PUBLISH", "redisson_lock__channel:{"+name(i)+"}", 0) })
	bounded.Wait(t, &wg)
}

func TestACancelledWaiterLeavesAtOnceAndLeavesNothing(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t)
	var log fixture.Log
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour, Logger: log.Logger()})
	log.Flush = lock.FlushLog(c)
	fixture.Do(t, s, "HSET", "m", "java:1", 1)
	fixture.Do(t, s, "PEXPIRE", "m", 3_600_000)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	left := make(chan error, 10)
	for range cap(left) {
		go func() {
			_, err := c.Mutex("m").Lock(ctx)
			left <- err
		}()
	}
	require.Eventually(t, func() bool { return c.Stats().Waiting == cap(left) }, time.Minute, time.Millisecond)
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{m}", 1)
	cancel()
	for range cap(left) {
		require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
	}
	require.Zero(t, c.Stats().Waiting)
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{m}", 0)
	counts := fixture.Hash(t, s, "m")
	require.Equal(t, map[string]string{"java:1": "1"}, counts)
	// The subscriber's connection without a subscription gets plain answers to
	// its pings, and lives on.
	time.Sleep(2500 * time.Millisecond) // more than a ping period
	wg := fixture.LockInTurn(t, c, "m", 1, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{m}", 1)
	fixture.Do(t, s, "DEL", "m")
	fixture.Do(t, s, "PUBLISH", "redisson_lock__channel:{m}", 0)
	bounded.Wait(t, wg)
	require.NotContains(t, log.String(), "pub/sub failed")
}

func TestReentryDoesNotQueueBehindAThousandWaiters(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	wg := fixture.LockInTurn(t, c, t.Name(), 1000, func(*lock.Held) {})
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1000 }, time.Minute, time.Millisecond)
	inner, err := c.Mutex(t.Name()).Lock(held.Context(ctx))
	require.NoError(t, err)
	require.NoError(t, inner.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, wg)
}

func TestLocalWaitersAreServedInTheOrderOfTheirArrival(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	var order []int // guarded by the lock
	var wg sync.WaitGroup
	for i := range 20 {
		before := c.Stats().Waiting
		wg.Go(func() {
			h, err := c.Mutex(t.Name()).Lock(ctx)
			if err != nil {
				t.Error(err)
				return
			}
			order = append(order, i)
			if err := h.Unlock(ctx); err != nil {
				t.Error(err)
			}
		})
		require.Eventually(t, func() bool { return c.Stats().Waiting == before+1 }, time.Minute, 100*time.Microsecond)
	}
	_, err := c.Mutex(t.Name()).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired, "TryLock does not barge")
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, &wg)
	want := make([]int, 20)
	for i := range want {
		want[i] = i
	}
	require.Equal(t, want, order)
}

// TestNoFieldComesBackAndTokensRise: only holds of one run share a field.
func TestNoFieldComesBackAndTokensRise(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	first := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	seen, field := map[string]bool{}, ""
	last := first.Token()
	wg := fixture.LockInTurn(t, c, t.Name(), 200, func(h *lock.Held) { // longer than a run
		fields, err := redis.StringMap(fixture.Do(t, s, "HGETALL", t.Name()), nil)
		if err != nil || len(fields) != 1 {
			t.Errorf("the hash is %v: %v", fields, err)
		}
		for f := range fields {
			if seen[f] && f != field {
				t.Errorf("field %s came back", f)
			}
			field = f
			seen[f] = true
		}
		if h.Token() <= last {
			t.Errorf("token %d after %d", h.Token(), last)
		}
		last = h.Token()
	})
	require.Eventually(t, func() bool { return c.Stats().Waiting == 200 }, time.Minute, time.Millisecond)
	require.NoError(t, first.Unlock(ctx))
	bounded.Wait(t, wg)
	require.Greater(t, len(seen), 200/64)
	require.False(t, fixture.Exists(t, s, t.Name()))
}

func TestAWaiterThatLeavesPassesItsGrantOn(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	bg := bounded.Context(t)
	for round := range 30 {
		name := fmt.Sprint(t.Name(), round)
		held, err := c.Mutex(name).Lock(bg)
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(bg)
		left := make(chan error, 1)
		go func() {
			h, err := c.Mutex(name).Lock(ctx)
			if err == nil {
				err = h.Unlock(bg)
			}
			left <- err
		}()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, 100*time.Microsecond)
		wg := fixture.LockInTurn(t, c, name, 1, func(*lock.Held) {})
		go cancel() // about when it is handed over
		require.NoError(t, held.Unlock(bg))
		if err := bounded.Receive(t, left); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		bounded.Wait(t, wg) // the other one always gets it
	}
	require.Eventually(t, func() bool { return c.Stats().Held == 0 }, time.Minute, time.Millisecond)
}

func TestHandOffToLockForGetsThatLease(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	got := make(chan *lock.Held, 1)
	go func() {
		h, err := c.Mutex(t.Name()).LockFor(ctx, 2*time.Second)
		if err == nil {
			got <- h
		}
		close(got)
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, 100*time.Microsecond)
	require.NoError(t, held.Unlock(ctx))
	h := bounded.Receive(t, got)
	require.NotNil(t, h)
	ttl := fixture.PTTL(t, s, t.Name())
	require.LessOrEqual(t, ttl, int64(2000))
	bounded.Receive(t, h.Done())
	require.ErrorIs(t, h.Err(), lock.ErrLost)
}

func TestTwoClientsShareALockFairly(t *testing.T) {
	fixture.SkipSlow(t)
	s := onRedis(t)
	ctx := bounded.Context(t)
	const all = 20_000
	turns := [2]int{} // guarded by the lock
	total, changes, last := 0, 0, -1
	var wg sync.WaitGroup
	var clients []*lock.Client
	for range turns {
		clients = append(clients, fixture.ClientOf(t, s, lock.Config{}))
		held := fixture.Hold(t, clients[len(clients)-1].Mutex(t.Name()).Lock) // so that both are connected
		require.NoError(t, held.Unlock(ctx))
	}
	for i, c := range clients {
		for range 8 {
			wg.Go(func() {
				for {
					h, err := c.Mutex(t.Name()).Lock(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					done := total == all
					if !done {
						total++
						turns[i]++
						if last != i {
							changes++
						}
						last = i
					}
					if err := h.Unlock(ctx); err != nil {
						t.Error(err)
					}
					if done {
						return
					}
				}
			})
		}
	}
	bounded.Wait(t, &wg)
	t.Logf("turns %v, %d changes between clients", turns, changes)
	require.Greater(t, min(turns[0], turns[1]), all/8, "neither client starves")
}

func TestAFloodOfMessagesIsNoFloodOfTries(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	fixture.Do(t, s, "HSET", t.Name(), "java:1", 1)
	fixture.Do(t, s, "PEXPIRE", t.Name(), 3_600_000)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	channel := "redisson_lock__channel:{" + t.Name() + "}"
	fixture.AwaitSubscribers(t, s, channel, 1)
	conn := fixture.Dial(t, s)
	before := c.Stats().Tries
	start := time.Now()
	for range 20_000 {
		require.NoError(t, conn.Send("PUBLISH", channel, "garbage"))
	}
	fixture.DoOn(t, conn, "")
	took := time.Since(start)
	require.LessOrEqual(t, c.Stats().Tries-before, uint64(5+took/(2*time.Millisecond)))
	fixture.Do(t, s, "DEL", t.Name())
	fixture.Do(t, s, "PUBLISH", channel, 0)
	bounded.Wait(t, wg)
}

func TestALockWithoutATTLIsPolled(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 30 * time.Millisecond})
	ctx := bounded.Context(t)
	fixture.Do(t, s, "HSET", t.Name(), "somebody:1", 1)
	var other *lock.HeldError
	_, err := c.Mutex(t.Name()).TryLock(ctx)
	require.ErrorAs(t, err, &other)
	require.EqualValues(t, -1, other.TTL)
	ttl, err := c.Mutex(t.Name()).TTL(ctx)
	require.NoError(t, err)
	require.EqualValues(t, -1, ttl)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {})
	require.Eventually(t, func() bool { return c.Stats().Tries >= 4 }, time.Minute, time.Millisecond)
	fixture.Do(t, s, "DEL", t.Name()) // nobody publishes that
	bounded.Wait(t, wg)
}

func TestTryLockDoesNotPassThoseWhoWait(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	holder := fixture.ClientOf(t, s, lock.Config{})
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	held := fixture.Hold(t, holder.Mutex(t.Name()).Lock)
	got := make(chan struct{})
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) { close(got) })
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+t.Name()+"}", 1)
	fixture.Do(t, s, "DEL", t.Name()) // it is free, and the waiter does not know
	tries := func() uint64 { return c.Stats().Tries }
	require.Eventually(t, func() bool { // its try after the confirmation is over
		before := tries()
		time.Sleep(20 * time.Millisecond)
		return tries() == before
	}, time.Minute, time.Millisecond)
	select {
	case <-got: // that try came after the DEL
	default:
		before := tries()
		_, err := c.Mutex(t.Name()).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, before, tries(), "it asked Redis")
	}
	fixture.Do(t, s, "PUBLISH", "redisson_lock__channel:{"+t.Name()+"}", 0)
	bounded.Wait(t, wg)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
}

// TestARunOfHandOffsEndsWithARealRelease: a hand-off publishes nothing. The end of a run publishes a
// message, so that other clients try.
func TestARunOfHandOffsEndsWithARealRelease(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
	conn := fixture.Dial(t, s)
	psc := redis.PubSubConn{Conn: conn}
	channel := "redisson_lock__channel:{" + t.Name() + "}"
	require.NoError(t, psc.Subscribe(channel, "the end"))
	psc.Receive()
	psc.Receive()
	const waiters = 200
	wg := fixture.LockInTurn(t, c, t.Name(), waiters, func(*lock.Held) {})
	require.Eventually(t, func() bool { return c.Stats().Waiting == waiters }, time.Minute, time.Millisecond)
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, wg)
	fixture.Do(t, s, "PUBLISH", "the end", 1)
	releases := 0
	for {
		m, ok := psc.ReceiveWithTimeout(time.Minute).(redis.Message)
		require.True(t, ok)
		if m.Channel == "the end" {
			break
		}
		releases++
	}
	require.GreaterOrEqual(t, releases, 4, "201 holds, at most 65 in a run")
	require.Less(t, releases, waiters, "some were handed over")
}

// waitingCalls returns every kind of call that waits, by its name. Each call takes the object of a name
// and returns a function that gives it back.
func waitingCalls(t *testing.T, c *lock.Client) map[string]func(ctx context.Context, name string) (func(), error) {
	bg := bounded.Context(t)
	held := func(x *lock.Held, err error) (func(), error) {
		return func() { require.NoError(t, x.Unlock(bg)) }, err
	}
	multi := func(x *lock.MultiHeld, err error) (func(), error) {
		return func() { require.NoError(t, x.Unlock(bg)) }, err
	}
	return map[string]func(ctx context.Context, name string) (func(), error){
		"Mutex": func(ctx context.Context, name string) (func(), error) { return held(c.Mutex(name).Lock(ctx)) },
		"LockFor": func(ctx context.Context, name string) (func(), error) {
			return held(c.Mutex(name).LockFor(ctx, time.Minute))
		},
		"Fenced": func(ctx context.Context, name string) (func(), error) { return held(c.FencedMutex(name).Lock(ctx)) },
		"Fair":   func(ctx context.Context, name string) (func(), error) { return held(c.FairMutex(name).Lock(ctx)) },
		"writer": func(ctx context.Context, name string) (func(), error) {
			return held(c.RWMutex(name).Writer().Lock(ctx))
		},
		"reader": func(ctx context.Context, name string) (func(), error) {
			return held(c.RWMutex(name).Reader().Lock(ctx))
		},
		"permits": func(ctx context.Context, name string) (func(), error) {
			return held(c.PermitSemaphore(name).Acquire(ctx, 1))
		},
		"MultiLock": func(ctx context.Context, name string) (func(), error) {
			return multi(fixture.MultiLock(t, c.Mutex(name)).Lock(ctx))
		},
		"RedLock": func(ctx context.Context, name string) (func(), error) {
			r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, c.Mutex(name))
			require.NoError(t, err)
			return multi(r.Lock(ctx))
		},
		"Semaphore": func(ctx context.Context, name string) (func(), error) {
			s := c.Semaphore(name)
			return func() { require.NoError(t, s.Release(bg, 1)) }, s.Acquire(ctx, 1)
		},
	}
}

// TestACallWhoseDeadlineIsOverAsksOnce: as Redisson's tryLock(0) does.
func TestACallWhoseDeadlineIsOverAsksOnce(t *testing.T) {
	s := onRedis(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	cancelled, cancel := context.WithCancel(bg)
	cancel()
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	others := waitingCalls(t, a)
	for kind, take := range waitingCalls(t, b) {
		t.Run(kind, func(t *testing.T) {
			name := t.Name()
			switch kind {
			case "permits":
				_, err := a.PermitSemaphore(name).TrySet(bg, 1)
				require.NoError(t, err)
			case "Semaphore":
				_, err := a.Semaphore(name).TrySet(bg, 1)
				require.NoError(t, err)
			}
			giveBack, err := take(over, name)
			require.NoError(t, err, "it is free")
			giveBack()

			other := kind
			if kind == "reader" {
				other = "writer"
			}
			giveBack, err = others[other](bg, name)
			require.NoError(t, err)
			_, err = take(over, name)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.NotErrorIs(t, err, lock.ErrUnknown)

			tries := b.Stats().Tries
			_, err = take(cancelled, name)
			require.ErrorIs(t, err, context.Canceled)
			require.Equal(t, tries, b.Stats().Tries, "it asks nothing")
			giveBack()
			require.Zero(t, b.Stats().Held)
		})
	}
	t.Run("latch", func(t *testing.T) {
		latch := b.CountDownLatch(t.Name())
		require.NoError(t, latch.Wait(over), "it is open")
		_, err := latch.TrySet(bg, 1)
		require.NoError(t, err)
		err = latch.Wait(over)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.ErrorIs(t, latch.Wait(cancelled), context.Canceled)
		require.NoError(t, latch.CountDown(bg))
	})
	t.Run("Do", func(t *testing.T) {
		called := false
		err := b.Mutex(t.Name()).Do(over, func(context.Context, *lock.Held) error { called = true; return nil })
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.False(t, called, "its context has ended")
	})
}

func TestACallWhoseDeadlineIsOverPassesNobodyWhoWaits(t *testing.T) {
	s := onRedis(t)
	bg, name := bounded.Context(t), t.Name()
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	before, err := fixture.ClientOf(t, s, lock.Config{}).Mutex(name).Lock(bg)
	require.NoError(t, err)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	waiter := startWaiting(t, c, func() (*lock.Held, error) { return c.Mutex(name).Lock(bg) })
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+name+"}", 1)
	fixture.Do(t, s, "DEL", name) // it is free, and the one in line does not know it yet
	_, err = c.Mutex(name).Lock(over)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	fixture.Do(t, s, "PUBLISH", "redisson_lock__channel:{"+name+"}", 0)
	held := receiveHeld(t, waiter, "the one in line")
	require.NoError(t, held.Unlock(bg))
	require.Error(t, before.Unlock(bg))
}

// TestTheTryOfACallWhoseDeadlineIsOverIsBounded. If the limit ends the try, its outcome is
// unknown.
func TestTheTryOfACallWhoseDeadlineIsOverIsBounded(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	bg := bounded.Context(t)
	over, cancel := context.WithTimeout(bg, 0)
	defer cancel()
	c := fixture.ClientOf(t, s, lock.Config{IOTimeout: 100 * time.Millisecond})
	takes := waitingCalls(t, c)
	giveBack, err := takes["Mutex"](bg, "warm")
	require.NoError(t, err)
	giveBack()
	require.NoError(t, s.Pause())
	defer func() { require.NoError(t, s.Resume()) }()
	for kind, take := range takes {
		_, err := take(over, kind)
		require.ErrorIs(t, err, context.DeadlineExceeded, kind)
		require.True(t, fixture.IsNoAnswer(err), "%s: %v", kind, err)
		require.NotErrorIs(t, err, lock.ErrNotAcquired, kind)
	}
}

// oddContext ends as a context merged by hand may: its Done is closed, and its Err says nothing.
type oddContext struct {
	context.Context
	done chan struct{}
}

func (c oddContext) Done() <-chan struct{} { return c.done }
func (c oddContext) Err() error            { return nil }

// TestAContextWithoutAnErrorEndsItsCall, and the next callers are served.
func TestAContextWithoutAnErrorEndsItsCall(t *testing.T) {
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	a, b := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	_, err := a.Semaphore("semaphore").TrySet(ctx, 0)
	require.NoError(t, err)
	_, err = a.PermitSemaphore("permits").TrySet(ctx, 0)
	require.NoError(t, err)
	_, err = a.CountDownLatch("latch").TrySet(ctx, 1)
	require.NoError(t, err)
	waits := map[string]func(context.Context) error{
		"semaphore": func(ctx context.Context) error { return b.Semaphore("semaphore").Acquire(ctx, 1) },
		"permits":   func(ctx context.Context) error { _, err := b.PermitSemaphore("permits").Acquire(ctx, 1); return err },
		"latch":     func(ctx context.Context) error { return b.CountDownLatch("latch").Wait(ctx) },
	}
	for who, holder := range map[string]*lock.Client{"another client": a, "this client": b} {
		for _, kind := range []string{"mutex", "fenced", "fair", "writer", "reader"} {
			name := kind + " of " + who
			of := kind
			if kind == "reader" {
				of = "writer"
			}
			held := fixture.Hold(t, fixture.MutexKinds(holder, name)[of].Lock)
			m := fixture.MutexKinds(b, name)[kind]
			waits[name] = func(ctx context.Context) error { _, err := m.Lock(ctx); return err }
			defer func() { // the call that ended is in nobody's way
				require.NoError(t, held.Unlock(ctx))
				require.NoError(t, fixture.Hold(t, m.Lock).Unlock(ctx))
			}()
		}
	}
	for name, wait := range waits {
		for _, later := range []time.Duration{0, 100 * time.Millisecond} {
			odd := oddContext{ctx, make(chan struct{})}
			time.AfterFunc(later, func() { close(odd.done) })
			ended := make(chan error, 1)
			go func() { ended <- wait(odd) }()
			require.ErrorIs(t, bounded.Receive(t, ended), context.Canceled, name)
		}
	}
}

// TestARefusalSaysWhetherRedisWasAsked: a call that does not wait must not pass the calls of its client that
// do.
func TestARefusalSaysWhetherRedisWasAsked(t *testing.T) {
	type object struct{ wait, try func(context.Context) error }
	mutex := func(m *lock.Mutex) object {
		return object{
			func(ctx context.Context) error { return errorOf(m.LockFor(ctx, time.Hour)) },
			func(ctx context.Context) error { return errorOf(m.TryLock(ctx)) },
		}
	}
	for kind, of := range map[string]func(c *lock.Client) object{
		"mutex":  func(c *lock.Client) object { return mutex(c.Mutex("m")) },
		"fenced": func(c *lock.Client) object { return mutex(c.FencedMutex("m")) },
		"writer": func(c *lock.Client) object { return mutex(c.RWMutex("m").Writer()) },
		"semaphore": func(c *lock.Client) object {
			s := c.Semaphore("s")
			_, err := s.TrySet(context.Background(), 1)
			require.NoError(t, err)
			return object{
				func(ctx context.Context) error { return s.Acquire(ctx, 1) },
				func(ctx context.Context) error { return s.TryAcquire(ctx, 1) },
			}
		},
		"permits": func(c *lock.Client) object {
			s := c.PermitSemaphore("p")
			_, err := s.TrySet(context.Background(), 1)
			require.NoError(t, err)
			return object{
				func(ctx context.Context) error { return errorOf(s.AcquireFor(ctx, 1, time.Hour)) },
				func(ctx context.Context) error { return errorOf(s.TryAcquire(ctx, 1)) },
			}
		},
	} {
		t.Run(kind, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := locktest.NewServer(t)
				c := srv.Client(lock.Config{})
				require.NoError(t, of(srv.Client(lock.Config{})).wait(t.Context()))
				x := of(c)
				ctx, cancel := context.WithCancel(t.Context())
				var waiter sync.WaitGroup
				for _, others := range []bool{false, true} {
					if others {
						waiter.Go(func() { _ = x.wait(ctx) })
						synctest.Wait()
					}
					err := x.try(t.Context())
					var held *lock.HeldError
					var permits *lock.PermitsError
					switch {
					case errors.As(err, &held):
						require.Equal(t, others, held.OthersWait)
						require.InDelta(t, time.Hour, held.TTL, float64(time.Second))
					case errors.As(err, &permits):
						require.Equal(t, others, permits.OthersWait)
					default:
						t.Fatal(err)
					}
				}
				cancel()
				waiter.Wait()
			})
		})
	}
}
