package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/locktest"
)

func TestAnHourOfRenewalsPassesInNoTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		client := srv.Client(lock.Config{})
		var helds []*lock.Held
		for i := range 10 {
			held, err := client.Mutex(fmt.Sprint("job:", i)).Lock(t.Context())
			require.NoError(t, err)
			helds = append(helds, held)
		}
		require.Len(t, srv.Locks(), 10)
		time.Sleep(time.Hour)
		require.InDelta(t, 3600, float64(client.Stats().Renewal.Renewed), 10)
		for _, held := range helds {
			require.True(t, held.Valid())
			require.NoError(t, held.Unlock(t.Context()))
		}
		require.Empty(t, srv.Locks())
	})
}

func TestTwoClientsExcludeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		one, rival := srv.Client(lock.Config{KeyPrefix: "app:"}), srv.Client(lock.Config{KeyPrefix: "app:"})
		held, err := one.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		_, err = rival.Mutex("job").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, []string{"app:job"}, srv.Locks())

		var got *lock.Held
		var waited sync.WaitGroup
		waited.Go(func() { got, _ = rival.Mutex("job").Lock(t.Context()) })
		time.Sleep(time.Minute)
		require.Nil(t, got)
		require.NoError(t, held.Unlock(t.Context()))
		waited.Wait()
		require.Greater(t, got.Token(), held.Token())
	})
}

func TestADeletedLockIsToldWithinAThirdOfTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		held, err := srv.Client(lock.Config{}).Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Hour)
		began := time.Now()
		require.True(t, srv.Delete("job"))
		require.False(t, srv.Delete("job"))
		work := held.Context(t.Context())
		<-work.Done()
		require.LessOrEqual(t, time.Since(began), 10*time.Second+100*time.Millisecond)
		var lost *lock.LostError
		require.ErrorAs(t, context.Cause(work), &lost)
		require.Equal(t, lock.NotOwner, lost.Reason)
	})
}

// TestWhoIsCutOffIsToldBeforeARivalHasTheLock tests the promise of package lock in the way in which a
// service can test itself.
func TestWhoIsCutOffIsToldBeforeARivalHasTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		link := srv.Link()
		client, rival := link.Client(lock.Config{}), srv.Client(lock.Config{})
		held, err := client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		time.Sleep(time.Minute)
		link.Cut()
		var told time.Time
		var watch sync.WaitGroup
		watch.Go(func() { <-held.Done(); told = time.Now() })
		theirs, err := rival.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		taken := time.Now()
		watch.Wait()
		require.True(t, told.Before(taken), "told %v, taken %v", told, taken)
		require.False(t, held.Valid())
		require.Greater(t, theirs.Token(), held.Token())

		_, err = client.Mutex("other").TryLock(t.Context())
		require.True(t, errors.Is(err, lock.ErrUnknown) || errors.Is(err, lock.ErrNotSent), err)
		link.Mend()
		again, err := client.Mutex("other").Lock(t.Context())
		require.NoError(t, err)
		require.True(t, again.Valid())
	})
}

func TestAPausedServerMakesOutcomesUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		client := srv.Client(lock.Config{Connections: 1}) // a new one would not be made, and nothing sent
		held, err := client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		srv.Pause()
		_, err = client.Mutex("other").TryLock(t.Context())
		require.ErrorIs(t, err, lock.ErrUnknown)
		_, err = srv.Do("PING")
		require.Error(t, err)
		<-held.Done()
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.TrustEnded, lost.Reason)
		srv.Resume()
		held, err = client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestARestartedServerIsEmpty(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		client := srv.Client(lock.Config{})
		before, err := client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		srv.Restart()
		require.Empty(t, srv.Locks())
		<-before.Done()
		after, err := client.Mutex("job").Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, after.Token(), before.Token(), "tokens rise over an empty restart")
	})
}

// TestLocksAreThoseThatSomebodyHolds although waiters leave hashes of their own in Redis.
func TestLocksAreThoseThatSomebodyHolds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		one, two := srv.Client(lock.Config{}), srv.Client(lock.Config{})
		reading, err := one.RWMutex("rw").Reader().Lock(t.Context())
		require.NoError(t, err)
		fair, err := one.FairMutex("fair").Lock(t.Context())
		require.NoError(t, err)
		fenced, err := one.FencedMutex("fenced").Lock(t.Context())
		require.NoError(t, err)
		var waiting sync.WaitGroup
		ctx, cancel := context.WithCancel(t.Context())
		waiting.Go(func() { _, _ = two.RWMutex("rw").Writer().Lock(ctx) })
		waiting.Go(func() { _, _ = two.FairMutex("fair").Lock(ctx) })
		time.Sleep(time.Minute)
		require.Equal(t, []string{"fair", "fenced", "rw"}, srv.Locks())
		keys, err := redis.Strings(srv.Do("KEYS", "*:wheellock_w*"))
		require.NoError(t, err)
		require.Len(t, keys, 2, "waiters leave signs of theirs: %v", keys)
		cancel()
		waiting.Wait()
		for _, held := range []*lock.Held{reading, fair, fenced} {
			require.NoError(t, held.Unlock(t.Context()))
		}
		require.Empty(t, srv.Locks())
	})
}

// TestAServiceMayMakeItsOwnClient from a pool of a Link.
func TestAServiceMayMakeItsOwnClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		link := locktest.NewServer(t).Link()
		client, err := lock.New(link.Pool(), lock.Config{})
		require.NoError(t, err)
		conn := link.Pool().Get()
		_, err = conn.Do("PING")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, client.Mutex("job").Do(t.Context(), func(context.Context, *lock.Held) error { return nil }))
		require.NoError(t, client.Close(t.Context()))
	})
}

func TestItWorksInRealTimeToo(t *testing.T) {
	client := locktest.New(t, lock.Config{})
	held, err := client.Mutex("job").LockFor(t.Context(), 200*time.Millisecond)
	require.NoError(t, err)
	bounded.Receive(t, held.Done())
	require.ErrorIs(t, held.Err(), lock.ErrLost)
	again, err := client.Mutex("job").Lock(t.Context())
	require.NoError(t, err)
	require.True(t, again.Valid())
}

func TestABadConfigFailsTheTest(t *testing.T) {
	tt := &fakeT{}
	defer tt.end()
	require.Panics(t, func() { locktest.New(tt, lock.Config{Lease: time.Millisecond}) })
	require.Contains(t, tt.fatal, "Config.Lease")
}

// TestARedLockOfServersInMemoryIsDurable, because the servers do not tell how long they have been up.
func TestARedLockOfServersInMemoryIsDurable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members []*lock.Mutex
		var servers []*locktest.Server
		for range 3 {
			srv := locktest.NewServer(t)
			servers = append(servers, srv)
			members = append(members, srv.Client(lock.Config{}).Mutex("ledger"))
		}
		asked, err := lock.NewRedLock(lock.RedLockConfig{}, members...)
		require.NoError(t, err)
		time.Sleep(time.Hour) // long enough for a vote
		_, err = asked.TryLock(t.Context())
		require.ErrorContains(t, err, "uptime")
		time.Sleep(time.Minute) // until all members are released, although a quorum would be enough

		red, err := lock.NewRedLock(lock.RedLockConfig{Durable: true}, members...)
		require.NoError(t, err)
		held, err := red.Lock(t.Context())
		require.NoError(t, err)
		servers[0].Restart() // it forgets; a majority does not
		time.Sleep(time.Hour)
		require.True(t, held.Valid())
		require.NoError(t, held.Unlock(t.Context()))
	})
}
