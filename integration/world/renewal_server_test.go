package world_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// TestAStoppedServerLosesEachHoldOnce: a server that was stopped by SIGSTOP still accepts
// connections and bytes, but does not answer, and its TTLs run on.
func TestAStoppedServerLosesEachHoldOnce(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 2 * time.Second})
	helds := fixture.LockAll(t, c, fixture.Names("m", 2000))
	fixture.AwaitRenewed(t, c, 2000)
	require.NoError(t, s.Pause())
	for _, held := range helds {
		fixture.RequireLost(t, held, lock.TrustEnded)
	}
	require.Equal(t, map[renewal.Reason]int{renewal.TrustEnded: 2000}, c.Stats().Renewal.Lost, "each once")
	require.NoError(t, s.Resume())
	again := fixture.LockAll(t, c, fixture.Names("m", 2000))
	fixture.AwaitRenewed(t, c, 6000)
	for i, held := range again {
		require.True(t, held.Valid(), i)
	}
}

// TestTrustEndsBeforeAStoppedServerWouldExpireTheKey asks the server, as soon as it
// continues, for the TTLs that the keys had when their holders were told.
func TestTrustEndsBeforeAStoppedServerWouldExpireTheKey(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 4 * time.Second, Margin: time.Second})
	helds := fixture.LockAll(t, c, fixture.Names("m", 100))
	fixture.AwaitRenewed(t, c, 100)
	began := time.Now()
	ttl := fixture.PTTL(t, s, helds["m0"].Name()) // later renewals only make TTLs longer
	require.NoError(t, s.Pause())
	bounded.Receive(t, helds["m0"].Done())
	told := time.Since(began)
	for _, held := range helds {
		bounded.Receive(t, held.Done())
	}
	require.NoError(t, s.Resume())
	require.Less(t, told, time.Duration(ttl)*time.Millisecond, "told while the server had the key")
}

func TestRenewalSurvivesServerStates(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server)
	}{
		"forgotten script": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "SCRIPT", "FLUSH") },
			func(*testing.T, *redistest.Server) {},
		},
		"connections killed": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "CLIENT", "KILL", "TYPE", "normal") },
			func(*testing.T, *redistest.Server) {},
		},
		"READONLY": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "REPLICAOF", "NO", "ONE") },
		},
		"OOM": {
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, s *redistest.Server) { fixture.Do(t, s, "CONFIG", "SET", "maxmemory", "0") },
		},
		"stopped for a moment": {
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Pause()) },
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Resume()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			s := fixture.Server(t)
			c := fixture.ClientOf(t, s, lock.Config{Lease: 9 * time.Second, MaxBatch: 10})
			helds := fixture.LockAll(t, c, fixture.Names("m", 1000))
			fixture.AwaitRenewed(t, c, 100)
			state.begin(t, s)
			time.Sleep(300 * time.Millisecond) // long enough for some renewals
			state.end(t, s)
			fixture.AwaitRenewed(t, c, 1000)
			require.Empty(t, c.Stats().Renewal.Lost)
			for _, held := range helds {
				require.True(t, held.Valid())
			}
		})
	}
}

// TestOneKeyThatRedisRefusesCostsOnlyItself: without the right to the key of
// one lock, every batch with this lock fails as a whole.
func TestOneKeyThatRedisRefusesCostsOnlyItself(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	s := fixture.Server(t)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all")
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("pw"))
	}}
	c := fixture.Client(t, pool, lock.Config{Lease: 4 * time.Second})
	good := fixture.LockAll(t, c, fixture.Names("good:", 3000))
	bad := fixture.Hold(t, c.Mutex("bad").Lock)
	fixture.Do(t, s, "ACL", "SETUSER", "locker", "resetkeys", "~good:*")
	fixture.RequireLost(t, bad, lock.TrustEnded)
	fixture.AwaitRenewed(t, c, 6000)
	require.Equal(t, map[renewal.Reason]int{renewal.TrustEnded: 1}, c.Stats().Renewal.Lost)
	for _, held := range good {
		require.True(t, held.Valid())
	}
}

// TestAKeyOfTheWrongTypeCostsOnlyItself: its hold is lost, because the lock is gone.
func TestAKeyOfTheWrongTypeCostsOnlyItself(t *testing.T) {
	fixture.SkipSlow(t)
	t.Parallel()
	s := fixture.Server(t)
	c := fixture.ClientOf(t, s, lock.Config{Lease: 3 * time.Second})
	helds := fixture.LockAll(t, c, fixture.Names("m", 500))
	fixture.Do(t, s, "SET", "m100", "a string")
	fixture.RequireLost(t, helds["m100"], lock.NotOwner)
	fixture.AwaitRenewed(t, c, 1500)
	require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 1}, c.Stats().Renewal.Lost)
}

// TestAReplicaIsNotBelievedThatALockIsGone: a master that has become a replica may lack locks that
// another master granted. It refuses only writes.
func TestAReplicaIsNotBelievedThatALockIsGone(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	ctx := bounded.Context(t)
	clients := map[*lock.Held]*lock.Client{} // a client for each hold, so that the test sees a try of each
	hold := func(take func(*lock.Client) (*lock.Held, error)) *lock.Held {
		c := fixture.ClientOf(t, s, lock.Config{Lease: 15 * time.Second})
		held, err := take(c)
		require.NoError(t, err)
		clients[held] = c
		return held
	}
	mutex := hold(func(c *lock.Client) (*lock.Held, error) { return c.Mutex("m").Lock(ctx) })
	hold(func(c *lock.Client) (*lock.Held, error) { return c.RWMutex("rw").Reader().Lock(ctx) })
	hold(func(c *lock.Client) (*lock.Held, error) {
		if err := c.PermitSemaphore("permits").Set(ctx, 1); err != nil {
			return nil, err
		}
		return c.PermitSemaphore("permits").Acquire(ctx, 1)
	})
	fixture.Do(t, s, "FLUSHALL")
	fixture.Do(t, s, "REPLICAOF", "127.0.0.1", "1") // there is no master at this address
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err := clients[mutex].Mutex("m").Lock(mutex.Context(short))
	require.True(t, fixture.IsNoAnswer(err), "re-entry: %v", err)
	short, cancel = context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	_, err = mutex.Guard(short, "SET", []string{"x"}, 1)
	require.True(t, fixture.IsNoAnswer(err), "guard: %v", err)
	for held, c := range clients {
		require.Eventually(t, func() bool { return c.Stats().Renewal.Retried >= 2 }, time.Minute, 5*time.Millisecond)
		require.True(t, held.Valid(), held.Name())
	}
	fixture.Do(t, s, "REPLICAOF", "NO", "ONE")
	for held := range clients {
		fixture.RequireLost(t, held, lock.NotOwner)
	}
}
