package lock_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// javaReads makes the plain commands of a Redisson reader.
func javaReads(t *testing.T, s *redistest.Server, key string, lease time.Duration) {
	fixture.Do(t, s, "HSET", key, "mode", "read")
	fixture.Do(t, s, "HINCRBY", key, javaOwner, 1)
	fixture.Do(t, s, "SET", "{"+key+"}:"+javaOwner+":rwlock_timeout:1", 1, "PX", lease.Milliseconds())
	if fixture.PTTL(t, s, key) < lease.Milliseconds() {
		fixture.Do(t, s, "PEXPIRE", key, lease.Milliseconds())
	}
}

// javaReadUnlocks does what a Redisson reader does at its last unlock, in one step as
// there: the lock lives on for the longest timeout that any remaining field has, else it
// goes.
func javaReadUnlocks(t *testing.T, s *redistest.Server, key string) {
	fixture.Do(t, s, "EVAL", `
		local key, timeout = KEYS[1], '{' .. KEYS[1] .. '}:%s:rwlock_timeout:%d'
		redis.call('hdel', key, ARGV[1])
		redis.call('del', string.format(timeout, ARGV[1], 1))
		local longest, all = -3, redis.call('hgetall', key)
		for f = 1, #all, 2 do
			for i = 1, tonumber(all[f + 1]) or 0 do
				longest = math.max(longest, redis.call('pttl', string.format(timeout, all[f], i)))
			end
		end
		if longest > 0 then
			redis.call('pexpire', key, longest)
		else
			redis.call('del', key)
			redis.call('publish', 'redisson_rwlock:{' .. key .. '}', 0)
		end`, 1, key, javaOwner)
}

func TestARWMutexIsRedissonsHash(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{KeyPrefix: "app:"})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	key := mu.Name()
	psc := listener(t, s, "redisson_rwlock:{"+key+"}")

	r1 := fixture.Hold(t, mu.Reader().Lock)
	r2, err := mu.Reader().Lock(lock.WithOwner(ctx, "worker-7"))
	require.NoError(t, err)
	inner, err := mu.Reader().Lock(r2.Context(ctx))
	require.NoError(t, err)
	hash := fixture.Hash(t, s, key)
	require.Len(t, hash, 3)
	require.Equal(t, "read", hash["mode"])
	info, err := mu.Writer().Inspect(ctx)
	require.NoError(t, err)
	require.False(t, info.Writing)
	require.Len(t, info.Holders, 2)
	require.Greater(t, info.TTL, 20*time.Second)
	for _, h := range info.Holders {
		require.False(t, h.Writing)
		require.Regexp(t, "^"+c.ID()+":(worker-7|[0-9]+):[0-9]+$", h.Field)
		left := fixture.PTTL(t, s, "{"+key+"}:"+h.Field+":rwlock_timeout:1")
		require.Greater(t, left, int64(20_000), "Redisson's readers look for it")
		require.LessOrEqual(t, left, int64(30_000))
	}
	require.Equal(t, 2, r2.Count())
	require.True(t, mu.Reader().HeldBy(r2.Context(ctx)))
	require.False(t, mu.Writer().HeldBy(r2.Context(ctx)))
	require.Zero(t, r1.Token())
	_, err = mu.Writer().TryLock(ctx)
	var other *lock.HeldError
	require.ErrorAs(t, err, &other)
	require.Greater(t, other.TTL, 20*time.Second)
	for _, held := range []*lock.Held{inner, r2, r1} {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrNotHeld)
	}
	requireMessage(t, psc, "0")
	require.Empty(t, fixture.Do(t, s, "KEYS", "*"+key+"*"))

	w := fixture.Hold(t, mu.Writer().Lock)
	hash = fixture.Hash(t, s, key)
	require.Len(t, hash, 2)
	require.Equal(t, "write", hash["mode"])
	for field := range hash {
		if field != "mode" {
			require.Regexp(t, "^"+c.ID()+":[0-9]+:[0-9]+:write$", field)
		}
	}
	_, err = mu.Reader().TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	_, err = mu.Writer().TryLockFor(ctx, time.Minute)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	again, err := mu.Writer().Lock(w.Context(ctx))
	require.NoError(t, err)
	require.Equal(t, 2, c.Stats().Held+again.Count()-1)
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, w.Unlock(ctx))
	requireMessage(t, psc, "1")
	require.Empty(t, fixture.Do(t, s, "KEYS", "*"+key+"*"))
	require.Zero(t, c.Stats().Held)
	info, err = mu.Writer().Inspect(ctx)
	require.NoError(t, err)
	require.Equal(t, lock.Info{}, info)
}

