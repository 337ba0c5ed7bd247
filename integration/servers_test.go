package integration_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/integration/redistest/container"
	"github.com/wheellock/wheellock/lock"
)

// starter starts servers of one kind.
type starter struct {
	kind      redistest.Kind
	start     func(context.Context, redistest.Options) (*redistest.Server, error)
	available func() error // returns why there are no such servers; it looks only once
	absent    []error      // the errors of available on a machine that has no such servers
	required  func() bool  // reports whether a test must not be skipped for that reason
}

// starters are the kinds of servers that the tests of this package run on:
// processes and containers, as far as they are available.
var starters = []starter{
	{
		kind: redistest.Process, start: redistest.Start, required: redistest.Required,
		available: sync.OnceValue(func() error {
			s, err := redistest.Start(context.Background(), redistest.Options{})
			if err != nil {
				return err
			}
			return s.Stop()
		}),
		absent: []error{redistest.ErrNoServer},
	},
	{
		kind: container.Container, start: container.Start, required: container.Required,
		available: sync.OnceValue(func() error { return container.Available(context.Background()) }),
		absent:    []error{container.ErrNoEngine, container.ErrNoImage},
	},
}

// skipUnlessAvailable skips the test where there are no servers of the kind.
func (s starter) skipUnlessAvailable(t *testing.T) {
	t.Helper()
	err := s.available()
	for _, absent := range s.absent {
		if errors.Is(err, absent) && !s.required() {
			fixture.SkipLacking(t, fmt.Sprintf("no %s: %v", s.kind, err))
		}
	}
	require.NoError(t, err)
}

// processes is the starter of redis-server processes.
func processes(t *testing.T) starter {
	t.Helper()
	starters[0].skipUnlessAvailable(t)
	return starters[0]
}

// containers is the starter of containers.
func containers(t *testing.T) starter {
	t.Helper()
	starters[1].skipUnlessAvailable(t)
	return starters[1]
}

// TestOnWhichServers prints what the others run on.
func TestOnWhichServers(t *testing.T) {
	for _, s := range starters {
		t.Run(string(s.kind), func(t *testing.T) {
			t.Parallel()
			s.skipUnlessAvailable(t)
			t.Log(startOwn(t, s))
		})
	}
}

// onEach runs the test on a server of its own of each kind.
func onEach(t *testing.T, f func(t *testing.T, s *redistest.Server)) {
	for _, s := range starters {
		t.Run(string(s.kind), func(t *testing.T) {
			t.Parallel()
			s.skipUnlessAvailable(t)
			f(t, startOwn(t, s))
		})
	}
}

// startOwn starts a server that the test may break.
func startOwn(t *testing.T, s starter) *redistest.Server {
	t.Helper()
	srv, err := s.start(bounded.Context(t), redistest.Options{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	return srv
}

func TestALockOnEachKindOfServer(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *redistest.Server) {
		ctx := bounded.Context(t)
		// No waiter polls, so only a message wakes a waiter.
		cfg := lock.Config{Lease: 10 * time.Second, MaxPoll: time.Hour}
		a, b := fixture.ClientOf(t, s, cfg), fixture.ClientOf(t, s, cfg)
		name := t.Name()
		held := fixture.Hold(t, a.Mutex(name).Lock)
		_, err := b.Mutex(name).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.Equal(t, int64(1), fixture.Do(t, s, "EXISTS", name))

		// It is renewed while another waits.
		waited := make(chan *lock.Held, 1)
		go func() {
			next, err := b.Mutex(name).Lock(ctx)
			if err != nil {
				t.Error(err)
			}
			waited <- next
		}()
		fixture.AwaitRenewed(t, a, 1)
		require.True(t, held.Valid(), "it is renewed")
		require.Equal(t, int64(1), fixture.Do(t, s, "EXISTS", name))
		channel := "redisson_lock__channel:{" + name + "}"
		fixture.AwaitSubscribers(t, s, channel, 1)

		require.NoError(t, held.Unlock(ctx))
		next := bounded.Receive(t, waited)
		require.NotNil(t, next)
		require.Greater(t, next.Token(), held.Token())

		// What DEL takes is told by the next renewal.
		fixture.Do(t, s, "DEL", name)
		fixture.RequireLost(t, next, lock.NotOwner)
		require.ErrorIs(t, next.Unlock(ctx), lock.ErrLost)
		require.Equal(t, int64(0), fixture.Do(t, s, "EXISTS", name))
		for _, c := range []*lock.Client{a, b} {
			require.NoError(t, c.Close(ctx))
		}
	})
}

// TestAServerThatHangsOrDies on each kind: the holder of a lock on a hung server is told while the
// server still has the key. After an empty restart the holder is told at its next renewal.
func TestAServerThatHangsOrDies(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, s *redistest.Server) {
		if s.Kind() == container.Container {
			fixture.SkipSimulated(t)
		}
		ctx := bounded.Context(t)
		// The margin is what a busy machine may take between PTTL and Pause.
		c := fixture.ClientOf(t, s, lock.Config{Lease: 8 * time.Second, Margin: 2 * time.Second})
		other := fixture.ClientOf(t, s, lock.Config{Lease: 15 * time.Second}) // a restart may take seconds
		held := fixture.Hold(t, c.Mutex("hung").Lock)
		began, ttl := time.Now(), fixture.PTTL(t, s, "hung") // a renewal after that makes the TTL longer
		require.NoError(t, s.Pause())
		fixture.RequireLost(t, held, lock.TrustEnded)
		require.NoError(t, s.Resume())
		require.True(t, held.Deadline().Before(began.Add(time.Duration(ttl)*time.Millisecond)), "told while the server had the key")
		next := fixture.Hold(t, other.Mutex("hung").Lock)
		require.False(t, time.Now().Before(held.Deadline()))
		require.Greater(t, next.Token(), held.Token())

		require.NoError(t, s.Kill())
		require.NoError(t, s.Restart(ctx))
		fixture.RequireLost(t, next, lock.NotOwner)
		again := fixture.Hold(t, c.Mutex("hung").Lock)
		require.Greater(t, again.Token(), next.Token(), "tokens rise over an emptied Redis")
		require.NoError(t, again.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
		require.NoError(t, other.Close(ctx))
	})
}
