package lock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/stranger"
	"github.com/wheellock/wheellock/lock"
)

// java is one thread of a Redisson client, with the commands that it sends to Redis.
// Version 3.13 unlocks with one script. Current versions also keep the result in a
// latch key, so that a repeated request has the same answer.
type java struct {
	t       *testing.T
	s       *redistest.Server
	name    string
	thread  string // <uuid>:<thread id>
	latched bool   // it has a latch key
	lease   time.Duration
	unlocks int // so far
}

var javas = map[string]bool{"3.13": false, "current": true}

func newJava(t *testing.T, s *redistest.Server, name string, thread int, latched bool) *java {
	return &java{
		t: t, s: s, name: name, thread: fmt.Sprintf("8743c9c0-0795-4907-87fd-6c719a6b4586:%d", thread),
		latched: latched, lease: 30 * time.Second,
	}
}

func (j *java) channel() string { return "redisson_lock__channel:{" + j.name + "}" }

func (j *java) eval(text string, keys []string, args ...any) any {
	all := []any{text, len(keys)}
	for _, key := range keys {
		all = append(all, key)
	}
	return fixture.Do(j.t, j.s, "EVAL", append(all, args...)...)
}

// tryLock returns nil if j got the lock, and otherwise the PTTL of the lock.
func (j *java) tryLock() any {
	return j.eval(`
		local free = redis.call('exists', KEYS[1]) == 0
		if not free and redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
			return redis.call('pttl', KEYS[1])
		end
		redis.call('hincrby', KEYS[1], ARGV[2], 1)
		redis.call('pexpire', KEYS[1], ARGV[1])
		return nil`, []string{j.name}, j.lease.Milliseconds(), j.thread)
}

