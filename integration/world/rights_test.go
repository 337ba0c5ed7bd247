package world_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// TestTheFamilyNeedsNoMoreThanThePageSays: all kinds of locks work with the rights of lock/SERVERS.md,
// on every version.
func TestTheFamilyNeedsNoMoreThanThePageSays(t *testing.T) {
	t.Parallel()
	ofPage := func(string) bool { return true }
	knows62 := fixture.HasAbilities(t, redistest.ChannelRights)
	for version, test := range map[string]struct {
		args  []string // make a newer server behave like this version
		word  func(string) bool
		needs redistest.Ability
	}{
		"7": {nil, ofPage, redistest.ChannelRights},
		// A new user may use all channels, and no pattern can be added to that.
		"6.2": {[]string{"--acl-pubsub-default", "allchannels"}, ofPage, redistest.ChannelRights},
		// This version has no rights for channels.
		"6.0": {[]string{"--acl-pubsub-default", "allchannels"}, func(word string) bool {
			return word != "resetchannels" && (knows62 || word != "+hrandfield" && word != "+zmscore") && !strings.HasPrefix(word, "&")
		}, redistest.Users},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			fixture.NeedAbilities(t, test.needs)
			if !fixture.HasAbilities(t, redistest.ChannelRights) {
				test.args = nil // it is 6.0
			}
			testFamilyRights(t, fixture.Server(t, test.args...), test.word)
		})
	}
}

func testFamilyRights(t *testing.T, s *redistest.Server, ofVersion func(word string) bool) {
	for i, line := range fixture.RightsOfPage(t, "../../lock/SERVERS.md") {
		args := []any{"SETUSER"}
		for _, word := range line {
			if ofVersion(word) {
				args = append(args, word)
			}
		}
		fixture.Do(t, s, "ACL", args...)
		pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
		}}
		c := fixture.Client(t, pool, lock.Config{KeyPrefix: "app:", Lease: 2 * time.Second, MaxPoll: time.Hour})
		for _, tag := range []string{"", "{g}"} { // names with braces have other keys and channels
			if i == 0 {
				testMutexRights(t, c, tag)
			} else {
				testFamilyOf(t, c, tag)
			}
		}
	}
	log, err := redis.Values(fixture.Do(t, s, "ACL", "LOG"), nil)
	require.NoError(t, err)
	for _, entry := range log {
		t.Errorf("refused: %v", entry)
	}
}

// testMutexRights makes the calls that need only the first list.
func testMutexRights(t *testing.T, c *lock.Client, tag string) {
	ctx := bounded.Context(t)
	mu := c.Mutex(tag + "m")
	testTakes(t, c, mu.Lock)
	several, err := lock.NewMultiLock(mu, c.Mutex(tag+"n"))
	require.NoError(t, err)
	held, err := several.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, mu)
	require.NoError(t, err)
	held, err = red.Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, held.Unlock(ctx))
	one, err := mu.Lock(ctx)
	require.NoError(t, err)
	_, err = one.Guard(ctx, "SET", []string{"app:" + tag + "guarded"}, "1")
	require.NoError(t, err)
	_, err = mu.Inspect(ctx)
	require.NoError(t, err)
	locked, err := mu.IsLocked(ctx)
	require.NoError(t, err)
	require.True(t, locked)
	_, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
}

// testFamilyOf makes the calls that also need the second list.
func testFamilyOf(t *testing.T, c *lock.Client, tag string) {
	ctx := bounded.Context(t)
	permits, sem, latch := c.PermitSemaphore(tag+"p"), c.Semaphore(tag+"s"), c.CountDownLatch(tag+"l")
	err := permits.Set(ctx, 2)
	require.NoError(t, err)
	testTakes(t, c,
		c.FencedMutex(tag+"m").Lock, c.FairMutex(tag+"f").Lock, c.RWMutex(tag+"r").Reader().Lock, c.RWMutex(tag+"w").Writer().Lock,
		func(ctx context.Context) (*lock.Held, error) { return permits.Acquire(ctx, 2) },
	)
	_, err = sem.TrySet(ctx, 3)
	require.NoError(t, err)
	require.NoError(t, sem.Acquire(ctx, 1))
	require.NoError(t, sem.Release(ctx, 1))
	_, err = sem.Drain(ctx)
	require.NoError(t, err)
	_, err = latch.TrySet(ctx, 1)
	require.NoError(t, err)
	require.NoError(t, latch.CountDown(ctx))
	require.NoError(t, latch.Wait(ctx))
	_, err = latch.Reset(ctx)
	require.NoError(t, err)
	_, err = permits.Inspect(ctx)
	require.NoError(t, err)
	for _, force := range []func(context.Context) (bool, error){
		c.FairMutex(tag + "f").ForceUnlock, c.RWMutex(tag + "r").Writer().ForceUnlock, c.FencedMutex(tag + "m").ForceUnlock,
	} {
		_, err = force(ctx)
		require.NoError(t, err)
	}
}