func TestAWriterMayReadAndADowngradeWakesReadersAtOnce(t *testing.T) {
	s := onRedis(t)
	a := fixture.ClientOf(t, s, lock.Config{})
	b := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	w := fixture.Hold(t, a.RWMutex(key).Writer().Lock)
	r, err := a.RWMutex(key).Reader().Lock(w.Context(ctx))
	require.NoError(t, err)
	const readers = 20
	got := make(chan *lock.Held, readers)
	for range readers {
		go func() {
			held, err := b.RWMutex(key).Reader().Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
	}
	require.Eventually(t, func() bool { return b.Stats().Waiting == readers }, time.Minute, time.Millisecond)
	fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+key+"}", 1)
	require.NoError(t, w.Unlock(ctx)) // still reads
	for range readers {
		held := bounded.Receive(t, got)
		require.NoError(t, held.Unlock(ctx))
	}
	require.True(t, r.Valid())
	require.Equal(t, "read", fixture.Hash(t, s, key)["mode"])
	require.NoError(t, r.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, key))
}

func TestAnUpgradeIsRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	r := fixture.Hold(t, mu.Reader().Lock)
	_, err := mu.Writer().Lock(r.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	_, err = mu.Writer().TryLock(r.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.True(t, r.Valid())
	require.NoError(t, r.Unlock(ctx))

	// While the owner also writes, the same call is a re-entry. After the downgrade it is refused.
	w := fixture.Hold(t, mu.Writer().Lock)
	r, err = mu.Reader().Lock(w.Context(ctx))
	require.NoError(t, err)
	w2, err := mu.Writer().Lock(r.Context(ctx))
	require.NoError(t, err)
	require.NoError(t, w.Unlock(ctx))
	require.NoError(t, w2.Unlock(ctx))
	_, err = mu.Writer().Lock(r.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.NoError(t, r.Unlock(ctx))
}

func TestAnInnerReadUnlockKeepsTheWriteLeaseRenewed(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	w := fixture.Hold(t, mu.Writer().Lock)
	r, err := mu.Reader().Lock(w.Context(ctx))
	require.NoError(t, err)
	require.NoError(t, r.Unlock(ctx))
	end := time.Now().Add(3 * time.Second) // more than a lease
	for time.Now().Before(end) {
		require.True(t, w.Valid())
		require.True(t, fixture.Exists(t, s, mu.Name()))
		time.Sleep(5 * time.Millisecond)
	}
	require.NoError(t, w.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, mu.Name()))
}

func TestEachReadersHoldEndsAlone(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	short, err := mu.Reader().LockFor(ctx, 150*time.Millisecond)
	require.NoError(t, err)
	long := fixture.Hold(t, mu.Reader().Lock)
	fixture.RequireLost(t, short, lock.Expired)
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+4 }, time.Minute, time.Millisecond)
	require.True(t, long.Valid())
	_, err = mu.Writer().TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	require.NoError(t, long.Unlock(ctx))
	w, err := mu.Writer().TryLock(ctx) // though the first never unlocked
	require.NoError(t, err)
	require.NoError(t, w.Unlock(ctx))
	require.ErrorIs(t, short.Unlock(ctx), lock.ErrLost)
}

