package lock_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/locktest"
)

// hearer notes what a Releases tells.
type hearer struct {
	mu    sync.Mutex
	calls []string
}

func (h *hearer) hear(name string, missed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if missed {
		name += " missed"
	}
	h.calls = append(h.calls, name)
}

// take returns the calls since the last take, sorted.
func (h *hearer) take() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	defer func() { h.calls = nil }()
	slices.Sort(h.calls)
	return strings.Join(h.calls, ", ")
}

func TestReleasesOfFollowedNamesAreHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, other := srv.Client(lock.Config{KeyPrefix: "app:"}), srv.Client(lock.Config{KeyPrefix: "app:"})
		held := fixture.LockAll(t, other, []string{"a", "b", "c", "d"})
		var h hearer
		take := func() string { synctest.Wait(); return h.take() }
		r := c.NewReleases(h.hear)
		for _, name := range []string{"a", "b", "c"} {
			require.NoError(t, r.Follow(name))
		}
		require.Equal(t, "a missed, b missed, c missed", take())
		time.Sleep(time.Hour)
		require.NoError(t, r.Follow("a"))
		require.Empty(t, take(), "renewals are no news")
		require.NoError(t, held["a"].Unlock(t.Context()))
		require.NoError(t, held["d"].Unlock(t.Context()))
		require.Equal(t, "a", take())
		_, err := other.Mutex("b").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.Equal(t, "b", take())
		r.Leave("c")
		require.NoError(t, held["c"].Unlock(t.Context()))
		require.Empty(t, take())
		require.True(t, r.Listens("a"))
		srv.Restart()
		synctest.Wait()
		require.False(t, r.Listens("a"))
		require.Equal(t, "a missed, b missed", take(), "from now on")
		time.Sleep(10 * time.Second)
		require.Equal(t, "a missed, b missed", take(), "until now")
		require.True(t, r.Listens("a"))
		r.Close()
		r.Close()
		require.NoError(t, r.Follow("a"))
		fixture.LockAll(t, other, []string{"a"})
		_, err = other.Mutex("a").ForceUnlock(t.Context())
		require.NoError(t, err)
		require.Empty(t, take())
	})
}

func TestNamesThatMutexRefusesAreNotFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := locktest.New(t, lock.Config{})
		r := c.NewReleases(func(string, bool) {})
		defer r.Close()
		for _, name := range []string{"", strings.Repeat("x", 65<<10)} {
			_, want := c.Mutex(name).TryLock(t.Context())
			require.EqualError(t, c.CheckName(name), want.Error())
			require.EqualError(t, r.Follow(name), want.Error())
		}
	})
}

func TestTheEndOfAClientEndsItsReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c, other := srv.Client(lock.Config{}), srv.Client(lock.Config{})
		held := fixture.LockAll(t, other, []string{"a"})
		var h hearer
		r := c.NewReleases(h.hear)
		require.NoError(t, r.Follow("a"))
		synctest.Wait()
		require.Equal(t, "a missed", h.take())
		require.NoError(t, c.Close(t.Context()))
		require.NoError(t, held["a"].Unlock(t.Context()))
		synctest.Wait()
		require.NoError(t, r.Follow("b"))
		r.Leave("a")
		r.Close()
		late := c.NewReleases(h.hear)
		require.NoError(t, late.Follow("a"))
		late.Close()
		require.Empty(t, h.take())
	})
}

// While the function runs, Close of the Releases waits for it, and so does Close of the client, within
// its context.
func TestCloseWaitsForTheFunctionOfReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv := locktest.NewServer(t)
		c := srv.Client(lock.Config{})
		var running atomic.Bool
		r := c.NewReleases(func(string, bool) {
			running.Store(true)
			time.Sleep(time.Minute)
			running.Store(false)
		})
		require.NoError(t, r.Follow("a"))
		time.Sleep(time.Second)
		require.True(t, running.Load())
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.ErrorIs(t, c.Close(ctx), ctx.Err())
		require.True(t, running.Load())
		r.Close()
		require.False(t, running.Load())
	})
}

// tryReleases has one client hear of releases by another one.
func tryReleases(t *testing.T, c, other *lock.Client) {
	held := fixture.LockAll(t, other, fixture.Names("n", 40))
	var h hearer
	r := c.NewReleases(h.hear)
	defer r.Close()
	for name := range held {
		require.NoError(t, r.Follow(name))
	}
	heard := func() (n int) {
		h.mu.Lock()
		defer h.mu.Unlock()
		return len(h.calls)
	}
	bounded.Until(t, func() bool { return heard() == 40 })
	h.take()
	for _, x := range held {
		require.NoError(t, x.Unlock(bounded.Context(t)))
	}
	bounded.Until(t, func() bool { return heard() == 40 })
	names := fixture.Names("n", 40)
	slices.Sort(names)
	require.Equal(t, strings.Join(names, ", "), h.take())
}

func TestReleasesAreHeardFromAServer(t *testing.T) {
	t.Parallel()
	s := fixture.Server(t)
	tryReleases(t, fixture.ClientOf(t, s, lock.Config{}), fixture.ClientOf(t, s, lock.Config{}))
}

func TestReleasesAreHeardFromACluster(t *testing.T) {
	t.Parallel()
	servers := fixture.Cluster(t, redistest.ClusterOptions{})
	newClient := func() *lock.Client {
		source, err := cluster.New(&redisc.Cluster{StartupNodes: servers.Addrs()[:1]}, cluster.Options{})
		require.NoError(t, err)
		return fixture.Client(t, source, lock.Config{})
	}
	tryReleases(t, newClient(), newClient())
}
