package world_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
)

// behindName has a master and its replica, the heir, and two clients. Each client reaches the current
// master by a name, which is a proxy here.
type behindName struct {
	t              *testing.T
	master, heir   *redistest.Server
	names          [2]*faultproxy.Proxy
	holder, waiter *lock.Client
}

func newBehindName(t *testing.T, maxPoll time.Duration) *behindName {
	f := &behindName{t: t}
	f.master, f.heir = fixture.WithReplica(t)
	// The lease is so long that only a release ends a wait within the test.
	cfg := lock.Config{Lease: time.Hour, MaxPoll: maxPoll, Connections: 1}
	for i, c := range []**lock.Client{&f.holder, &f.waiter} {
		f.names[i] = fixture.Proxy(t, f.master, nil)
		*c = fixture.ClientOver(t, f.names[i], cfg)
	}
	return f
}

// failOver makes the heir the master behind both names. The old master lives on as a replica that
// does not hear the heir, and only the holder's connections to it end.
func (f *behindName) failOver() {
	fixture.AwaitReplica(f.t, f.master, "last")
	fixture.Do(f.t, f.heir, "REPLICAOF", "NO", "ONE")
	fixture.Do(f.t, f.master, "REPLICAOF", "127.0.0.1", "1")
	for _, p := range f.names {
		p.SetServer(faultproxy.Before(f.heir))
	}
	f.names[0].Reset()
}

// startWaiting begins a Lock of the waiter, and returns when it listens at the master. got gets its error.
func (f *behindName) startWaiting(m *lock.Mutex, channel string) (got <-chan error) {
	done := make(chan error, 1)
	go func() {
		held, err := m.Lock(bounded.Context(f.t))
		if err == nil {
			err = held.Unlock(bounded.Context(f.t))
		}
		done <- err
	}()
	fixture.AwaitSubscribers(f.t, f.master, channel, 1)
	return done
}

// unlock unlocks at the heir.
func (f *behindName) unlock(held *lock.Held) {
	require.NoError(f.t, fixture.RetryUntilKnown(func() error { return held.Unlock(bounded.Context(f.t)) }))
}

// TestAWaiterFindsTheNewMasterBehindAName, although its client sends nothing but the waiter's tries, and
// the old master says that the lock is held for an hour.
func TestAWaiterFindsTheNewMasterBehindAName(t *testing.T) {
	t.Parallel()
	for kind, channel := range map[string]string{"Mutex": "redisson_lock__channel:{m}", "reader": "redisson_rwlock:{m}", "writer": "redisson_rwlock:{m}"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			f := newBehindName(t, 200*time.Millisecond)
			of := func(c *lock.Client) *lock.Mutex {
				switch kind {
				case "reader":
					return c.RWMutex("m").Reader()
				case "writer":
					return c.RWMutex("m").Writer()
				}
				return c.Mutex("m")
			}
			holds := of(f.holder)
			if kind == "reader" {
				holds = f.holder.RWMutex("m").Writer()
			}
			held := fixture.Hold(t, holds.Lock)
			got := f.startWaiting(of(f.waiter), channel)
			f.failOver()
			fixture.AwaitSubscribers(t, f.heir, channel, 1)
			f.unlock(held)
			require.NoError(t, bounded.Receive(t, got))
		})
	}
}

// TestASubscriptionFollowsTheConnectionsForCommands behind a name: the waiter's own tries come
// too late to find the new master.
func TestASubscriptionFollowsTheConnectionsForCommands(t *testing.T) {
	t.Parallel()
	f := newBehindName(t, time.Hour)
	held := fixture.Hold(t, f.holder.Mutex("m").Lock)
	got := f.startWaiting(f.waiter.Mutex("m"), "redisson_lock__channel:{m}")
	f.failOver()
	bounded.Until(t, func() bool { // the old master says READONLY first
		other, err := f.waiter.Mutex("other").TryLock(context.Background())
		if err != nil {
			return false
		}
		require.NoError(t, other.Unlock(bounded.Context(t)))
		return true
	})
	fixture.AwaitSubscribers(t, f.heir, "redisson_lock__channel:{m}", 1)
	f.unlock(held)
	require.NoError(t, bounded.Receive(t, got))
}
