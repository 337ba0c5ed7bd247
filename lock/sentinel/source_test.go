package sentinel_test

import (
	"context"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/faultproxy"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock"
	"github.com/wheellock/wheellock/lock/sentinel"
	"github.com/wheellock/wheellock/lock/topology"
)

func newTopology(t *testing.T, sentinels ...string) *sentinel.Topology {
	t.Helper()
	s, err := sentinel.New(sentinel.Config{Master: "mymaster", Sentinels: sentinels})
	require.NoError(t, err)
	return s
}

func masterAddr(t *testing.T, s *sentinel.Topology) string {
	t.Helper()
	addr, err := s.MasterAddr(bounded.Context(t))
	require.NoError(t, err)
	return addr
}

func TestFaultsOfNewAllAtOnce(t *testing.T) {
	_, err := sentinel.New(sentinel.Config{Sentinels: []string{"no port"}, Timeout: time.Hour})
	for _, want := range []string{"Master is empty", `"no port"`, "Timeout is 1h"} {
		require.ErrorContains(t, err, want)
	}
	_, err = sentinel.New(sentinel.Config{Master: "m"})
	require.ErrorContains(t, err, "Sentinels is empty")
	_, err = sentinel.New(sentinel.Config{Master: "m", Sentinels: []string{"a:1", "b:1", "a:1"}})
	require.ErrorContains(t, err, "Config.Sentinels has a:1 twice")
	_, err = sentinel.Open("redis-sentinel://a:1,b:1,b:1?master=m", sentinel.Config{})
	require.ErrorContains(t, err, "Config.Sentinels has b:1 twice")
}

func TestSentinelsThatAreDownOrHangDoNotMatter(t *testing.T) {
	hung, good := startFake(t, "127.0.0.1:1", 1), startFake(t, "127.0.0.1:7", 1)
	hung.hang()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	s := newTopology(t, hung.Addr(), gone.Addr().String(), good.Addr())
	var wg sync.WaitGroup
	for range 20 { // at once
		wg.Go(func() {
			addr, err := s.MasterAddr(bounded.Context(t))
			if err != nil || addr != "127.0.0.1:7" {
				t.Error(addr, err)
			}
		})
	}
	bounded.Wait(t, &wg)
	good.hang()
	_, err = s.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel)
	ctx, cancel := context.WithCancel(bounded.Context(t))
	cancel()
	_, err = s.MasterAddr(ctx)
	require.ErrorIs(t, err, sentinel.ErrNoSentinel)

	_, err = sentinel.New(sentinel.Config{Master: "other", Sentinels: addrs(startFake(t, "127.0.0.1:7", 1))})
	require.NoError(t, err)
}

func TestAMasterThatNobodyKnows(t *testing.T) {
	f := startFake(t, "127.0.0.1:7", 1)
	s, err := sentinel.New(sentinel.Config{Master: "other", Sentinels: addrs(f)})
	require.NoError(t, err)
	_, err = s.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel)
	require.ErrorContains(t, err, "No such master")
}

// TestTheLatestFailoverCounts, even if most sentinels have not heard of it, and
// even if later only these answer.
func TestTheLatestFailoverCounts(t *testing.T) {
	a, b, c := startFake(t, "127.0.0.1:1", 4), startFake(t, "127.0.0.1:1", 4), startFake(t, "127.0.0.1:1", 4)
	s := newTopology(t, addrs(a, b, c)...)
	require.Equal(t, "127.0.0.1:1", masterAddr(t, s))
	c.say("127.0.0.1:2", "", 5, false)
	require.Eventually(t, func() bool {
		addr, err := s.MasterAddr(bounded.Context(t))
		return err == nil && addr == "127.0.0.1:2"
	}, time.Minute, time.Millisecond)
	c.hang()
	_, err := s.MasterAddr(bounded.Context(t))
	require.ErrorIs(t, err, sentinel.ErrNoSentinel, "the others have missed a failover")
	a.say("127.0.0.1:2", "", 5, false)
	require.Equal(t, "127.0.0.1:2", masterAddr(t, s))
}

// TestAReplicaIsNoMaster whatever the sentinels say.
func TestAReplicaIsNoMaster(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	s := newTopology(t, addrs(startFake(t, server.Addr(), 1))...)
	ctx := bounded.Context(t)
	conn, err := s.GetContext(ctx)
	require.NoError(t, err)
	_, err = conn.Do("SET", "k", "v")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	fixture.Do(t, server, "REPLICAOF", "127.0.0.1", "1")
	_, err = s.GetContext(ctx)
	require.ErrorIs(t, err, sentinel.ErrNotMaster)
}

