package lock_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/renewal"
)

// lockMany takes n locks, prefix0 to prefix<n-1>.
func lockMany(t *testing.T, c *lock.Client, prefix string, n int) []*lock.Held {
	t.Helper()
	helds := make([]*lock.Held, n)
	var wg sync.WaitGroup
	for g := range 16 {
		wg.Go(func() {
			for i := g; i < n; i += 16 {
				held, err := c.Mutex(fmt.Sprint(prefix, i)).Lock(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				helds[i] = held
			}
		})
	}
	wg.Wait()
	require.False(t, t.Failed())
	return helds
}

// awaitRenewed waits until n more renewals were acknowledged.
func awaitRenewed(t *testing.T, c *lock.Client, n int) {
	t.Helper()
	want := c.Stats().Renewal.Renewed + uint64(n)
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed >= want }, 30*time.Second, 5*time.Millisecond)
}

// TestAStoppedServer is SIGSTOP: it takes connections and bytes, answers
// nothing, and its TTLs run on.
func TestAStoppedServer(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	c := newClient(t, s, lock.Config{Lease: 2 * time.Second})
	helds := lockMany(t, c, "m", 2000)
	awaitRenewed(t, c, 2000)
	require.NoError(t, s.Pause())
	for _, held := range helds {
		<-held.Done()
		require.False(t, held.Valid())
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.TrustEnded, lost.Reason)
	}
	require.Equal(t, map[renewal.Reason]int{renewal.TrustEnded: 2000}, c.Stats().Renewal.Lost, "each once")
	require.NoError(t, s.Resume())
	again := lockMany(t, c, "m", 2000)
	awaitRenewed(t, c, 6000)
	for i, held := range again {
		require.True(t, held.Valid(), i)
	}
}

// TestTrustEndsBeforeAStoppedServerWouldExpireTheKey asks the server itself, as
// soon as it goes on, what was left of the keys when their holders were told.
func TestTrustEndsBeforeAStoppedServerWouldExpireTheKey(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	c := newClient(t, s, lock.Config{Lease: 4 * time.Second, Renewal: renewal.Config{Margin: time.Second}})
	helds := lockMany(t, c, "m", 100)
	awaitRenewed(t, c, 100)
	require.NoError(t, s.Pause())
	for _, held := range helds {
		<-held.Done()
	}
	require.NoError(t, s.Resume())
	left := 0
	for _, held := range helds {
		if exists(t, s, held.Name()) {
			left++
		}
	}
	require.Positive(t, left, "told while the server had the keys")
}

func TestRenewalSurvivesServerStates(t *testing.T) {
	t.Parallel()
	for name, state := range map[string]struct {
		begin, end func(*testing.T, *redistest.Server)
	}{
		"forgotten script": {
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "SCRIPT", "FLUSH") },
			func(*testing.T, *redistest.Server) {},
		},
		"connections killed": {
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "CLIENT", "KILL", "TYPE", "normal") },
			func(*testing.T, *redistest.Server) {},
		},
		"READONLY": {
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "REPLICAOF", "127.0.0.1", "1") },
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "REPLICAOF", "NO", "ONE") },
		},
		"OOM": {
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "CONFIG", "SET", "maxmemory", "1") },
			func(t *testing.T, s *redistest.Server) { redisDo(t, s, "CONFIG", "SET", "maxmemory", "0") },
		},
		"stopped for a moment": {
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Pause()) },
			func(t *testing.T, s *redistest.Server) { require.NoError(t, s.Resume()) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait most of the time
			s := ownServer(t)
			c := newClient(t, s, lock.Config{Lease: 9 * time.Second, Renewal: renewal.Config{MaxBatch: 10}})
			helds := lockMany(t, c, "m", 1000)
			awaitRenewed(t, c, 100)
			state.begin(t, s)
			time.Sleep(300 * time.Millisecond) // some renewals fall into it
			state.end(t, s)
			awaitRenewed(t, c, 1000)
			require.Empty(t, c.Stats().Renewal.Lost)
			for _, held := range helds {
				require.True(t, held.Valid())
			}
		})
	}
}

// TestOneKeyThatRedisRefusesCostsOnlyItself: an ACL that lost the right to one
// lock makes every batch with it fail as a whole.
func TestOneKeyThatRedisRefusesCostsOnlyItself(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	redisDo(t, s, "ACL", "SETUSER", "locker", "on", ">pw", "~*", "&*", "+@all")
	pool := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		return s.DialContext(ctx, redis.DialUsername("locker"), redis.DialPassword("pw"))
	}}
	c, err := lock.New(pool, lock.Config{Lease: 4 * time.Second})
	require.NoError(t, err)
	defer closeNow(c)
	good := lockMany(t, c, "good:", 3000)
	bad, err := c.Mutex("bad").Lock(context.Background())
	require.NoError(t, err)
	redisDo(t, s, "ACL", "SETUSER", "locker", "resetkeys", "~good:*")
	<-bad.Done()
	var lost *lock.LostError
	require.ErrorAs(t, bad.Err(), &lost)
	require.Equal(t, lock.TrustEnded, lost.Reason)
	awaitRenewed(t, c, 6000)
	require.Equal(t, map[renewal.Reason]int{renewal.TrustEnded: 1}, c.Stats().Renewal.Lost)
	for _, held := range good {
		require.True(t, held.Valid())
	}
}

// TestAKeyOfTheWrongTypeCostsOnlyItself and is told as gone.
func TestAKeyOfTheWrongTypeCostsOnlyItself(t *testing.T) {
	t.Parallel()
	s := ownServer(t)
	c := newClient(t, s, lock.Config{Lease: 3 * time.Second})
	helds := lockMany(t, c, "m", 500)
	redisDo(t, s, "SET", "m100", "a string")
	<-helds[100].Done()
	var lost *lock.LostError
	require.ErrorAs(t, helds[100].Err(), &lost)
	require.Equal(t, lock.NotOwner, lost.Reason)
	awaitRenewed(t, c, 1500)
	require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: 1}, c.Stats().Renewal.Lost)
}
