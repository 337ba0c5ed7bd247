package world_test

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/topology"
)

// shardedOnOneServer is a Topology without slots that sets how releases are published there.
type shardedOnOneServer struct{ *fixture.Shifting }

func (shardedOnOneServer) Traits() topology.Traits {
	return topology.Traits{PubSub: topology.PubSubSharded}
}

// TestReleasesAreShardedWhereThereAreSlotsAlone: without slots, a client does not ask the server whether
// it has sharded pub/sub, and uses PUBLISH.
func TestReleasesAreShardedWhereThereAreSlotsAlone(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	var asked atomic.Int32
	p := fixture.Proxy(t, s, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "SPUBLISH" || c.Args[0] == "SSUBSCRIBE" || c.Args[0] == "INFO" && c.Args[1] == "server" {
			asked.Add(1)
		}
		return faultproxy.Pass
	})
	for name, source := range map[string]func() any{
		"pool":     func() any { return p.Pool() },
		"topology": func() any { return shardedOnOneServer{fixture.NewShifting(p.Dial)} },
	} {
		t.Run(name, func(t *testing.T) {
			cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: time.Hour}
			a, b := fixture.Client(t, source(), cfg), fixture.Client(t, source(), cfg)
			held := fixture.Hold(t, a.Mutex(t.Name()).Lock)
			got, ctx := make(chan error, 1), bounded.Context(t)
			go func() { got <- b.Mutex(t.Name()).Do(ctx, func(context.Context, *lock.Held) error { return nil }) }()
			fixture.AwaitSubscribers(t, s, "redisson_lock__channel:{"+t.Name()+"}", 1)
			require.NoError(t, held.Unlock(ctx))
			require.NoError(t, bounded.Receive(t, got))
			require.Zero(t, asked.Load())
			require.Equal(t, lock.PubSub{Plain: 1}, a.Stats().PubSub)
		})
	}
}

// plainOnCluster is a Cluster whose servers are set to PUBLISH.
type plainOnCluster struct{ *fixture.Islands }

func (plainOnCluster) Traits() topology.Traits {
	return topology.Traits{Slots: true, PubSub: topology.PubSubPlain}
}

// TestAWaiterListensWhereItsSlotIs. When the slot moves, the waiter listens at its new server at once,
// because that server may publish in another way.
func TestAWaiterListensWhereItsSlotIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		is := fixture.NewIslands(t, "a", "b")
		cfg := lock.Config{Lease: 10 * time.Minute, IOTimeout: time.Second, MaxPoll: time.Hour}
		c, err := lock.NewTopology(plainOnCluster{is}, cfg)
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() { got <- c.Mutex("m").Do(t.Context(), func(context.Context, *lock.Held) error { return nil }) }()
		is.Do(t, "a", "HSET", "m", "somebody:1", 1)
		is.Do(t, "a", "PEXPIRE", "m", time.Hour.Milliseconds())
		is.AssignSlots("a")
		time.Sleep(time.Minute) // it has looked, and listens
		require.Empty(t, got)
		moved := time.Now()
		is.AssignSlots("b")
		require.NoError(t, <-got)
		require.Less(t, time.Since(moved), time.Second)
		require.NoError(t, c.Close(t.Context()))
	})
}

// TestTheServerOfAURLIsNamedInTheLog before the first dial too.
func TestTheServerOfAURLIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	for url, server := range map[string]string{"redis://u:s3cret@redis.example/2": "redis.example:6379", "unix:///run/redis.sock": "/run/redis.sock"} {
		var log fixture.Log
		c, err := lock.Endpoint{URL: url, NetDial: func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("no way") }}.
			Open(lock.Config{Logger: log.Logger()})
		require.NoError(t, err)
		_, err = c.Mutex("m").TryLock(bounded.Context(t))
		require.ErrorIs(t, err, lock.ErrNotSent)
		fixture.CloseNow(c) // all is logged
		require.Contains(t, log.String(), " server="+server+" ")
		require.NotContains(t, log.String(), "s3cret")
	}
}

// TestAPoolsServerIsNamedInTheLog once the pool has dialled it, with a context or not.
func TestAPoolsServerIsNamedInTheLog(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t, "--maxmemory-policy", "allkeys-lru", "--maxmemory", "1gb")
	for name, pool := range map[string]*redis.Pool{
		s.Addr():       {DialContext: func(ctx context.Context) (redis.Conn, error) { return s.DialContext(ctx) }},
		`"the pool's"`: {Dial: func() (redis.Conn, error) { return s.Dial() }},
	} {
		var log fixture.Log
		c := fixture.Client(t, pool, lock.Config{Logger: log.Logger()})
		require.NoError(t, fixture.Hold(t, c.Mutex(t.Name()).Lock).Unlock(bounded.Context(t)))
		fixture.CloseNow(c) // all is logged
		require.Contains(t, log.String(), "this Redis evicts keys")
		require.Contains(t, log.String(), " server="+name+" ")
	}
}