// TestAReaderWhoseTimeoutIsGoneIsTold by its next Guard or Unlock. Another reader keeps the hash of the lock.
func TestAReaderWhoseTimeoutIsGoneIsTold(t *testing.T) {
	s := onRedis(t)
	ctx := bounded.Context(t)
	mu := fixture.ClientOf(t, s, lock.Config{Lease: time.Hour}).RWMutex(fixture.KeyOf(t)).Reader()
	fixture.Hold(t, mu.Lock)
	for name, ask := range map[string]func(*lock.Held) error{
		"Guard": func(x *lock.Held) error {
			_, err := x.Guard(ctx, "SET", []string{mu.Name() + "x"}, 1)
			return err
		},
		"Unlock": func(x *lock.Held) error { return x.Unlock(ctx) },
	} {
		timeouts := func() []string { return fixture.Keys(t, s, "*"+mu.Name()+"*rwlock_timeout*") }
		others := timeouts()
		x := fixture.Hold(t, mu.Lock)
		_, err := x.Guard(ctx, "GET", []string{mu.Name() + "x"})
		require.NoError(t, err)
		for _, timeout := range timeouts() {
			if !slices.Contains(others, timeout) {
				fixture.Do(t, s, "DEL", timeout)
			}
		}
		require.ErrorIs(t, ask(x), lock.ErrLost, name)
		require.False(t, fixture.Exists(t, s, mu.Name()+"x"))
	}
}

func TestAReaderThatLeavesDoesNotShortenTheOthersLease(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	brief, err := mu.Reader().LockFor(ctx, 10*time.Second)
	require.NoError(t, err)
	long, err := mu.Reader().LockFor(ctx, time.Hour)
	require.NoError(t, err)
	middle, err := mu.Reader().LockFor(ctx, time.Minute)
	require.NoError(t, err)
	require.NoError(t, long.Unlock(ctx))
	left := fixture.PTTL(t, s, mu.Name())
	require.LessOrEqual(t, left, int64(60_000), "what is left is the longest of those that remain")
	require.Greater(t, left, int64(50_000))
	require.NoError(t, middle.Unlock(ctx))
	require.LessOrEqual(t, fixture.PTTL(t, s, mu.Name()), int64(10_000))
	require.NoError(t, brief.Unlock(ctx))
}

func TestRWReentryNeverShortens(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	for _, take := range []func(context.Context, time.Duration) (*lock.Held, error){mu.Writer().LockFor, mu.Reader().LockFor} {
		outer, err := take(ctx, time.Hour)
		require.NoError(t, err)
		deadline := outer.Deadline()
		inner, err := take(outer.Context(ctx), time.Second)
		require.NoError(t, err)
		require.Equal(t, deadline, outer.Deadline())
		require.Greater(t, fixture.PTTL(t, s, mu.Name()), int64(3_000_000))
		require.NoError(t, inner.Unlock(ctx))
		require.Greater(t, fixture.PTTL(t, s, mu.Name()), int64(3_000_000))
		require.NoError(t, outer.Extend(ctx, 2*time.Hour))
		require.Greater(t, fixture.PTTL(t, s, mu.Name()), int64(7_000_000))
		keys := fixture.Keys(t, s, "*"+mu.Name()+"*rwlock_timeout*")
		for _, key := range keys {
			require.Greater(t, fixture.PTTL(t, s, key), int64(7_000_000))
		}
		require.NoError(t, outer.Unlock(ctx))
	}
}

func TestRedissonsReaderDoesNotTakeTheLockFromOurs(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	ours := fixture.Hold(t, mu.Reader().Lock)
	javaReads(t, s, mu.Name(), 30*time.Second)
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+4 }, time.Minute, time.Millisecond) // past the lease
	javaReadUnlocks(t, s, mu.Name())
	require.Equal(t, "read", fixture.Hash(t, s, mu.Name())["mode"])
	renewed = c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= renewed+4 }, time.Minute, time.Millisecond)
	require.True(t, ours.Valid())
	require.NoError(t, ours.Unlock(ctx))
	require.False(t, fixture.Exists(t, s, mu.Name()))
}

func TestOurReaderDoesNotTakeTheLockFromRedissons(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	javaReads(t, s, mu.Name(), 20*time.Second)
	ours := fixture.Hold(t, mu.Reader().Lock)
	require.Greater(t, fixture.PTTL(t, s, mu.Name()), int64(20_000))
	require.NoError(t, ours.Unlock(ctx))
	require.Equal(t, map[string]string{"mode": "read", javaOwner: "1"}, fixture.Hash(t, s, mu.Name()))
	left := fixture.PTTL(t, s, mu.Name())
	require.LessOrEqual(t, left, int64(20_000))
	require.Greater(t, left, int64(10_000))
	got := make(chan *lock.Held)
	go func() {
		held, err := mu.Writer().Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+mu.Name()+"}", 1)
	javaReadUnlocks(t, s, mu.Name())
	w := bounded.Receive(t, got)
	require.NoError(t, w.Unlock(ctx))
}

