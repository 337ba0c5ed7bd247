package sentinel_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

// patient returns a Topology that waits for all sentinels, however busy the machine is.
func patient(t *testing.T, fakes ...*fake) *sentinel.Topology {
	t.Helper()
	s, err := sentinel.New(sentinel.Config{Master: "mymaster", Sentinels: addrs(fakes...), Timeout: time.Minute})
	require.NoError(t, err)
	return s
}

// startRole starts a server that has that role.
func startRole(t *testing.T, role string) string {
	t.Helper()
	return fixture.Proxy(t, nil, func(faultproxy.Command) faultproxy.Fate {
		return faultproxy.Answer(faultproxy.Bulks(role))
	}).Addr()
}

// TestSentinelsOfOneEpochThatDisagreeDoNotMoveTheMaster to and fro with the order of their answers.
func TestSentinelsOfOneEpochThatDisagreeDoNotMoveTheMaster(t *testing.T) {
	t.Parallel()
	a, b, c := startFake(t, "127.0.0.1:1", 5), startFake(t, "127.0.0.1:2", 5), startFake(t, "127.0.0.1:2", 5)
	s := patient(t, a, b, c)
	require.Eventually(t, func() bool {
		addr, _ := s.MasterAddr(bounded.Context(t)) // an error, if one of the majority is slow
		return addr == "127.0.0.1:2"
	}, time.Minute, time.Millisecond)
	for range 50 {
		require.Equal(t, "127.0.0.1:2", masterAddr(t, s))
	}
	a.say("127.0.0.1:1", "", 6, false)
	require.Eventually(t, func() bool { return masterAddr(t, s) == "127.0.0.1:1" }, time.Minute, time.Millisecond, "a later epoch wins alone")
}

// TestWithoutAMajorityTheKnownMasterStays, even if the only sentinel that answers names another master.
func TestWithoutAMajorityTheKnownMasterStays(t *testing.T) {
	t.Parallel()
	a, b := startFake(t, "127.0.0.1:1", 5), startFake(t, "127.0.0.1:1", 5)
	s := patient(t, a, b)
	require.Equal(t, "127.0.0.1:1", masterAddr(t, s))
	b.say("127.0.0.1:2", "", 5, false)
	for range 20 {
		require.Equal(t, "127.0.0.1:1", masterAddr(t, s))
	}
	a.forget()
	require.Equal(t, "127.0.0.1:1", masterAddr(t, s))
	a.say("127.0.0.1:2", "", 5, false)
	require.Equal(t, "127.0.0.1:2", masterAddr(t, s))
	// A split in a later epoch changes nothing either, because its outcome is not known.
	a.say("127.0.0.1:3", "", 6, false)
	b.say("127.0.0.1:4", "", 6, false)
	require.Equal(t, "127.0.0.1:2", masterAddr(t, s))
	b.say("127.0.0.1:3", "", 6, false)
	require.Equal(t, "127.0.0.1:3", masterAddr(t, s))
}

// TestWithoutAKnownMasterTheRoleDecides.
func TestWithoutAKnownMasterTheRoleDecides(t *testing.T) {
	t.Parallel()
	master, replica := startRole(t, "master"), startRole(t, "slave")
	a, b := startFake(t, replica, 5), startFake(t, master, 5)
	for range 10 {
		require.Equal(t, master, masterAddr(t, patient(t, a, b)))
	}
	a.say(startRole(t, "master"), "", 5, false)
	s := patient(t, a, b)
	_, err := s.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel, "two masters: nobody can say which")
	require.ErrorContains(t, err, master+" (1)")
	b.say(a.addr, "", 5, false)
	require.Equal(t, a.addr, masterAddr(t, s))
}

// TestTheLeaderOfAFailoverNamesTheNewMaster: SENTINEL MASTER tells the new epoch with the old
// address until all replicas follow the new master.
func TestTheLeaderOfAFailoverNamesTheNewMaster(t *testing.T) {
	t.Parallel()
	f := startFake(t, "127.0.0.1:1", 5)
	f.heir = "127.0.0.1:2" // nobody has asked it yet
	require.Equal(t, "127.0.0.1:2", masterAddr(t, patient(t, f)))
}

// TestADisagreementIsTold. An old run id does not count as another restart.
func TestADisagreementIsTold(t *testing.T) {
	t.Parallel()
	a, b, c := startFake(t, "127.0.0.1:1", 5), startFake(t, "127.0.0.1:1", 5), startFake(t, "127.0.0.1:1", 5)
	for _, f := range []*fake{a, b, c} {
		f.say("127.0.0.1:1", "first", 5, false)
	}
	s := patient(t, a, b, c)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer bounded.Wait(t, &wg)
	defer cancel()
	layouts, hint := make(chan topology.Layout), make(chan struct{}, 1)
	wg.Go(func() {
		s.Follow(ctx, time.Millisecond, hint, func(l topology.Layout) {
			select {
			case layouts <- l:
			case <-ctx.Done():
			}
		})
	})
	first := bounded.Receive(t, layouts)
	require.NoError(t, first.Warning)
	a.say("127.0.0.1:1", "second", 5, false) // a restart that the others have not seen yet
	turns := map[string]bool{first.Servers[0].Instance: true}
	for range 40 {
		l := bounded.Receive(t, layouts)
		require.NoError(t, l.Warning)
		turns[l.Servers[0].Instance] = true
	}
	require.Len(t, turns, 2, "before and after the restart")
	a.say("127.0.0.1:2", "", 5, false)
	require.Eventually(t, func() bool { return bounded.Receive(t, layouts).Warning != nil }, time.Minute, time.Microsecond)
	l := bounded.Receive(t, layouts)
	require.ErrorContains(t, l.Warning, "127.0.0.1:1 (2), 127.0.0.1:2 (1)")
	require.Equal(t, "127.0.0.1:1", l.Servers[0].Name)
}

// TestWhileAClientFollowsDialAsksNobody, so sentinels that hang delay no dial.
func TestWhileAClientFollowsDialAsksNobody(t *testing.T) {
	t.Parallel()
	good := startFake(t, startRole(t, "master"), 1)
	s := patient(t, good)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer bounded.Wait(t, &wg)
	defer cancel()
	found := make(chan topology.Layout, 1)
	wg.Go(func() { s.Follow(ctx, time.Hour, nil, func(l topology.Layout) { found <- l }) })
	require.NoError(t, bounded.Receive(t, found).Err)
	asked := good.questions()
	conn, err := s.Dial(bounded.Context(t), "")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	require.Equal(t, asked, good.questions())
}

// TestAShortLeaseIsTakenWhileMostSentinelsHang: the IOTimeout is less than the time that a question
// to sentinels takes then.
func TestAShortLeaseIsTakenWhileMostSentinelsHang(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	good, hung, hung2 := startFake(t, server.Addr(), 1), startFake(t, "127.0.0.1:1", 1), startFake(t, "127.0.0.1:1", 1)
	hung.hang()
	hung2.hang()
	c := fixture.Client(t, newTopology(t, addrs(good, hung, hung2)...), lock.Config{Lease: 3 * time.Second})
	fixture.Hold(t, c.Mutex("a").Lock)
	good.hang() // the last known master stays
	fixture.Do(t, server, "CLIENT", "KILL", "TYPE", "normal")
	fixture.Hold(t, c.Mutex("b").Lock)
}
