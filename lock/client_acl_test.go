package lock_test

import (
	"context"
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

// The lines of lock/SERVERS.md, as the servers of each version take them.
func TestTheFamilyNeedsNoMoreThanThePageSays(t *testing.T) {
	t.Parallel()
	ofPage := func(string) bool { return true }
	knows62 := fixture.Can(t, redistest.ChannelRights)
	for version, test := range map[string]struct {
		args  []string // make a newer server what it is
		word  func(string) bool
		needs redistest.Ability
	}{
		"7": {nil, ofPage, redistest.ChannelRights},
		// A new user may use all channels, and no pattern can be added to that.
		"6.2": {[]string{"--acl-pubsub-default", "allchannels"}, ofPage, redistest.ChannelRights},
		// It knows no channels.
		"6.0": {[]string{"--acl-pubsub-default", "allchannels"}, func(word string) bool {
			return word != "resetchannels" && (knows62 || word != "+hrandfield" && word != "+zmscore") && !strings.HasPrefix(word, "&")
		}, redistest.Users},
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			fixture.Needs(t, test.needs)
			if !fixture.Can(t, redistest.ChannelRights) {
				test.args = nil // it is 6.0
			}
			testFamilyRights(t, fixture.Server(t, test.args...), test.word)
		})
	}
}

func testFamilyRights(t *testing.T, s *redistest.Server, ofVersion func(word string) bool) {
	for i, line := range fixture.RightsOfPage(t, "SERVERS.md") {
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
		for _, tag := range []string{"", "{g}"} { // whose names have braces have other keys and channels
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

// testMutexRights does what needs the first list alone.
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

// testFamilyOf does what needs the second one, too.
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

// testTakes takes each, enters it again, waits for it, and extends it.
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
		// One that waits and leaves, and one that waits and gets it.
		wait, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		other, err := take(wait)
		cancel()
		if err == nil { // it reads too
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