func TestOurReadersWaitForRedissonsWriter(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{MaxPoll: time.Hour})
	mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
	fixture.Do(t, s, "HSET", mu.Name(), "mode", "write", javaOwner+":write", 1)
	fixture.Do(t, s, "PEXPIRE", mu.Name(), 30_000)
	_, err := mu.Writer().TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	got := make(chan *lock.Held, 3)
	for range cap(got) {
		go func() {
			held, err := mu.Reader().Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
	}
	fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+mu.Name()+"}", 1)
	fixture.Do(t, s, "DEL", mu.Name())
	fixture.Do(t, s, "PUBLISH", "redisson_rwlock:{"+mu.Name()+"}", 1)
	for range cap(got) {
		held := bounded.Receive(t, got)
		require.NoError(t, held.Unlock(ctx))
	}
}

// readStream keeps a lock read without a gap, by owners of c that follow each
// other, until stop is closed.
func readStream(t *testing.T, mu *lock.RWMutex, stop chan struct{}, reads *atomic.Int64) chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithCancel(bounded.Context(t))
		defer cancel()
		go func() { <-stop; cancel() }()
		var last *lock.Held
		for ctx.Err() == nil {
			// The next one is in before the last one is out, if nothing keeps it.
			wait, left := context.WithTimeout(ctx, 20*time.Millisecond)
			next, err := mu.Reader().Lock(wait)
			left()
			if last != nil {
				if err := last.Unlock(bounded.Context(t)); err != nil {
					t.Error(err)
				}
			}
			last = next
			if err == nil {
				reads.Add(1)
			}
		}
		if last != nil {
			_ = last.Unlock(bounded.Context(t))
		}
	}()
	return done
}

func TestAStreamOfReadersDoesNotStarveAWriter(t *testing.T) {
	s := onRedis(t)
	readers, writer := fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	stop := make(chan struct{})
	var reads atomic.Int64
	done := readStream(t, readers.RWMutex(key), stop, &reads)
	for range 20 {
		before := reads.Load()
		require.Eventually(t, func() bool { return reads.Load() > before+2 }, time.Minute, 100*time.Microsecond, "readers have their turn")
		w := fixture.Hold(t, writer.RWMutex(key).Writer().Lock)
		require.NoError(t, w.Unlock(ctx))
	}
	close(stop)
	bounded.Receive(t, done)
	require.False(t, fixture.Exists(t, s, "{"+key+"}:wheellock_writers"))
}

func TestReadersFirstLetsReadersPassAWriterThatWaits(t *testing.T) {
	s := onRedis(t)
	for _, first := range []bool{false, true} {
		c := fixture.ClientOf(t, s, lock.Config{ReadersFirst: first, MaxPoll: time.Hour})
		other := fixture.ClientOf(t, s, lock.Config{ReadersFirst: first, MaxPoll: time.Hour})
		mu, ctx := c.RWMutex(fixture.KeyOf(t)), bounded.Context(t)
		r := fixture.Hold(t, mu.Reader().Lock)
		wait, cancel := context.WithCancel(ctx)
		left := make(chan error, 1)
		go func() {
			_, err := mu.Writer().Lock(wait)
			left <- err
		}()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
		fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+mu.Name()+"}", 1)
		for _, x := range []*lock.Client{c, other} {
			if first {
				next := fixture.Hold(t, x.RWMutex(mu.Name()).Reader().TryLock)
				require.NoError(t, next.Unlock(ctx))
				continue
			}
			require.Eventually(t, func() bool { return fixture.Exists(t, s, "{"+mu.Name()+"}:wheellock_writers") }, time.Minute, time.Millisecond)
			_, err := x.RWMutex(mu.Name()).Reader().TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrNotAcquired)
			again, err := mu.Reader().Lock(r.Context(ctx))
			require.NoError(t, err, "a re-entry does not wait for writers")
			require.NoError(t, again.Unlock(ctx))
		}
		// The writer leaves, and readers that it kept out go on at once.
		got := make(chan *lock.Held, 1)
		go func() {
			held, err := other.RWMutex(mu.Name()).Reader().Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		if !first {
			fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+mu.Name()+"}", 2)
		}
		cancel()
		require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
		held := bounded.Receive(t, got)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, r.Unlock(ctx))
		require.Empty(t, fixture.Do(t, s, "KEYS", "*"+mu.Name()+"*"))
	}
}

