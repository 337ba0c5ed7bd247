package keeper_test

import (
	"slices"
	"testing"
	"time"

	"github.com/mna/redisc"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/cluster"
	"github.com/wheellock/wheellock/lock/keeper"
	"github.com/wheellock/wheellock/lock/sentinel"
)

// requireShared waits until the programs together keep all names, and each keeps n.
func requireShared(t *testing.T, names []string, n int, programs ...*program) {
	t.Helper()
	require.Eventually(t, func() bool {
		var all []string
		for _, p := range programs {
			kept := p.kept()
			if len(kept) != n {
				return false
			}
			all = append(all, kept...)
		}
		slices.Sort(all)
		return slices.Equal(all, names)
	}, time.Minute, 10*time.Millisecond)
}

// tryTwoPrograms shares names between two programs, takes all data away, and lets one of them leave.
func tryTwoPrograms(t *testing.T, newClient func() *lock.Client, forget func()) {
	names := sorted(300)
	var programs []*program
	for range 2 {
		p := start(t, newClient(), keeper.Config{Share: "set", Look: 500 * time.Millisecond}, nil)
		p.Want(names...)
		programs = append(programs, p)
	}
	requireShared(t, names, 150, programs...)
	lost := programs[0].Stats().Lost
	forget()
	require.Eventually(t, func() bool { return programs[0].Stats().Lost > lost }, time.Minute, 10*time.Millisecond)
	requireShared(t, names, 150, programs...)
	require.NoError(t, programs[0].Close(bounded.Context(t)))
	requireShared(t, names, 300, programs[1])
}

func TestTwoProgramsOnOneServer(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	tryTwoPrograms(t,
		func() *lock.Client { return fixture.ClientOf(t, server, lock.Config{Lease: 3 * time.Second}) },
		func() { fixture.Do(t, server, "FLUSHALL") })
}

// A failover loses messages, and the locks that the new master has missed.
func TestTwoProgramsBehindSentinels(t *testing.T) {
	t.Parallel()
	rs := fixture.Sentinels(t, redistest.SentinelOptions{})
	source, err := sentinel.New(sentinel.Config{Master: rs.Name, Sentinels: rs.Addrs()})
	require.NoError(t, err)
	newClient := func() *lock.Client { return fixture.Client(t, source, lock.Config{Lease: 3 * time.Second}) }
	names := sorted(300)
	a := start(t, newClient(), keeper.Config{Look: 500 * time.Millisecond}, nil)
	a.Want(names...)
	requireShared(t, names, 300, a)
	b := start(t, newClient(), keeper.Config{Look: time.Hour}, nil)
	b.Want(names...)
	require.Eventually(t, func() bool { return b.Stats().Refused >= 300 }, time.Minute, 10*time.Millisecond)
	require.NoError(t, rs.Servers[0].Kill())
	require.Eventually(t, func() bool {
		a.Drop(names...)
		return len(b.kept()) == 300
	}, time.Minute, 10*time.Millisecond)
}

func TestTwoProgramsOnACluster(t *testing.T) {
	t.Parallel()
	servers := fixture.Cluster(t, redistest.ClusterOptions{})
	tryTwoPrograms(t,
		func() *lock.Client {
			source, err := cluster.New(&redisc.Cluster{StartupNodes: servers.Addrs()[1:2]}, cluster.Options{})
			require.NoError(t, err)
			return fixture.Client(t, source, lock.Config{Lease: 3 * time.Second})
		},
		func() {
			for _, server := range servers.Servers {
				fixture.Do(t, server, "FLUSHALL")
			}
		})
}
