package lock_test

import (
	"context"
	"errors"
	"fmt"
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
)

// java is one thread of a Redisson client: what it does to Redis, in our words.
// Version 3.13 unlocks in one script; current ones note the result in a latch
// key, so that a repeated request has the same answer.
type java struct {
	t       *testing.T
	s       *redistest.Server
	name    string
	thread  string // <uuid>:<thread id>
	latched bool
	lease   time.Duration
	unlocks int
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

// tryLock answers nil, or the PTTL of who holds it.
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

// lock waits for the channel's messages, as Redisson does, and for no more
// than the TTL that it was told.
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

// unlock answers 1 released, 0 still held, nil not the holder.
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

// renew is what the watchdog of j's client does: 1, or 0 if j does not hold it.
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
	var over atomic.Bool
	var wg sync.WaitGroup
	seen := 0
	wg.Go(func() {
		for !over.Load() {
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
		over.Store(true)
		bounded.Wait(t, &wg)
		conn.Close()
		require.Positive(t, seen, "it was never seen held")
	}
}

// Nobody polls here: our waiters look again after an hour, Java's after 30 s. So
// each release, theirs and ours, must wake the other side.
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
	holder := fixture.ClientOf(t, s, lock.Config{Lease: 600 * time.Millisecond})
	waiter := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	held := fixture.Hold(t, holder.Mutex(t.Name()).Lock)
	got := make(chan struct{})
	wg := fixture.InTurn(t, waiter, t.Name(), 1, func(*lock.Held) { close(got); <-held.Done() })
	j := newJava(t, s, t.Name(), 1, false)
	fixture.AwaitSubscribers(t, s, j.channel(), 1)
	require.EqualValues(t, 1, j.forceUnlock())
	bounded.Receive(t, got)
	fixture.RequireLost(t, held, lock.NotOwner)
	bounded.Wait(t, wg)
	require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)

	require.Nil(t, j.tryLock()) // and the other way round
	forced, err := holder.Mutex(t.Name()).ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, forced)
	require.EqualValues(t, 0, j.renew())
	require.Nil(t, j.unlock())
}

func TestRedissonsRenewalKeepsOurWaiterWaiting(t *testing.T) {
	fixture.Slow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: 20 * time.Millisecond})
	j := newJava(t, s, t.Name(), 1, true)
	j.lease = 2 * time.Second // which a busy machine can renew
	require.Nil(t, j.tryLock())
	began := time.Now()
	var owned atomic.Bool
	owned.Store(true)
	wg := fixture.InTurn(t, c, t.Name(), 1, func(*lock.Held) {
		if owned.Load() {
			t.Error("taken from a holder that renews")
		}
	})
	for time.Since(began) < 3*j.lease {
		require.EqualValues(t, 1, j.renew())
	}
	owned.Store(false)
	// It dies without a word; its TTL ends.
	bounded.Wait(t, wg)
}