func TestBadInputOfARWMutexIsRefused(t *testing.T) {
	s := onRedis(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	_, err := c.RWMutex("").Writer().Lock(ctx)
	require.ErrorContains(t, err, "name is empty")
	_, err = c.RWMutex("").Writer().Inspect(ctx)
	require.ErrorContains(t, err, "name is empty")
	_, err = c.RWMutex(key).Reader().LockFor(ctx, time.Microsecond)
	require.ErrorContains(t, err, "lease is")
	_, err = c.RWMutex(key).Reader().Lock(lock.WithOwner(ctx, ""))
	require.ErrorContains(t, err, "owner's name")
	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, err = c.RWMutex(key).Reader().Lock(ended)
	require.ErrorIs(t, err, context.Canceled)
	fixture.Do(t, s, "SET", key+"s", "text")
	_, err = c.RWMutex(key + "s").Reader().Lock(ctx)
	require.ErrorContains(t, err, "WRONGTYPE")
	_, err = c.RWMutex(key + "s").Writer().ForceUnlock(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
	// A Mutex of that name is another's.
	held := fixture.Hold(t, c.Mutex(key).Lock)
	for _, try := range []func(context.Context) (*lock.Held, error){c.RWMutex(key).Writer().TryLock, c.RWMutex(key).Reader().TryLock} {
		_, err = try(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
	}
	_, err = c.RWMutex(key).Writer().ForceUnlock(ctx)
	require.ErrorIs(t, err, lock.ErrNotALock)
	_, err = c.RWMutex(key).Writer().Inspect(ctx)
	require.ErrorContains(t, err, "not a read-write lock")
	require.NoError(t, held.Unlock(ctx))
}

func TestRWForceUnlockWakesWaitersAndTellsHolders(t *testing.T) {
	s := onRedis(t)
	cfg := lock.Config{Lease: 3 * time.Second, MaxPoll: time.Hour}
	a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
	key, ctx := fixture.KeyOf(t), bounded.Context(t)
	done, err := a.RWMutex(key).Writer().ForceUnlock(ctx)
	require.NoError(t, err)
	require.False(t, done)
	r := fixture.Hold(t, a.RWMutex(key).Reader().Lock)
	got := make(chan *lock.Held)
	go func() {
		held, err := b.RWMutex(key).Writer().Lock(ctx)
		if err != nil {
			t.Error(err)
		}
		got <- held
	}()
	fixture.AwaitSubscribers(t, s, "redisson_rwlock:{"+key+"}", 1)
	done, err = a.RWMutex(key).Writer().ForceUnlock(ctx)
	require.NoError(t, err)
	require.True(t, done)
	w := bounded.Receive(t, got)
	bounded.Receive(t, r.Done())
	require.ErrorIs(t, r.Err(), lock.ErrLost)
	require.ErrorIs(t, r.Unlock(ctx), lock.ErrLost)
	require.True(t, w.Valid())
	require.NoError(t, w.Unlock(ctx))
}

func TestABatchOfMixedKindsIsRenewed(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	ctx := bounded.Context(t)
	var helds []*lock.Held
	for i := range 60 {
		name := fixture.KeyOf(t)
		take := []func(context.Context) (*lock.Held, error){
			c.Mutex(name).Lock, c.FencedMutex(name).Lock, c.RWMutex(name).Writer().Lock, c.RWMutex(name).Reader().Lock,
		}[i%4]
		held, err := take(ctx)
		require.NoError(t, err)
		helds = append(helds, held)
	}
	fixture.Do(t, s, "SCRIPT", "FLUSH") // also: each script is loaded again
	before := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= before+2*60 }, time.Minute, time.Millisecond)
	gone := 0
	for i, held := range helds {
		require.True(t, held.Valid(), i)
		if i%8 == 3 { // a reader's own key is its hold
			field := ""
			for f := range fixture.Hash(t, s, held.Name()) {
				if f != "mode" {
					field = f
				}
			}
			fixture.Do(t, s, "DEL", "{"+held.Name()+"}:"+field+":rwlock_timeout:1")
			gone++
		}
	}
	for i, held := range helds {
		if i%8 == 3 {
			bounded.Receive(t, held.Done())
			require.ErrorIs(t, held.Err(), lock.ErrLost)
			continue
		}
		require.True(t, held.Valid(), i)
		require.NoError(t, held.Unlock(ctx))
	}
	require.Positive(t, gone)
	require.Zero(t, c.Stats().Held)
}

func TestWhatReplicasDoNotHaveIsGivenBackWhateverItsKind(t *testing.T) {
	s := onRedis(t) // which has none
	c := fixture.ClientOf(t, s, lock.Config{Replicas: 1, ReplicaTimeout: 5 * time.Millisecond})
	ctx := bounded.Context(t)
	key := fixture.KeyOf(t)
	require.NoError(t, c.PermitSemaphore(key+"permits").Set(ctx, 2))
	for name, take := range map[string]func(context.Context) (*lock.Held, error){
		"fenced": c.FencedMutex(key).Lock, "fair": c.FairMutex(key).Lock, "fair try": c.FairMutex(key).TryLock,
		"read": c.RWMutex(key).Reader().Lock, "write": c.RWMutex(key).Writer().Lock,
		"permits": func(ctx context.Context) (*lock.Held, error) { return c.PermitSemaphore(key+"permits").Acquire(ctx, 2) },
	} {
		_, err := take(ctx)
		require.ErrorIs(t, err, lock.ErrNotReplicated, name)
		require.NotErrorIs(t, err, lock.ErrUnknown, name)
		require.False(t, fixture.Exists(t, s, key), name)
	}
	info, err := c.PermitSemaphore(key + "permits").Inspect(ctx)
	require.NoError(t, err)
	require.EqualValues(t, 2, info.Available)
	require.Zero(t, c.Stats().Held)
}

// TestAWriterThatLeavesIsNotAnnouncedAfterwards: its last try is still on its way
// when it withdraws, and must not come last.
func TestAWriterThatLeavesIsNotAnnouncedAfterwards(t *testing.T) {
	for _, replicas := range []int{0, 1} {
		t.Run(fmt.Sprint("replicas=", replicas), func(t *testing.T) {
			t.Parallel()
			s := onRedis(t)
			cfg := lock.Config{Connections: 8, MaxPoll: time.Minute}
			if replicas > 0 {
				s, _ = fixture.WithReplica(t)
				cfg.Replicas = replicas
			}
			reader := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			for i := range 8 { // connections are chosen by a hash of the name
				st := fixture.Stall(t, s)
				writer := fixture.ClientOver(t, st, cfg)
				name := fmt.Sprintf("%s.%d", t.Name(), i)
				held := fixture.Hold(t, reader.RWMutex(name).Reader().Lock)
				short, cancel := context.WithCancel(ctx)
				left := make(chan error, 1)
				go func() {
					_, err := writer.RWMutex(name).Writer().Lock(short)
					left <- err
				}()
				writers := "{" + name + "}:wheellock_writers"
				require.Eventually(t, func() bool { return fixture.Exists(t, s, writers) }, time.Minute, time.Millisecond)
				st.HoldBack("rw_write")
				// The confirmed subscription, or this message, makes it try again.
				require.Eventually(t, func() bool {
					fixture.Do(t, s, "PUBLISH", "redisson_rwlock:{"+name+"}", "1")
					return st.Arrived("rw_write") > 0
				}, time.Minute, 5*time.Millisecond)
				cancel()
				require.ErrorIs(t, bounded.Receive(t, left), context.Canceled)
				// A withdrawal that could overtake the announcement has the time to.
				for end := time.Now().Add(50 * time.Millisecond); st.Arrived("rw_withdraw") == 0 && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
				st.LetThrough()
				gone := func() bool { return !fixture.Exists(t, s, writers) }
				require.Eventually(t, gone, time.Minute, 5*time.Millisecond, "readers are kept out for two minutes")
				bounded.Until(t, st.HasSettled)
				if replicas > 0 { // it may have been announced over another connection, and withdraws once more when that is answered
					require.Eventually(t, gone, time.Minute, 5*time.Millisecond, "readers are kept out for two minutes")
				}
				require.True(t, gone())
				require.NoError(t, held.Unlock(ctx))
			}
		})
	}
}

// deadReaders puts n fields of readers into the lock, and no timeouts, as a killed process leaves them.
func deadReaders(t *testing.T, s *redistest.Server, key string, n int) {
	t.Helper()
	for from := 0; from < n; from += 1000 {
		args := []any{key, "mode", "read"}
		for i := from; i < min(from+1000, n); i++ {
			args = append(args, fmt.Sprintf("11111111-2222-4333-8444-555555555555:%d:%d", i, i), 1)
		}
		fixture.Do(t, s, "HSET", args...)
	}
}

// TestAWriterGetsTheLockOfADeadCrowd, although the last living reader had a lease of an hour, and
// its Unlock looked at no more than a thousand dead readers.
func TestAWriterGetsTheLockOfADeadCrowd(t *testing.T) {
	for _, n := range []int{40, 1000, 3000} {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			c := fixture.ClientOf(t, s, lock.Config{})
			other := fixture.ClientOf(t, s, lock.Config{})
			ctx := context.Background()
			deadReaders(t, s, "m", n)
			r, err := c.RWMutex("m").Reader().LockFor(ctx, time.Hour)
			require.NoError(t, err)
			begun := time.Now()
			got := make(chan *lock.Held, 1)
			go func() {
				held, err := other.RWMutex("m").Writer().Lock(ctx)
				require.NoError(t, err)
				got <- held
			}()
			synctest.Wait() // it has tried once
			require.NoError(t, r.Unlock(ctx))
			held := <-got
			require.LessOrEqual(t, time.Since(begun), time.Duration(1+n/1000)*lock.DefaultMaxPoll, "%d dead", n)
			require.NoError(t, held.Unlock(ctx))
			require.False(t, fixture.Exists(t, s, "m"))
		})
	}
}