// testTakes takes each lock, re-enters it, waits for it, and extends it.
func testTakes(t *testing.T, c *lock.Client, takes ...func(context.Context) (*lock.Held, error)) {
	ctx := bounded.Context(t)
	for _, take := range takes {
		held, err := take(ctx)
		require.NoError(t, err)
		if len(held.Permits()) == 0 {
			inner, err := take(held.Context(ctx))
			require.NoError(t, err)
			require.NoError(t, inner.Unlock(ctx))
		}
		before := c.Stats().Renewal.Renewed
		require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > before }, time.Minute, time.Millisecond)
		// One caller waits and leaves, another one waits and gets the lock.
		wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		other, err := take(wait)
		cancel()
		if err == nil { // a second reader
			require.NoError(t, other.Unlock(ctx))
		} else {
			require.ErrorIs(t, err, context.DeadlineExceeded)
		}
		got := make(chan *lock.Held)
		go func() {
			held, err := take(ctx)
			if err != nil {
				t.Error(err)
			}
			got <- held
		}()
		require.Eventually(t, func() bool { return c.Stats().Waiting == 1 || c.Stats().Held == 2 }, time.Minute, time.Millisecond)
		require.NoError(t, held.Unlock(ctx))
		next := bounded.Receive(t, got)
		require.NoError(t, next.Extend(ctx, time.Second))
		require.NoError(t, next.Unlock(ctx))
	}
}

// TestAMissingRightNeverTakesTokensBack: a token is minted by one command if the server's clock is above
// the last token, and otherwise by two commands.
func TestAMissingRightNeverTakesTokensBack(t *testing.T) {
	s, ctx := fixture.Server(t), bounded.Context(t)
	for _, command := range []string{"get", "getset", "set"} {
		c := fixture.ClientWithout(t, s, "u", lock.Config{FailFast: true}, "-"+command)
		for counter, mu := range map[string]*lock.Mutex{
			"redisson_lock_token:{fenced}": c.FencedMutex("fenced"), "wheellock_token": c.Mutex("plain"),
		} {
			last := int64(41)
			if counter == "wheellock_token" {
				last = 1 << 52 // higher than the clock for many years
			}
			fixture.Do(t, s, "SET", counter, last)
			held, err := mu.Lock(ctx)
			if err == nil {
				require.Equal(t, last+1, held.Token(), "%s without %s", counter, command)
				require.NoError(t, held.Unlock(ctx))
			}
			now, err := redis.Int64(fixture.Do(t, s, "GET", counter), nil)
			require.NoError(t, err)
			require.GreaterOrEqual(t, now, last, "%s without %s", counter, command)
		}
	}
}

// keysWithoutTTL returns the keys without a TTL, except counters, which need none.
func keysWithoutTTL(t *testing.T, s *redistest.Server) []string {
	t.Helper()
	keys := fixture.Keys(t, s, "*")
	var found []string
	for _, key := range keys {
		if kind := fixture.Do(t, s, "TYPE", key); kind != "string" && fixture.PTTL(t, s, key) == -1 {
			found = append(found, key)
		}
	}
	return found
}

