package sentinel_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/renewal"
)

// TestAFailover of a master, two replicas and three sentinels: holds that the
// new master has live on. The holders of the others are told long before
// renewal is due, and new holds have higher tokens.
func TestAFailover(t *testing.T) {
	t.Parallel()
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	cfg := lock.Config{Lease: 300 * time.Second, IOTimeout: time.Second} // renewals are due each 100 s
	c, other := fixture.Client(t, source, cfg), fixture.Client(t, source, cfg)
	kept, missed := map[string]*lock.Held{}, map[string]*lock.Held{}
	take := func(in map[string]*lock.Held, prefix string) {
		for i := range 100 {
			name := fmt.Sprint(prefix, i)
			held := fixture.Hold(t, c.Mutex(name).Lock)
			in[name] = held
		}
		held, err := c.Mutex(prefix+"fixed").LockFor(ctx, 400*time.Second)
		require.NoError(t, err)
		in[prefix+"fixed"] = held
	}
	take(kept, "kept")
	for _, replica := range rs.Servers[1:] {
		require.Eventually(t, func() bool { return fixture.Int(t, replica, "EXISTS", "keptfixed") == 1 }, time.Minute, 5*time.Millisecond)
		require.NoError(t, replica.Pause())
	}
	fixture.Do(t, rs.Servers[0], "CLIENT", "KILL", "TYPE", "replica") // or their kernels would take what they miss
	take(missed, "missed")
	require.NoError(t, rs.Servers[0].Kill())
	for _, replica := range rs.Servers[1:] {
		require.NoError(t, replica.Resume())
	}
	for name, held := range missed {
		select {
		case <-held.Done():
		case <-time.After(time.Minute):
			t.Fatal("not told, though its key is gone: ", name)
		}
		var lost *lock.LostError
		require.ErrorAs(t, held.Err(), &lost)
		require.Equal(t, lock.NotOwner, lost.Reason)
	}
	require.Equal(t, map[renewal.Reason]int{renewal.NotOwner: len(missed)}, c.Stats().Renewal.Lost)
	for name, held := range missed {
		next := fixture.Hold(t, other.Mutex(name).Lock)
		require.Greater(t, next.Token(), held.Token(), "tokens rise over a failover")
		require.NoError(t, next.Unlock(ctx))
	}
	addr, err := source.MasterAddr(ctx)
	require.NoError(t, err)
	require.NotEqual(t, rs.Servers[0].Addr(), addr)
	for name, held := range kept {
		require.True(t, held.Valid(), name)
		err := fixture.RetryUntilKnown(func() error { // its vigil has noticed the failover only now, and renews connections
			_, err := other.Mutex(name).TryLock(ctx)
			return err
		})
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NoError(t, held.Unlock(ctx))
	}
	require.NoError(t, c.Close(ctx))
	require.NoError(t, other.Close(ctx))
}

// TestShortLeasesThroughAFailover: with leases shorter than the failover takes,
// and one sentinel down, every holder is told before its key could expire.
func TestShortLeasesThroughAFailover(t *testing.T) {
	t.Parallel()
	fixture.SkipSimulated(t)
	rs := fixture.Sentinels(t, redistest.SentinelOptions{DownAfter: 2 * time.Second})
	source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
	require.NoError(t, err)
	ctx := bounded.Context(t)
	c := fixture.Client(t, source, lock.Config{Lease: time.Second})
	var helds []*lock.Held
	for i := range 100 {
		held := fixture.Hold(t, c.Mutex(fmt.Sprint("m", i)).Lock)
		helds = append(helds, held)
	}
	require.NoError(t, rs.Sentinels[0].Kill()) // the others are a quorum
	killed := time.Now()
	require.NoError(t, rs.Servers[0].Pause()) // it hangs, with all connections open
	for _, held := range helds {
		fixture.RequireLost(t, held, lock.TrustEnded)
		require.True(t, held.Deadline().Before(killed.Add(time.Second)), "no trust without a server's word")
	}
	for _, held := range helds {
		next, err := c.Mutex(held.Name()).Lock(ctx) // as soon as there is a new master
		require.NoError(t, err)
		require.Greater(t, next.Token(), held.Token())
		require.NoError(t, next.Unlock(ctx))
	}
	require.NoError(t, rs.Servers[0].Resume())
	require.NoError(t, c.Close(ctx))
}