// TestManyReadersThatLeaveAtOnceHarmNoOtherLock: what one of them costs does not grow with
// their number, so the locks of others are renewed meanwhile.
func TestManyReadersThatLeaveAtOnceHarmNoOtherLock(t *testing.T) {
	n := 10_000
	if fixture.IsBrief() {
		n = 2_000
	}
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	other := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	ctx := bounded.Context(t)
	mu := c.RWMutex(t.Name())
	helds := make([]*lock.Held, n)
	each := func(do func(i int) error) {
		t.Helper()
		var wg sync.WaitGroup
		errs := make(chan error, n)
		for i := range n {
			wg.Go(func() { errs <- do(i) })
		}
		wg.Wait()
		close(errs)
		for err := range errs {
			require.NoError(t, err)
		}
	}
	each(func(i int) (err error) {
		helds[i], err = mu.Reader().Lock(lock.WithOwner(ctx, fmt.Sprint("reader", i)))
		return err
	})
	locks := fixture.LockAll(t, other, fixture.Names("other", 200))
	fixture.AwaitRenewed(t, other, 200)
	begun := time.Now()
	each(func(i int) error { // a busy machine may not answer the last ones in time
		return fixture.RetryUntilKnown(func() error { return helds[i].Unlock(ctx) })
	})
	t.Logf("%d readers left in %v", n, time.Since(begun))
	fixture.AwaitRenewed(t, other, 200)
	require.Empty(t, other.Stats().Renewal.Lost)
	for name, held := range locks {
		require.True(t, held.Valid(), name)
	}
	require.False(t, fixture.Exists(t, s, mu.Name()))
}