func TestNoLockIsLeftWithoutATTLByAUserWhoMayNotSetOne(t *testing.T) {
	t.Parallel()
	for _, right := range []string{"-pexpire", "-pttl"} {
		t.Run(right, func(t *testing.T) {
			t.Parallel()
			s := fixture.Server(t)
			c := fixture.ClientWithout(t, s, "u", lock.Config{}, right)
			ctx := bounded.Context(t)
			for kind, lk := range fixture.LockKinds(t, c) {
				if kind == "permits" || right == "-pttl" && (kind == "mutex" || kind == "fenced") {
					continue // these do not need it
				}
				short, cancel := context.WithTimeout(ctx, time.Minute)
				_, err := lk.Lock(short)
				cancel()
				require.ErrorContains(t, err, "Redis refused", kind)
				require.NotErrorIs(t, err, lock.ErrUnknown, kind)
				require.Empty(t, keysWithoutTTL(t, s), kind)
				require.False(t, fixture.Exists(t, s, lk.Key), kind)
			}
		})
	}
}

// TestAWaiterWhoMayNotSetATTLLeavesNothingBehind: without a TTL, the key that announces the waiter would
// keep others out for ever.
func TestAWaiterWhoMayNotSetATTLLeavesNothingBehind(t *testing.T) {
	s := fixture.Server(t)
	free := fixture.ClientOf(t, s, lock.Config{})
	c := fixture.ClientWithout(t, s, "u", lock.Config{MaxPoll: 50 * time.Millisecond}, "-pexpire")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r, err := free.RWMutex("rw").Reader().Lock(ctx)
	require.NoError(t, err)
	_, err = c.RWMutex("rw").Writer().Lock(ctx)
	require.ErrorContains(t, err, "Redis refused")
	f, err := free.FairMutex("fair").Lock(ctx)
	require.NoError(t, err)
	_, err = c.FairMutex("fair").Lock(ctx)
	require.ErrorContains(t, err, "Redis refused")
	require.Empty(t, keysWithoutTTL(t, s))
	require.False(t, fixture.Exists(t, s, "{rw}:wheellock_writers"))
	require.False(t, fixture.Exists(t, s, "redisson_lock_queue:{fair}"))
	require.True(t, r.Valid())
	require.NoError(t, r.Unlock(ctx))
	require.NoError(t, f.Unlock(ctx))
}

func TestAHandOffThatMayNotSetATTLIsAPlainRelease(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientWithout(t, s, "u", lock.Config{})
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	held, err := c.Mutex("m").Lock(ctx)
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").Lock(ctx)
		got <- err
	}()
	require.Eventually(t, func() bool { return c.Stats().Waiting == 1 }, time.Minute, time.Millisecond)
	fixture.SetUserWithout(t, s, "u", "-pexpire")
	require.NoError(t, held.Unlock(ctx), "the hold was there to be released")
	require.ErrorContains(t, bounded.Receive(t, got), "Redis refused")
	require.False(t, fixture.Exists(t, s, "m"))
}

// TestALockWhoseRenewalIsRefusedDoesNotHoldUpOthers: the user has no right to the key of one lock.
func TestALockWhoseRenewalIsRefusedDoesNotHoldUpOthers(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientWithout(t, s, "u", lock.Config{Lease: time.Second, Logger: slog.New(slog.DiscardHandler)})
	ctx := bounded.Context(t)
	var helds []*lock.Held
	for i := range 20 {
		held := fixture.Hold(t, c.Mutex(fmt.Sprint("good:", i)).Lock)
		helds = append(helds, held)
	}
	bad := fixture.Hold(t, c.Mutex("bad").Lock)
	fixture.SetUserWithout(t, s, "u", "resetkeys", "~good:*", "~wheellock_token")
	bounded.Receive(t, bad.Done())
	require.ErrorContains(t, bad.Err(), "no renewal was acknowledged in time")
	for _, held := range helds {
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(ctx))
	}
}

// TestABusyLockNeedsNoOtherKeyThanItsOwn: without the right to the key for clients that hear
// no messages, the end of a run is a release.
func TestABusyLockNeedsNoOtherKeyThanItsOwn(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientWithout(t, s, "u", lock.Config{})
	fixture.SetUserWithout(t, s, "u", "resetkeys", "~m", "~wheellock_token")
	turns := 0 // guarded by the lock
	first := fixture.Hold(t, c.Mutex("m").Lock)
	wg := fixture.LockInTurn(t, c, "m", 200, func(*lock.Held) { turns++ })
	require.Eventually(t, func() bool { return c.Stats().Waiting == 200 }, time.Minute, time.Millisecond)
	require.NoError(t, first.Unlock(bounded.Context(t)))
	bounded.Wait(t, wg)
	require.Equal(t, 200, turns)
}

