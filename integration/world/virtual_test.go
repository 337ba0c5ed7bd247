package world_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

func TestAnHourOfRenewalsLosesNoLock(t *testing.T) {
	fixture.SkipSlow(t)
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		start := time.Now()
		var helds []*lock.Held
		for i := range 100 {
			held, err := c.Mutex(fmt.Sprint("lock ", i)).Lock(ctx)
			require.NoError(t, err)
			helds = append(helds, held)
		}
		fixed, err := c.Mutex("fixed").LockFor(ctx, 20*time.Minute)
		require.NoError(t, err)
		end := fixed.Deadline()
		<-fixed.Done()
		require.False(t, time.Now().Before(end), "not told before its end")
		require.Less(t, time.Since(end), 20*time.Millisecond, "and within two ticks of it")
		time.Sleep(40 * time.Minute)
		st := c.Stats()
		require.Equal(t, 100, st.Held)
		// Every 10 s. The first renewal comes at a random time within 10 s.
		require.InDelta(t, 100*time.Since(start).Seconds()/10, float64(st.Renewal.Renewed), 100)
		conn, err := s.Dial()
		require.NoError(t, err)
		for i, held := range helds {
			require.True(t, held.Valid())
			ttl, err := redis.Int64(conn.Do("PTTL", held.Name()))
			require.NoError(t, err)
			require.Greater(t, ttl, time.Until(held.Deadline()).Milliseconds(), "lock %d is trusted for less than its TTL", i)
			require.NoError(t, held.Unlock(ctx))
		}
		require.NoError(t, conn.Close())
		require.NoError(t, c.Close(ctx))
	})
}

func TestAWaiterGetsAnAbandonedLockWithinItsTTLAndMaxPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		ctx, cancel := context.WithCancel(context.Background())
		dead, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		_, err = dead.Mutex("m").Lock(ctx)
		require.NoError(t, err)
		cancel()
		require.Error(t, dead.Close(ctx)) // the holder is gone, but its key stays
		start := time.Now()
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		held, err := c.Mutex("m").Lock(context.Background())
		require.NoError(t, err)
		require.LessOrEqual(t, time.Since(start), 35*time.Second)
		require.NoError(t, held.Unlock(context.Background()))
		require.NoError(t, c.Close(context.Background()))
	})
}

// TestWaitersOfLocksThatAreHeldForLongSeldomLook: as long as its subscription loses
// nothing, a waiter looks when the lease that it has seen ends, not each MaxPoll. Only one of
// each client looks each MaxPoll, for a server that has become a replica. A key that goes
// without a message is noticed when the lease ends.
func TestWaitersOfLocksThatAreHeldForLongSeldomLook(t *testing.T) {
	fixture.SkipSlow(t)
	for _, waiters := range []int{1, 50} {
		synctest.Test(t, func(t *testing.T) {
			s := fixture.Virtual(t)
			holder, err := lock.New(s.Pool(0), lock.Config{})
			require.NoError(t, err)
			c, err := lock.New(s.Pool(0), lock.Config{})
			require.NoError(t, err)
			ctx := context.Background()
			var helds []*lock.Held
			got := make(chan *lock.Held, waiters)
			for _, name := range fixture.Names("m", waiters) {
				held, err := holder.Mutex(name).Lock(ctx)
				require.NoError(t, err)
				helds = append(helds, held)
				go func() {
					held, err := c.Mutex(name).Lock(ctx)
					if err != nil {
						t.Error(err)
					}
					got <- held
				}()
			}
			time.Sleep(time.Hour)
			tries := int(c.Stats().Tries)
			require.Less(t, tries, waiters*(3600/20+5)+3600/5)
			require.Greater(t, tries, waiters*(3600/30-5))
			for _, held := range helds {
				fixture.Do(t, s, "DEL", held.Name())
			}
			gone := time.Now()
			for range helds {
				other := <-got
				require.LessOrEqual(t, time.Since(gone), 31*time.Second)
				require.NoError(t, other.Unlock(ctx))
			}
			for _, held := range helds {
				require.ErrorIs(t, held.Unlock(ctx), lock.ErrLost)
			}
			require.NoError(t, c.Close(ctx))
			require.NoError(t, holder.Close(ctx))
		})
	}
}

// virtualRedLock returns a RedLock on three servers in virtual time, and a function that closes them.
func virtualRedLock(t *testing.T) (r *lock.RedLock, servers []*redistest.Server, done func()) {
	var members []*lock.Mutex
	var clients []*lock.Client
	for range 3 {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		servers, clients, members = append(servers, s), append(clients, c), append(members, c.Mutex("m"))
	}
	r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
	require.NoError(t, err)
	return r, servers, func() {
		for _, c := range clients {
			require.NoError(t, c.Close(context.Background()))
		}
	}
}