// TestACrowdIsInspectedInPartAndForcedWhole: no call looks at more than a thousand.
func TestACrowdIsInspectedInPartAndForcedWhole(t *testing.T) {
	for name, s := range shared.MiniAndServer(t) {
		t.Run(name, func(t *testing.T) {
			c := fixture.ClientOf(t, s, lock.Config{})
			ctx := bounded.Context(t)
			for _, n := range []int{1023, 1024, 3000} {
				mu := c.RWMutex(fixture.KeyOf(t))
				held, err := mu.Reader().LockFor(ctx, time.Hour)
				require.NoError(t, err)
				deadReaders(t, s, mu.Name(), n-1)
				info, err := mu.Reader().Inspect(ctx)
				require.NoError(t, err)
				require.True(t, info.Locked)
				require.False(t, info.Writing)
				require.InDelta(t, min(n, 1024), len(info.Holders), 1)
				require.Greater(t, info.TTL, 50*time.Minute)
				locked, err := mu.Reader().IsLocked(ctx)
				require.NoError(t, err)
				require.True(t, locked)
				require.NoError(t, fixture.RetryUntilKnown(func() error {
					_, err := mu.Writer().ForceUnlock(ctx)
					return err
				}))
				require.False(t, fixture.Exists(t, s, mu.Name()))
				require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			}
		})
	}
}