// lock waits as Redisson does: for a message of the channel, and for the TTL at most.
func (j *java) lock(ctx context.Context) error {
	if j.tryLock() == nil {
		return nil
	}
	conn, err := j.s.DialContext(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	psc := redis.PubSubConn{Conn: conn}
	if err := psc.Subscribe(j.channel()); err != nil {
		return err
	}
	psc.ReceiveWithTimeout(time.Minute)
	for ctx.Err() == nil {
		ttl := j.tryLock()
		if ttl == nil {
			return nil
		}
		wait := time.Duration(ttl.(int64)) * time.Millisecond
		if wait < 0 {
			return errors.New("a lock without a TTL: Redisson parks for ever")
		}
		if err, failed := psc.ReceiveWithTimeout(wait).(error); failed {
			return err
		}
	}
	return ctx.Err()
}

// unlock returns 1 if the lock is released, 0 if j still holds it, and nil if j was not the holder.
func (j *java) unlock() any {
	unlock := `
		if redis.call('hexists', KEYS[1], ARGV[3]) == 0 then
			return nil
		end
		if redis.call('hincrby', KEYS[1], ARGV[3], -1) > 0 then
			redis.call('pexpire', KEYS[1], ARGV[2])
			return 0
		end
		redis.call('del', KEYS[1])
		redis.call('publish', ARGV[1], '0')
		return 1`
	if !j.latched {
		return j.eval(unlock, []string{j.name}, j.channel(), j.lease.Milliseconds(), j.thread)
	}
	j.unlocks++ // each request has an id of its own
	latch := fmt.Sprintf("redisson_unlock_latch:{%s}:%s %d", j.name, j.thread, j.unlocks)
	answer := j.eval(`
		local before = redis.call('get', KEYS[2])
		if before then
			return tonumber(before)
		end
		local function unlock()`+unlock+` end
		local answer = unlock()
		if answer then
			redis.call('set', KEYS[2], answer, 'px', 3000)
		end
		return answer`, []string{j.name, latch}, j.channel(), j.lease.Milliseconds(), j.thread)
	fixture.Do(j.t, j.s, "DEL", latch)
	return answer
}

// renew renews the lock as the watchdog of j's client does. It returns 1, or 0 if j does not hold the lock.
func (j *java) renew() any {
	return j.eval(`
		if redis.call('hexists', KEYS[1], ARGV[2]) == 0 then
			return 0
		end
		redis.call('pexpire', KEYS[1], ARGV[1])
		return 1`, []string{j.name}, j.lease.Milliseconds(), j.thread)
}

func (j *java) forceUnlock() any {
	return j.eval(`
		if redis.call('del', KEYS[1]) == 0 then
			return 0
		end
		redis.call('publish', ARGV[1], '0')
		return 1`, []string{j.name}, j.channel())
}

// watchTTL fails the test if the lock is ever seen without a TTL, until stop is
// called.
func watchTTL(t *testing.T, s *redistest.Server, name string) (stop func()) {
	conn, err := s.Dial()
	require.NoError(t, err)
	var stopped atomic.Bool
	var wg sync.WaitGroup
	seen := 0
	wg.Go(func() {
		for !stopped.Load() {
			pttl, err := redis.Int(conn.Do("PTTL", name))
			if err != nil || pttl == -1 {
				t.Errorf("PTTL %d, %v", pttl, err)
				return
			}
			if pttl > 0 {
				seen++
			}
		}
	})
	return func() {
		stopped.Store(true)
		bounded.Wait(t, &wg)
		conn.Close()
		require.Positive(t, seen, "it was never seen held")
	}
}

// TestRedissonAndWeTakeTurns, although no waiter polls: ours would try again after an hour, Java's after
// 30 s. So every release of one side must wake the other side.
func TestRedissonAndWeTakeTurns(t *testing.T) {
	for version, latched := range javas {
		t.Run(version, func(t *testing.T) {
			s := onRedis(t)
			name := t.Name()
			ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
			defer cancel()
			c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
			stop := watchTTL(t, s, name)
			var inside, turns, changes, last atomic.Int64
			section := func(who int64) {
				if n := inside.Add(1); n != 1 {
					t.Errorf("%d hold the lock", n)
				}
				turns.Add(1)
				if last.Swap(who) != who {
					changes.Add(1)
				}
				inside.Add(-1)
			}
			const rounds = 40
			var wg sync.WaitGroup
			for i := range 2 {
				wg.Go(func() {
					j := newJava(t, s, name, i, latched)
					for range rounds {
						if err := j.lock(ctx); err != nil {
							t.Error("java:", err)
							return
						}
						section(1)
						if answer := j.unlock(); answer != int64(1) {
							t.Errorf("java's unlock: %v", answer)
						}
					}
				})
				wg.Go(func() {
					for range rounds {
						held, err := c.Mutex(name).Lock(ctx)
						if err != nil {
							t.Error(err)
							return
						}
						section(2)
						if err := held.Unlock(ctx); err != nil {
							t.Error(err)
						}
					}
				})
			}
			bounded.Wait(t, &wg)
			stop()
			require.EqualValues(t, 4*rounds, turns.Load())
			require.Greater(t, changes.Load(), int64(2), "both sides wait for each other")
		})
	}
}

func TestRedissonsReentryCountsAreItsOwn(t *testing.T) {
	for version, latched := range javas {
		t.Run(version, func(t *testing.T) {
			s := onRedis(t)
			ctx := bounded.Context(t)
			c := fixture.ClientOf(t, s, lock.Config{})
			mu := c.Mutex(t.Name())
			j, k := newJava(t, s, t.Name(), 1, latched), newJava(t, s, t.Name(), 2, latched)
			require.Nil(t, j.tryLock())
			require.Nil(t, j.tryLock())
			info, err := mu.Inspect(ctx)
			require.NoError(t, err)
			require.Equal(t, j.thread, info.Holders[0].Field)
			require.Equal(t, 2, info.Holders[0].Count)
			var other *lock.HeldError
			_, err = mu.TryLock(ctx)
			require.ErrorAs(t, err, &other)
			require.InDelta(t, float64(j.lease), float64(other.TTL), float64(20*time.Second))
			require.Nil(t, k.unlock(), "another thread's")
			require.EqualValues(t, 0, j.unlock())
			_, err = mu.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			require.EqualValues(t, 1, j.unlock())

			held := fixture.Hold(t, mu.TryLock)
			inner, err := mu.Lock(held.Context(ctx))
			require.NoError(t, err)
			info, err = mu.Inspect(ctx)
			require.NoError(t, err)
			require.Equal(t, 2, info.Holders[0].Count)
			require.IsType(t, int64(0), j.tryLock(), "refused, with our TTL")
			require.Nil(t, j.unlock())
			require.EqualValues(t, 0, j.renew(), "it renews its own field only")
			require.NoError(t, inner.Unlock(ctx))
			require.IsType(t, int64(0), j.tryLock())
			require.NoError(t, held.Unlock(ctx))
			require.Nil(t, j.tryLock())
			require.EqualValues(t, 1, j.unlock())
		})
	}
}

func TestRedissonsUnlockLatchIsNoneOfOurBusiness(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	latch := "redisson_unlock_latch:{" + t.Name() + "}:fedcba9876543210"
	fixture.Do(t, s, "SET", latch, 1, "PX", 60_000)
	held := fixture.Hold(t, c.Mutex(t.Name()).TryLock)
	require.NoError(t, held.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, t.Name()))
	require.True(t, fixture.Exists(t, s, latch))
	fixture.Do(t, s, "DEL", latch)
}