// TestARedLockIsToldAtItsDeadline, which is earlier than the deadlines of its members by the allowance
// for clocks that run at different speeds.
func TestARedLockIsToldAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, _, done := virtualRedLock(t)
		defer done()
		ctx := context.Background()
		renewed, err := r.Lock(ctx)
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.True(t, renewed.Valid())
		require.NoError(t, renewed.Unlock(ctx))
		fixed, err := r.LockFor(ctx, 30*time.Second)
		require.NoError(t, err)
		require.InDelta(t, 30-30*0.02-30*0.01-0.002, time.Until(fixed.Deadline()).Seconds(), 0.02)
		end := fixed.Deadline()
		<-fixed.Done()
		require.False(t, fixed.Valid())
		require.False(t, time.Now().Before(end))
		require.Less(t, time.Since(end), 20*time.Millisecond)
		require.ErrorIs(t, fixed.Unlock(ctx), lock.ErrLost)
	})
}

// TestARedLockIsToldAtADeadlineThatALossMovedEarlier: a member with a short lease is cut off.
// Then the key of a member with a long lease is deleted, so the short lease counts.
func TestARedLockIsToldAtADeadlineThatALossMovedEarlier(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members []*lock.Mutex
		var servers []*redistest.Server
		for _, lease := range []time.Duration{20 * time.Second, 30 * time.Second, 30 * time.Second} {
			s := fixture.Virtual(t)
			c, err := lock.New(s.Pool(0), lock.Config{Lease: lease})
			require.NoError(t, err)
			defer fixture.CloseNow(c)
			servers, members = append(servers, s), append(members, c.Mutex("m"))
		}
		r, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		held, err := r.Lock(context.Background())
		require.NoError(t, err)
		require.Equal(t, 3, held.Members())
		before := held.Deadline()
		require.NoError(t, servers[0].Pause())
		require.NoError(t, servers[1].Pause())
		fixture.Do(t, servers[2], "DEL", "m")
		for held.Members() == 3 {
			time.Sleep(10 * time.Millisecond)
		}
		end := held.Deadline()
		require.True(t, end.Before(before.Add(-5*time.Second)))
		require.True(t, held.Valid())
		require.NoError(t, held.Err())
		<-held.Done()
		require.False(t, time.Now().Before(end), "not told early")
		require.Less(t, time.Since(end), 2*time.Millisecond)
		require.False(t, held.Valid())
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.TrustEnded, lost.Reason)
		require.NoError(t, servers[0].Resume())
		require.NoError(t, servers[1].Resume())
		require.ErrorIs(t, held.Unlock(context.Background()), lock.ErrLost)
	})
}

func TestASilentMemberDoesNotHoldUpEachAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, servers, done := virtualRedLock(t)
		defer done()
		ctx := context.Background()
		// lockFor returns how long Lock took, and how many members it got.
		lockFor := func() (time.Duration, int) {
			began := time.Now()
			held, err := r.Lock(ctx)
			require.NoError(t, err)
			took, members := time.Since(began), held.Members()
			require.NoError(t, held.Unlock(ctx))
			return took, members
		}
		_, members := lockFor()
		require.Equal(t, 3, members)
		require.NoError(t, servers[1].Pause())
		_, members = lockFor() // Lock waits for the silent member for a second at most
		require.Equal(t, 2, members)
		for range 3 {
			took, members := lockFor()
			require.Equal(t, 2, members)
			require.Less(t, took, 100*time.Millisecond)
		}
		require.NoError(t, servers[1].Resume())
		time.Sleep(time.Minute) // late takes have been released, and attempts wait for the member again
		_, members = lockFor()
		require.Equal(t, 3, members)
	})
}

// TestAnAcquireThatRedisMayHaveForgottenEndsUnknown: Redis remembers a result for
// 30 s, so the client stops sending the request again before that.
func TestAnAcquireThatRedisMayHaveForgottenEndsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		sem := c.Semaphore("s")
		_, err = sem.TrySet(ctx, 1)
		require.NoError(t, err)
		require.NoError(t, s.Pause())
		began := time.Now()
		err = sem.Acquire(ctx, 1)
		require.ErrorIs(t, err, lock.ErrUnknown)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
		require.GreaterOrEqual(t, time.Since(began), 20*time.Second)
		require.Less(t, time.Since(began), 25*time.Second)
		require.NoError(t, s.Resume())
		require.NoError(t, c.Close(ctx))
	})
}

// TestAReleaseOfASemaphoreInALongOutageTakesPlaceAfterIt. Its error is unknown.
func TestAReleaseOfASemaphoreInALongOutageTakesPlaceAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := fixture.Virtual(t)
		c, err := lock.New(s.Pool(0), lock.Config{})
		require.NoError(t, err)
		ctx := context.Background()
		sem := c.Semaphore("s")
		_, err = sem.TrySet(ctx, 5)
		require.NoError(t, err)
		require.NoError(t, s.Pause())
		require.ErrorIs(t, sem.Release(ctx, 2), lock.ErrUnknown)
		time.Sleep(10 * time.Second)
		require.NoError(t, s.Resume())
		time.Sleep(5 * time.Second)
		n, err := sem.Available(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		time.Sleep(time.Minute)
		n, err = sem.Available(ctx)
		require.NoError(t, err)
		require.EqualValues(t, 7, n)
		require.NoError(t, c.Close(ctx))
	})
}