// TestTheHalvesOfARWMutexSayWhatTheyAre: IsLocked and HeldBy are of their mode.
func TestTheHalvesOfARWMutexSayWhatTheyAre(t *testing.T) {
	c := fixture.ClientOf(t, onRedis(t), lock.Config{})
	ctx := bounded.Context(t)
	rw := c.RWMutex(t.Name())
	locked := func(mu *lock.Mutex) bool {
		ok, err := mu.IsLocked(ctx)
		require.NoError(t, err)
		return ok
	}
	writing := fixture.Hold(t, rw.Writer().Lock)
	require.True(t, locked(rw.Writer()))
	require.False(t, locked(rw.Reader()))
	require.True(t, rw.Writer().HeldBy(writing.Context(ctx)))
	require.False(t, rw.Reader().HeldBy(writing.Context(ctx)))
	reading, err := rw.Reader().Lock(writing.Context(ctx)) // who writes may read
	require.NoError(t, err)
	require.True(t, locked(rw.Reader()))
	require.NoError(t, writing.Unlock(ctx))
	require.False(t, locked(rw.Writer()))
	require.True(t, locked(rw.Reader()))
	require.True(t, rw.Reader().HeldBy(reading.Context(ctx)))
	_, err = rw.Writer().Lock(reading.Context(ctx))
	require.ErrorIs(t, err, lock.ErrUpgrade)
	require.NoError(t, reading.Unlock(ctx))
	require.False(t, locked(rw.Reader()))
}

// TestAReaderOfALostWriterDoesNotSpin: the writer's key is gone, and its client does not know that yet.
// Another call of this client waits in line.
func TestAReaderOfALostWriterDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		wire := fixture.NewWire(s)
		c, other := fixture.Client(t, wire.Pool(), lock.Config{}), fixture.Client(t, s.Pool(0), lock.Config{})
		held, err := c.RWMutex("m").Writer().LockFor(t.Context(), time.Hour)
		require.NoError(t, err)
		wire.Delay(time.Millisecond)
		fixture.Do(t, s, "DEL", "m")
		others := fixture.Hold(t, other.RWMutex("m").Writer().Lock)
		ctx, leave := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		calls.Go(func() { _, _ = c.RWMutex("m").Writer().Lock(ctx) })
		time.Sleep(time.Second)
		before := c.Stats().Tries
		calls.Go(func() { _, _ = c.RWMutex("m").Reader().Lock(held.Context(ctx)) })
		time.Sleep(time.Second)
		require.Less(t, c.Stats().Tries-before, uint64(20))
		require.ErrorIs(t, held.Err(), lock.ErrLost, "a refusal leaves a doubt, and Redis was asked")
		leave()
		calls.Wait()
		require.NoError(t, others.Unlock(t.Context()))
	})
}