func TestRedissonsForceUnlockIsToldAsALossAndWakesOurWaiters(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	holder := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	waiter := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	held := fixture.Hold(t, holder.Mutex(t.Name()).Lock)
	got := make(chan struct{})
	wg := fixture.LockInTurn(t, waiter, t.Name(), 1, func(*lock.Held) { close(got); <-held.Done() })
	j := newJava(t, s, t.Name(), 1, false)
	fixture.AwaitSubscribers(t, s, j.channel(), 1)
	require.EqualValues(t, 1, j.forceUnlock())
	bounded.Receive(t, got)
	fixture.RequireLost(t, held, lock.NotOwner)
	bounded.Wait(t, wg)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

	require.Nil(t, j.tryLock()) // now our ForceUnlock of a lock of Redisson
	forced, err := holder.Mutex(t.Name()).ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, forced)
	require.EqualValues(t, 0, j.renew())
	require.Nil(t, j.unlock())
}

func TestRedissonsRenewalKeepsOurWaiterWaiting(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 20 * time.Millisecond})
	j := newJava(t, s, t.Name(), 1, true)
	j.lease = 2 * time.Second // which a busy machine can renew
	require.Nil(t, j.tryLock())
	began := time.Now()
	var owned atomic.Bool
	owned.Store(true)
	wg := fixture.LockInTurn(t, c, t.Name(), 1, func(*lock.Held) {
		if owned.Load() {
			t.Error("taken from a holder that renews")
		}
	})
	for time.Since(began) < 3*j.lease {
		require.EqualValues(t, 1, j.renew())
	}
	owned.Store(false)
	// Java renews no more, so the lock ends with its lease.
	bounded.Wait(t, wg)
}

// TestAStringWithATTLIsAnothersLock: redsync, redislock and SET NX PX make such strings. Lock waits for
// them, TryLock is refused with their TTL, Inspect calls them foreign, and ForceUnlock leaves them.
func TestAStringWithATTLIsAnothersLock(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour}) // the other library publishes no message
	ctx := context.Background()
	for kind, mu := range fixture.MutexKinds(c, t.Name()) {
		t.Run(kind, func(t *testing.T) {
			name := "TestAStringWithATTLIsAnothersLock"
			fixture.Do(t, s, "SET", name, "theirs", "NX", "PX", 60_000)
			_, err := mu.TryLock(ctx)
			var held *lock.HeldError
			require.ErrorAs(t, err, &held)
			require.Greater(t, held.TTL, 30*time.Second)
			require.LessOrEqual(t, held.TTL, time.Minute)
			require.True(t, held.Foreign)
			require.ErrorContains(t, err, "another library")
			info, err := mu.Inspect(ctx)
			require.NoError(t, err)
			require.True(t, info.Foreign)
			require.True(t, info.Locked)
			require.Greater(t, info.TTL, 30*time.Second)
			_, err = mu.ForceUnlock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock)
			require.ErrorContains(t, err, "another library")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))

			brief, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			_, err = mu.Lock(brief)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorIs(t, err, lock.ErrNotAcquired)

			got := make(chan error, 1)
			go func() {
				h, err := mu.Lock(ctx)
				if err == nil {
					err = h.Unlock(ctx)
				}
				got <- err
			}()
			tries := c.Stats().Tries
			require.Eventually(t, func() bool { return c.Stats().Tries > tries+1 }, time.Minute, time.Millisecond, "it looks again")
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", name))
			fixture.Do(t, s, "DEL", name)
			select {
			case err := <-got:
				require.NoError(t, err)
			case <-time.After(time.Minute):
				t.Fatal("it waits although the other's lock is gone")
			}
			require.Nil(t, fixture.Do(t, s, "GET", name))
		})
	}
}