// TestAConnectionIsForAnyCommandsOfAProgram: the limits of the library's own answers are not those of
// other answers.
func TestAConnectionIsForAnyCommandsOfAProgram(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	s := newTopology(t, addrs(startFake(t, server.Addr(), 1))...)
	ctx := bounded.Context(t)
	for name, get := range map[string]func(context.Context) (redis.Conn, error){
		"GetContext": s.GetContext,
		"lock.Dial":  func(ctx context.Context) (redis.Conn, error) { return lock.Dial(ctx, "tcp", server.Addr()) },
	} {
		conn, err := get(ctx)
		require.NoError(t, err)
		list, long := "list of "+name, strings.Repeat("x", 100_000)
		for range 100 {
			_, err = conn.Do("RPUSH", list, "v")
			require.NoError(t, err)
		}
		all := redis.NewScript(1, "return redis.call('LRANGE', KEYS[1], 0, -1)")
		for range 2 { // as text, and by its SHA
			values, err := redis.Strings(all.Do(conn, list))
			require.NoError(t, err, name)
			require.Len(t, values, 100)
		}
		require.NoError(t, conn.Send("PSUBSCRIBE", "c*"))
		require.NoError(t, conn.Flush())
		_, err = conn.Receive()
		require.NoError(t, err)
		fixture.Do(t, server, "PUBLISH", "c", long)
		message, err := redis.Strings(conn.Receive())
		require.NoError(t, err, name)
		require.Equal(t, []string{"pmessage", "c*", "c", long}, message)
		require.NoError(t, conn.Close())
	}
}

func TestWhereROLEIsForbiddenINFOTells(t *testing.T) {
	t.Parallel()
	fixture.NeedAbilities(t, redistest.ChannelRights)
	server, ctx := fixture.Server(t), bounded.Context(t)
	fixture.Do(t, server, "ACL", "SETUSER", "poor", "on", ">pw", "~*", "&*", "+@all", "-role")
	poor, err := sentinel.New(sentinel.Config{
		Master: "mymaster", Sentinels: addrs(startFake(t, server.Addr(), 1)),
		DialOptions: []redis.DialOption{redis.DialUsername("poor"), redis.DialPassword("pw")},
	})
	require.NoError(t, err)
	conn, err := poor.GetContext(ctx)
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	fixture.Do(t, server, "REPLICAOF", "127.0.0.1", "1")
	_, err = poor.GetContext(ctx)
	require.ErrorIs(t, err, sentinel.ErrNotMaster)
}

// TestADemotedMasterThatStillAnswersIsGivenUp: the sentinels cannot reach it, but
// the client can, and it carries out everything.
func TestADemotedMasterThatStillAnswersIsGivenUp(t *testing.T) {
	t.Parallel()
	for _, told := range []bool{true, false} { // by +switch-master, or by the next question
		old, heir := fixture.Server(t), fixture.Server(t)
		f := startFake(t, old.Addr(), 1)
		lease := 90 * time.Second // renewals are due each 30 s: it is not they that find out
		c := fixture.Client(t, newTopology(t, addrs(f)...), lock.Config{Lease: lease, IOTimeout: time.Second})
		ctx := bounded.Context(t)
		missed := fixture.Hold(t, c.Mutex("missed").Lock)
		fixed, err := c.Mutex("fixed").LockFor(ctx, lease)
		require.NoError(t, err)
		kept := fixture.Hold(t, c.Mutex("kept").Lock)
		dump := fixture.Do(t, old, "DUMP", "kept")
		fixture.Do(t, heir, "RESTORE", "kept", lease.Milliseconds(), dump)
		require.Eventually(t, func() bool { return f.Subscribers() == 1 }, time.Minute, time.Millisecond)
		f.say(heir.Addr(), "", 2, told)
		for _, held := range []*lock.Held{missed, fixed} {
			select {
			case <-held.Done():
			case <-time.After(20 * time.Second):
				t.Fatal("not told")
			}
			var lost *lock.LostError
			require.ErrorAs(t, held.Err(), &lost)
			require.Equal(t, lock.NotOwner, lost.Reason)
		}
		require.True(t, kept.Valid())
		again := fixture.Hold(t, c.Mutex("missed").Lock)
		require.Greater(t, again.Token(), missed.Token())
		require.EqualValues(t, 2, fixture.Int(t, heir, "EXISTS", "missed", "kept"), "on the new master")
		require.NoError(t, again.Unlock(ctx))
		require.NoError(t, kept.Unlock(ctx))
		require.NoError(t, c.Close(ctx))
	}
}

