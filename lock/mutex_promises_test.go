package lock_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

func TestAWaitOnALockOfThisVeryClientIsWarnedAboutOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		ctx := context.Background()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		short, cancel := context.WithTimeout(ctx, 9*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short) // without held.Context
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NotContains(t, log.String(), "still waiting for a lock that this client itself holds")
		long, cancel := context.WithTimeout(ctx, time.Minute)
		defer cancel()
		_, err = c.Mutex("m").Lock(long)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, 1, strings.Count(log.String(), "still waiting for a lock that this client itself holds"), log.String())
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
	})
}

// TestALongWaitSaysWhoHoldsTheLock, and asks for that once in a minute at most, whatever the
// number of calls that wait.
func TestALongWaitSaysWhoHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		var log fixture.Log
		holder, err := lock.New(s.Pool(0), lock.Config{Label: "web-1"})
		require.NoError(t, err)
		c, err := lock.New(s.Pool(0), lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		log.Flush = lock.FlushLog(c)
		ctx := context.Background()
		time.Sleep(time.Second)
		for kind := range fixture.Kinds(holder, "") {
			has := kind // what keeps others out
			if kind == "reader" {
				has = "writer"
			}
			mu := fixture.Kinds(holder, "m")[has]
			before := len(log.String())
			said := func() string { return log.String()[before:] }
			held, err := mu.Lock(ctx)
			require.NoError(t, err)
			var calls sync.WaitGroup
			waitFor := func(name string, d time.Duration) {
				calls.Go(func() {
					short, cancel := context.WithTimeout(ctx, d)
					defer cancel()
					_, err := fixture.Kinds(c, name)[kind].Lock(short)
					require.ErrorIs(t, err, context.DeadlineExceeded)
				})
			}
			waitFor("m", 9*time.Second)
			calls.Wait()
			require.NotContains(t, said(), "still waiting")
			waitFor("m", 50*time.Second)
			waitFor("m", 50*time.Second)
			time.Sleep(time.Second)
			second, err := fixture.Kinds(holder, "n")[has].Lock(ctx)
			require.NoError(t, err)
			waitFor("n", 50*time.Second)
			calls.Wait()
			require.Equal(t, 1, strings.Count(said(), "still waiting"), "%s: %s", kind, said())
			require.Regexp(t, `level=WARN msg="lock: still waiting for a lock that another owner has" name=[mn] waited=[1-4]\ds holder="?`+
				holder.ID()+`:\d+:\d+(:write)?"? label=web-1 advice="[^"]+"( suppressed=\d)?\n`, said(), kind)
			time.Sleep(time.Minute)
			waitFor("m", 150*time.Second)
			calls.Wait()
			require.Equal(t, 2, strings.Count(said(), "still waiting"), kind)
			require.NoError(t, second.Unlock(ctx))
			require.NoError(t, held.Unlock(ctx))
			time.Sleep(time.Minute)
		}
		fixture.Do(t, s, "SET", "m", "another library's", "PX", time.Hour.Milliseconds())
		short, cancel := context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, `another owner has" name=m waited=1\ds holder="" label="" advice="[^"]+"( suppressed=\d)?\n$`, log.String())

		time.Sleep(time.Minute)
		fixture.Do(t, s, "DEL", "m")
		fixture.Do(t, s, "HSET", "m", strings.Repeat("x", 1000), 1)
		fixture.Do(t, s, "PEXPIRE", "m", time.Hour.Milliseconds())
		short, cancel = context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		_, err = c.Mutex("m").Lock(short)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Regexp(t, ` holder=x{256} label="" advice="[^"]+"\n$`, log.String())

		time.Sleep(time.Minute)
		before := len(log.String())
		fixture.Do(t, s, "SET", "s", 0)
		short, cancel = context.WithTimeout(ctx, 50*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Semaphore("s").Acquire(short, 1), context.DeadlineExceeded)
		require.Empty(t, log.String()[before:], "permits have no holder")
		require.NoError(t, c.Close(ctx))
		require.NoError(t, holder.Close(ctx))
	})
}

func TestMaxHoldEndsALockThatIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{MaxHold: 10 * time.Minute})
		require.NoError(t, err)
		ctx, began := context.Background(), time.Now()
		held, err := c.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		work := held.Context(ctx)
		<-work.Done()
		var lost *lock.LostError
		require.ErrorAs(t, context.Cause(work), &lost)
		require.Equal(t, lock.MaxHold, lost.Reason)
		require.InDelta(t, 10*time.Minute.Seconds(), time.Since(began).Seconds(), 1)
		require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
		require.NoError(t, c.Close(ctx))
	})
}

func TestATokenCounterAtItsEndIsAnErrorAndOneThatIsNoNumberIsReplaced(t *testing.T) {
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{})
	ctx := bounded.Context(t)
	fixture.Do(t, s, "SET", "wheellock_token", "9007199254740991")
	_, err := c.Mutex("m").Lock(ctx)
	require.ErrorContains(t, err, "past 2^53; set it to the seconds of TIME x 2^20, do not delete it")
	require.NotErrorIs(t, err, lock.ErrUnknown)
	require.False(t, fixture.Exists(t, s, "m"))
	for _, counter := range []string{"no number", "-7", "1e300x"} {
		fixture.Do(t, s, "SET", "wheellock_token", counter)
		held := fixture.Hold(t, c.Mutex("m").Lock)
		require.Greater(t, held.Token(), time.Now().Add(-time.Hour).Unix()<<20)
		require.NoError(t, held.Unlock(ctx))
	}
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
	wg := fixture.InTurn(t, c, t.Name(), 1, func(*lock.Held) {})
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
	wg := fixture.InTurn(t, c, t.Name(), 1, func(*lock.Held) { close(got) })
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

// A hand-off publishes nothing; the end of a run does, for others to try.
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
	wg := fixture.InTurn(t, c, t.Name(), waiters, func(*lock.Held) {})
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