// TestAStringWithoutATTLIsNoLock: it may be a semaphore.
func TestAStringWithoutATTLIsNoLock(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := context.Background()
	for kind, mu := range fixture.MutexKinds(c, t.Name()) {
		for _, other := range []struct{ key []any }{{[]any{"SET", t.Name(), "7"}}, {[]any{"RPUSH", t.Name(), "7"}}} {
			fixture.Do(t, s, other.key[0].(string), other.key[1:]...)
			if other.key[0] == "RPUSH" {
				fixture.Do(t, s, "PEXPIRE", t.Name(), 60_000)
			}
			_, err := mu.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.Lock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.Inspect(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			_, err = mu.ForceUnlock(ctx)
			require.ErrorIs(t, err, lock.ErrNotALock, kind)
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}

// TestAHoldWhoseKeyIsAStringIsLost, whichever script of the holder is the first to see the string.
func TestAHoldWhoseKeyIsAStringIsLost(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: time.Minute}) // no renewal finds it first
	ctx := bounded.Context(t)
	finds := map[string]func(h *lock.Held) error{
		"unlock":         func(h *lock.Held) error { return h.Unlock(ctx) },
		"extend":         func(h *lock.Held) error { return h.Extend(ctx, 2*time.Minute) },
		"guard":          func(h *lock.Held) error { _, err := h.Guard(ctx, "PING", nil); return err },
		"partial unlock": nil,
	}
	for kind, mu := range fixture.MutexKinds(c, t.Name()) {
		for name, find := range finds {
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			again, err := mu.Lock(held.Context(ctx))
			require.NoError(t, err)
			if find == nil {
				find = func(*lock.Held) error { return again.Unlock(ctx) }
			} else {
				require.NoError(t, again.Unlock(ctx))
			}
			fixture.Do(t, s, "SET", t.Name(), "theirs", "PX", 60_000)
			require.ErrorIs(t, find(held), lock.ErrLost, "%s of a %s", name, kind)
			bounded.Receive(t, held.Done())
			require.Equal(t, []byte("theirs"), fixture.Do(t, s, "GET", t.Name()))
			fixture.Do(t, s, "DEL", t.Name())
		}
	}
}

const contended = "contended"

// newStranger returns a JVM with this number of threads, which contend for the Mutex contended.
func newStranger(t *testing.T, s *redistest.Server, threads int, hold, delay time.Duration) *stranger.Stranger {
	j, err := stranger.New(stranger.Config{
		Dial: func() (redis.Conn, error) { return s.Dial() }, Key: contended, Threads: threads, Lease: 30 * time.Second, Wait: 5 * time.Second, Hold: hold, Again: time.Millisecond,
		Delay: func() time.Duration { return delay + rand.N(time.Millisecond) },
	})
	require.NoError(t, err)
	return j
}

// startContending lets n goroutines of c lock and unlock until ctx ends. The function that it returns
// waits for them, and returns how often they had the lock.
func startContending(ctx context.Context, t *testing.T, c *lock.Client, n int, hold time.Duration) func() int {
	var wg sync.WaitGroup
	turns := make([]int, n)
	for i := range turns {
		wg.Go(func() {
			for ctx.Err() == nil {
				held, err := c.Mutex(contended).Lock(ctx)
				if err != nil {
					if ctx.Err() == nil {
						t.Error(err)
					}
					return
				}
				turns[i]++
				time.Sleep(hold)
				if err := held.Unlock(context.Background()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	return func() (sum int) {
		wg.Wait()
		for _, n := range turns {
			sum += n
		}
		return sum
	}
}

// TestAStrangerHasEverySecondRelease of our clients for which it waits,
// whatever clients contend with it, and is hardly ever refused. The numbers of threads are odd. Each
// release of the stranger wakes one of its own threads in vain, and with an even number it would be the
// same threads again and again.
func TestAStrangerHasEverySecondRelease(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, tt := range []struct {
		name          string
		clients, each int // each: goroutines of one client
		threads       int
		hold, its     time.Duration // how long a goroutine holds the lock, and a thread
		delay         time.Duration // of the JVM; up to a millisecond more
		unknown       time.Duration // the stranger may wait for so long before our clients know of it
	}{
		{"eight clients", 8, 8, 15, 5 * ms, 5 * ms, ms, time.Second},
		{"one client", 1, 64, 15, 5 * ms, 5 * ms, ms, time.Second},
		{"one thread", 4, 4, 1, 5 * ms, 5 * ms, ms, time.Second},
		{"a slow JVM", 4, 4, 5, 5 * ms, 5 * ms, 3 * ms, time.Second},
		{"one goroutine", 1, 1, 3, 5 * ms, 5 * ms, ms, time.Second},
		{"eight of one goroutine", 8, 1, 5, 5 * ms, 5 * ms, ms, time.Second},
		{"long holds", 4, 4, 1, 1500 * ms, 5 * ms, ms, 10 * time.Second},
		{"its long holds", 4, 4, 3, 5 * ms, 500 * ms, ms, time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if testing.Short() && tt.clients*tt.each > 1 || fixture.IsBrief() && (tt.clients > 4 || tt.each > 4) {
				t.Skip("WHEELLOCK_FAULTS=all and not -short, for it takes long")
			}
			synctest.Test(t, func(t *testing.T) {
				s := fixture.Virtual(t)
				ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second+tt.unknown)
				defer cancel()
				var clients []*lock.Client
				var turns []func() int
				for range tt.clients {
					c, err := lock.New(s.Pool(0), lock.Config{})
					require.NoError(t, err)
					clients = append(clients, c)
					turns = append(turns, startContending(ctx, t, c, tt.each, tt.hold))
				}
				j := newStranger(t, s, tt.threads, tt.its, tt.delay)
				known := make(chan stranger.Counts, 1)
				time.AfterFunc(tt.unknown, func() { known <- j.Counts() })
				require.NoError(t, j.Run(ctx))
				sum := 0
				for _, wait := range turns {
					sum += wait()
				}
				n := j.Counts()
				t.Logf("%+v, ours %d", n, sum)
				for _, c := range clients {
					require.NoError(t, c.Close(context.Background()))
				}
				require.NoError(t, j.Close())
				require.Greater(t, 3*sum, n.Turns, "nor are others kept out")
				n = n.Sub(<-known)
				require.Greater(t, float64(n.Won+2), 0.49*float64(n.Releases))
				require.LessOrEqual(t, 50*n.Refused, n.Turns)
			})
		})
	}
}

// TestAStrangerThatHasGoneIsForgotten: after a second and a pause in vain, clients stop deferring to it.
func TestAStrangerThatHasGoneIsForgotten(t *testing.T) {
	fixture.SkipSlow(t)
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var clients []*lock.Client
		var turns []func() int
		for range 2 {
			c, err := lock.New(s.Pool(0), lock.Config{})
			require.NoError(t, err)
			clients = append(clients, c)
			turns = append(turns, startContending(ctx, t, c, 2, time.Millisecond))
		}
		j := newStranger(t, s, 3, time.Millisecond, time.Millisecond)
		gone, cancelIt := context.WithTimeout(ctx, 3*time.Second)
		defer cancelIt()
		require.NoError(t, j.Run(gone))
		require.NoError(t, j.Close())
		begun := clients[0].Stats().Released + clients[1].Stats().Released
		time.Sleep(2 * time.Second)
		before := clients[0].Stats().Released + clients[1].Stats().Released
		time.Sleep(4 * time.Second)
		after := clients[0].Stats().Released + clients[1].Stats().Released
		t.Log(begun, before, after)
		cancel()
		for i, wait := range turns {
			wait()
			require.NoError(t, clients[i].Close(context.Background()))
		}
		require.Greater(t, after-before, uint64(2800), "a millisecond each, and some more; beside a stranger it is a third of that")
	})
}

// TestATryDoesNotPassAStranger: right after a release of this client, TryLock and Lock leave the lock to
// the stranger. A Lock whose deadline is too near to wait takes the lock if it is free.
func TestATryDoesNotPassAStranger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		mu, ctx := c.Mutex(contended), context.Background()
		conn, err := s.Dial()
		require.NoError(t, err)
		theirs := func(f func()) {
			fixture.DoOn(t, conn, "HSET", contended, "8743c9c0-0795-4907-87fd-6c719a6b4586:7", 1)
			fixture.DoOn(t, conn, "PEXPIRE", contended, 30_000)
			f()
			fixture.DoOn(t, conn, "DEL", contended)
		}
		release := func() {
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			require.NoError(t, held.Unlock(ctx))
		}
		theirs(func() {
			_, err := mu.TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		})
		began := time.Now()
		release() // no pause: the client has received no message of a release
		require.Zero(t, time.Since(began))
		// The lock is free after that release, so TryLock pauses.
		held, err := mu.TryLock(ctx)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.NoError(t, held.Unlock(ctx))
		short, cancel := context.WithTimeout(ctx, 3*time.Millisecond)
		defer cancel()
		held, err = mu.Lock(short)
		require.NoError(t, err)
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.NoError(t, held.Unlock(ctx))
		time.AfterFunc(2*time.Millisecond, func() { fixture.DoOn(t, conn, "HSET", contended, "java:8", 1) })
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, 10*time.Millisecond, time.Since(began))
		fixture.DoOn(t, conn, "DEL", contended)
		time.Sleep(2 * time.Minute)
		release()
		began = time.Now()
		release()
		require.Zero(t, time.Since(began), "it is forgotten")
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(ctx))
	})
}