// TestAMasterThatRestartsEmptyIsLookedThroughAtOnce: all holds are checked, although the
// address is the same.
func TestAMasterThatRestartsEmptyIsLookedThroughAtOnce(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	f := startFake(t, server.Addr(), 1)
	c := fixture.Client(t, newTopology(t, addrs(f)...), lock.Config{Lease: time.Hour, IOTimeout: time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.Eventually(t, func() bool { return f.Subscribers() == 1 }, time.Minute, time.Millisecond)
	asked := f.questions()
	f.say(server.Addr(), "first", 1, true) // learned late: that is no restart
	require.Eventually(t, func() bool { return f.questions() > asked+1 }, time.Minute, time.Millisecond)
	require.True(t, held.Valid())
	renewed := c.Stats().Renewal.Renewed
	require.Zero(t, renewed, "nothing to look through")
	require.NoError(t, server.Kill())
	require.NoError(t, server.Restart(ctx))
	f.say(server.Addr(), "second", 1, false)
	select {
	case <-held.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("not told")
	}
	var lost *lock.LostError
	require.ErrorAs(t, held.Err(), &lost)
	require.Equal(t, lock.NotOwner, lost.Reason)
}

// TestREADONLYDropsTheConnection: no message tells that the master was demoted.
// The client leaves it and finds the new one.
func TestREADONLYDropsTheConnection(t *testing.T) {
	t.Parallel()
	old, heir := fixture.Server(t), fixture.Server(t)
	f := startFake(t, old.Addr(), 1)
	c := fixture.Client(t, newTopology(t, addrs(f)...), lock.Config{Lease: 9 * time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex("a").Lock)
	fixture.Do(t, heir, "RESTORE", "a", 9000, fixture.Do(t, old, "DUMP", "a"))
	fixture.Do(t, old, "REPLICAOF", "127.0.0.1", "1")
	_, err := c.Mutex("b").TryLock(ctx)
	require.True(t, fixture.IsNoAnswer(err), err) // the refusal may have come, and the pool asks a new connection for its role
	f.say(heir.Addr(), "", 2, false)
	other := fixture.Hold(t, c.Mutex("b").Lock)
	require.NoError(t, other.Unlock(ctx))
	require.NoError(t, held.Unlock(ctx))
	require.Zero(t, fixture.Int(t, heir, "EXISTS", "a", "b"))
}

// TestTheSentinelsAreAskedAgainEachSixthOfALease, if that is less than 5 s.
func TestTheSentinelsAreAskedAgainEachSixthOfALease(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	f := startFake(t, server.Addr(), 1)
	c := fixture.Client(t, newTopology(t, addrs(f)...), lock.Config{Lease: time.Second})
	held := fixture.Hold(t, c.Mutex("a").Lock)
	renewed, asked := c.Stats().Renewal.Renewed, f.questions()
	require.Eventually(t, func() bool { return f.questions() >= asked+6 }, time.Minute, time.Millisecond)
	require.Less(t, c.Stats().Renewal.Renewed-renewed, uint64(60), "two to a renewal, but on a busy machine; one to 15 of them with 5 s")
	require.NoError(t, held.Unlock(bounded.Context(t)))
}

func TestTheMasterIsUsedOnWithoutSentinels(t *testing.T) {
	t.Parallel()
	server := fixture.Server(t)
	f := startFake(t, server.Addr(), 1)
	c := fixture.Client(t, newTopology(t, addrs(f)...), lock.Config{Lease: 3 * time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex("a").Lock)
	f.Close()
	fixture.Do(t, server, "CLIENT", "KILL", "TYPE", "normal")
	renewed := c.Stats().Renewal.Renewed
	require.Eventually(t, func() bool { return c.Stats().Renewal.Renewed > renewed+2 }, time.Minute, time.Millisecond)
	require.True(t, held.Valid())
	require.NoError(t, held.Unlock(ctx))
}

// TestCloseWaitsForNobody. One client was never used. The sentinels of the other
// take connections and answer nothing.
func TestCloseWaitsForNobody(t *testing.T) {
	t.Parallel()
	f := startFake(t, "127.0.0.1:1", 1)
	f.hang()
	source := newTopology(t, addrs(f)...)
	unused, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	require.NoError(t, unused.Close(bounded.Context(t)))
	c, err := lock.NewTopology(source, lock.Config{})
	require.NoError(t, err)
	_, err = c.Mutex("m").TryLock(bounded.Context(t))
	require.ErrorIs(t, err, lock.ErrNotSent)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").Lock(bounded.Context(t))
		waiting <- err
	}()
	require.NoError(t, c.Close(bounded.Context(t)))
	require.ErrorIs(t, bounded.Receive(t, waiting), lock.ErrClosed)
}

// TestNothingRunsAfterCloseBesideAMasterThatHangs: the question for its role ends
// with Close, not with the IOTimeout. No other test of the package runs meanwhile.
func TestNothingRunsAfterCloseBesideAMasterThatHangs(t *testing.T) {
	asked := make(chan struct{}, 1)
	hung := fixture.Proxy(t, nil, func(c faultproxy.Command) faultproxy.Fate {
		if c.Args[0] == "ROLE" {
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		return faultproxy.LoseRequest
	})
	f := startFake(t, hung.Addr(), 1)
	before := goleak.IgnoreCurrent()
	c, err := lock.NewTopology(newTopology(t, addrs(f)...), lock.Config{Lease: 2 * time.Hour, IOTimeout: 10 * time.Minute})
	require.NoError(t, err)
	waiting := make(chan error, 1)
	go func() {
		_, err := c.Mutex("m").Lock(context.Background())
		waiting <- err
	}()
	bounded.Receive(t, asked)
	fixture.CloseNow(c)
	require.ErrorIs(t, bounded.Receive(t, waiting), lock.ErrClosed)
	// The dial heeds its context: it needs a moment, but waits for nothing.
	leaked := goleak.Find(before)
	for end := time.Now().Add(10 * time.Second); leaked != nil && time.Now().Before(end); {
		leaked = goleak.Find(before)
	}
	require.NoError(t, leaked)
}

// A refused PING is an answer: it says that the connection lives.
func TestASentinelThatRefusesPINGIsListenedToAllTheSame(t *testing.T) {
	t.Parallel()
	f := startFake(t, "127.0.0.1:1", 1)
	f.mute = true // nobody has asked it yet
	source, err := sentinel.New(sentinel.Config{Master: "mymaster", Sentinels: addrs(f)})
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	defer bounded.Wait(t, &wg)
	defer cancel()
	found := make(chan topology.Layout, 1)
	wg.Go(func() { source.Follow(ctx, time.Hour, nil, func(l topology.Layout) { found <- l }) })
	require.Equal(t, "127.0.0.1:1", bounded.Receive(t, found).Servers[0].Name, "for the log")
	count := func() (pings, subs int) {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.pings, f.subs
	}
	require.Eventually(t, func() bool { pings, _ := count(); return pings >= 2 }, time.Minute, 10*time.Millisecond)
	_, subs := count()
	require.Equal(t, 1, subs, "the connection lives")
}

// TestASentinelThatDoesNotKnowTheMasterEndsNoLock: the others, which are down, may know it.
func TestASentinelThatDoesNotKnowTheMasterEndsNoLock(t *testing.T) {
	t.Parallel()
	f := startFake(t, fixture.Server(t).Addr(), 1)
	f.forget()
	gone, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, gone.Close())
	c := fixture.Client(t, newTopology(t, f.Addr(), gone.Addr().String()), lock.Config{})
	done := make(chan error, 1)
	go func() {
		_, err := c.Mutex("a").Lock(bounded.Context(t))
		done <- err
	}()
	require.Eventually(t, func() bool { return f.questions() >= 3 || len(done) > 0 }, time.Minute, time.Millisecond)
	f.say(f.addr, "", 1, false)
	require.NoError(t, bounded.Receive(t, done))
}

// TestAMasterThatASentinelNamesTooLateIsGivenUp: no sentinel answered at first, and then one that has missed
// a failover did.
func TestAMasterThatASentinelNamesTooLateIsGivenUp(t *testing.T) {
	t.Parallel()
	old, heir := fixture.Server(t), fixture.Server(t)
	var asked atomic.Int32
	sentinels := fixture.Proxy(t, nil, func(c faultproxy.Command) faultproxy.Fate {
		if strings.ToUpper(c.Args[0]) != "SENTINEL" {
			return faultproxy.Answer(redis.Error("ERR unknown command"))
		}
		addr, epoch := heir.Addr(), "6"
		switch asked.Add(1) {
		case 1:
			return faultproxy.Answer(redis.Error("ERR No such master with that name"))
		case 2:
			addr, epoch = old.Addr(), "5"
		}
		host, port, err := net.SplitHostPort(addr)
		if err != nil {
			return faultproxy.Answer(redis.Error("ERR " + err.Error()))
		}
		return faultproxy.Answer(faultproxy.Bulks("ip", host, "port", port, "config-epoch", epoch))
	})
	c := fixture.Client(t, newTopology(t, sentinels.Addr()), lock.Config{IOTimeout: time.Second})
	ctx := bounded.Context(t)
	held := fixture.Hold(t, c.Mutex("m").Lock)
	require.Eventually(t, func() bool { return asked.Load() > 2 }, time.Minute, time.Millisecond)
	select {
	case <-held.Done():
	case <-time.After(20 * time.Second):
		t.Fatal("not told")
	}
	again := fixture.Hold(t, c.Mutex("m").Lock)
	require.EqualValues(t, 1, fixture.Int(t, heir, "EXISTS", "m"))
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, c.Close(ctx))
}