func TestNOPERMIsFinal(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "reader", "on", ">pw", "~*", "&*", "+@all", "-hset")
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("reader"), redis.DialPassword("pw"))
	}}
	c := fixture.Client(t, pool, lock.Config{})
	_, err := c.Mutex("m").Lock(bounded.Context(t))
	require.Error(t, err)
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.NotErrorIs(t, err, lock.ErrNotAcquired)
	require.ErrorContains(t, err, "Redis refused")
}

func TestDocumentedACLLineIsEnough(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.GiveRights(t, s, fixture.RightsOfPage(t, "../../lock/SERVERS.md")[0])
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
	}}
	c, err := lock.New(pool, lock.Config{KeyPrefix: "app:", Lease: 300 * time.Millisecond, MaxPoll: time.Hour})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	defer fixture.CloseNow(c)
	mu := c.Mutex("m")
	held, err := mu.Lock(ctx)
	require.NoError(t, err)
	inner, err := mu.Lock(held.Context(ctx))
	require.NoError(t, err)
	fixture.AwaitRenewed(t, c, 1)
	require.NoError(t, inner.Unlock(ctx))
	_, err = held.Guard(ctx, "INCR", []string{"app:{m}:x"})
	require.ErrorContains(t, err, "Redis refused") // the guarded commands need rights of their own
	other := fixture.Client(t, pool, lock.Config{KeyPrefix: "app:", MaxPoll: time.Hour})
	wg := fixture.LockInTurn(t, other, "m", 1, func(*lock.Held) {})
	fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{app:m}", 1)
	require.NoError(t, held.Unlock(ctx))
	bounded.Wait(t, wg)
	_, err = mu.Inspect(ctx)
	require.NoError(t, err)
	_, err = mu.ForceUnlock(ctx)
	require.NoError(t, err)
	log, err := redis.Values(fixture.Do(t, s, "ACL", "LOG"), nil)
	require.NoError(t, err)
	for _, entry := range log {
		m, err := redis.StringMap(entry, nil)
		if err == nil {
			require.Equal(t, "incr", m["object"], "%v", m)
		}
	}
}

// TestByIDAndDeleteNeedNoMoreThanThePageSays: the rights that the page lists are enough.
func TestByIDAndDeleteNeedNoMoreThanThePageSays(t *testing.T) {
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	for _, list := range fixture.RightsOfPage(t, "../../lock/SERVERS.md") {
		fixture.GiveRights(t, s, list)
	}
	c, err := lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("secret"))
	}}, lock.Config{KeyPrefix: "app:"})
	require.NoError(t, err)
	defer fixture.CloseNow(c)
	ctx := context.Background()
	permits, sem := c.PermitSemaphore("p"), c.Semaphore("s")
	require.NoError(t, permits.Set(ctx, 2))
	held, err := permits.AcquireFor(ctx, 2, time.Hour)
	require.NoError(t, err)
	require.NoError(t, permits.SetLease(ctx, held.Permits()[0], time.Minute))
	_, err = permits.Lease(ctx, held.Permits()[0])
	require.NoError(t, err)
	require.NoError(t, permits.Release(ctx, held.Permits()...))
	_, err = sem.TrySet(ctx, 1)
	require.NoError(t, err)
	done, err := sem.ReleaseIfExists(ctx, 1)
	require.NoError(t, err)
	require.True(t, done)
	for _, x := range []interface {
		Expire(context.Context, time.Duration) (bool, error)
		TTL(context.Context) (time.Duration, error)
		Delete(context.Context) (bool, error)
	}{permits, sem} {
		done, err := x.Expire(ctx, time.Hour)
		require.NoError(t, err)
		require.True(t, done)
		_, err = x.TTL(ctx)
		require.NoError(t, err)
		done, err = x.Delete(ctx)
		require.NoError(t, err)
		require.True(t, done)
	}
	log, err := redis.Values(fixture.Do(t, s, "ACL", "LOG"), nil)
	require.NoError(t, err)
	require.Empty(t, log, fmt.Sprint(log))
	_ = held.Unlock(ctx)
}