// TestWhatIsKnownOfStrangersIsBounded, however many names they lock.
func TestWhatIsKnownOfStrangersIsBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes long")
	}
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		conn, err := s.Dial()
		require.NoError(t, err)
		for i := range 10_000 {
			name := fmt.Sprint("m", i)
			fixture.DoOn(t, conn, "HSET", name, "java:7", 1)
			fixture.DoOn(t, conn, "PEXPIRE", name, 30_000)
			_, err := c.Mutex(name).TryLock(context.Background())
			require.ErrorIs(t, err, lock.ErrNotAcquired)
		}
		require.Equal(t, 64*64, lock.Table(c).Counts().Strangers)
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(context.Background()))
	})
}

// TestRedissonSeesALabelledFieldAsAForeignOne: Redisson compares whole fields, so the label in ours does
// not matter.
func TestRedissonSeesALabelledFieldAsAForeignOne(t *testing.T) {
	t.Parallel()
	for version, latched := range javas {
		s := fixture.RedisOrMini(t)
		c := fixture.ClientOf(t, s, lock.Config{Label: "orders-api-7f9c5d9b4d-x2k4j"})
		ctx := bounded.Context(t)
		mu, j := c.Mutex("m"), newJava(t, s, "m", 7, latched)
		held := fixture.Hold(t, mu.Lock)
		again, err := mu.Lock(held.Context(ctx))
		require.NoError(t, err)
		require.Positive(t, j.tryLock(), version)
		require.Nil(t, j.unlock(), version)
		require.EqualValues(t, 0, j.renew(), version)
		info, err := mu.Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, 2, timesHeld(info), version)
		require.NoError(t, again.Unlock(ctx))
		require.NoError(t, held.Unlock(ctx))
		require.Nil(t, j.tryLock(), version)
		require.Nil(t, j.tryLock(), version)
		_, err = mu.TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired, version)
		info, err = mu.Inspect(ctx)
		require.NoError(t, err)
		require.Equal(t, []lock.Holder{{Field: j.thread, Count: 2}}, info.Holders, version)
		require.EqualValues(t, 0, j.unlock(), version)
		require.EqualValues(t, 1, j.unlock(), version)
	}
}

// timesHeld returns the sum of the counts of all holders.
func timesHeld(info lock.Info) int {
	n := 0
	for _, h := range info.Holders {
		n += h.Count
	}
	return n
}
