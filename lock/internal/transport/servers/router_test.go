package servers_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/redistest"
	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/topology"
)

func TestASlotIsAtTheServerThatSaidSoLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		require.Empty(t, f.at(0))
		f.follow()
		f.publishLayout("a", "b")
		require.Equal(t, []string{"moved"}, f.takeEvents(), "nothing needs a server yet")
		require.Equal(t, []string{"a", "b", "a"}, []string{f.at(0), f.at(1), f.at(2)})
		s := f.router.Server(keyOf(0))
		require.Equal(t, "c", s.FollowRedirection(pipe.Redirection{Slot: 2, Server: "c"}).Name())
		require.Equal(t, "d", s.FollowRedirection(pipe.Redirection{Slot: 4, Server: "d", Ask: true}).Name())
		require.Equal(t, []string{"c", "a"}, []string{f.at(2), f.at(4)}, "ASK is for this once")
		f.publishLayout("", "b")
		require.Equal(t, []string{"a", "b", "c"}, []string{f.at(0), f.at(1), f.at(2)}, "a hole stays with its last server")
	})
}

func TestMovedIsToldOnceForWhatChanged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		f.publishLayout("a", "b")
		f.takeEvents()
		f.publishLayout("a", "b")
		require.Empty(t, f.takeEvents(), "nothing has changed")
		hint := <-f.hints
		f.redirectOnce("c")
		require.Empty(t, hint)
		moved := pipe.Redirection{Slot: 1, Server: "a"}
		s := f.router.Server(keyOf(0))
		s.FollowRedirection(moved)
		require.Len(t, hint, 1, "the Topology may know more")
		<-hint
		s.FollowRedirection(moved)
		require.Empty(t, hint, "it is known")
		require.Equal(t, []string{"opened c"}, f.takeEvents())
		f.publishLayout("a", "a")
		require.Equal(t, []string{"moved"}, f.takeEvents())
		f.publishLayout("a", "a")
		require.Empty(t, f.takeEvents())
	})
}

// TestANodeWithoutAHostnameIsFoundInTheLayout: its redirections have a question mark and a port.
func TestANodeWithoutAHostnameIsFoundInTheLayout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		hints := <-f.hints
		f.publishLayout("a:1", "b:2", "[fd00::5]:33", "c:44", "d:44", "e:144")
		s := f.router.Server(keyOf(0))
		for port, want := range map[string]string{"2": "b:2", "33": "[fd00::5]:33", "144": "e:144"} {
			require.Equal(t, want, s.FollowRedirection(pipe.Redirection{Slot: 6, Server: "?:" + port, Ask: true}).Name())
		}
		f.redirectOnce("f:7")
		for len(hints) > 0 {
			<-hints
		}
		for _, port := range []string{"44", "5", "7", "1"} { // two, none, one that no Layout names, and the one that answers
			require.Nil(t, s.FollowRedirection(pipe.Redirection{Slot: 6, Server: "?:" + port}), port)
		}
		require.Len(t, hints, 1)
		require.Equal(t, "a:1", f.at(6), "it stays")
		require.Equal(t, "b:2", s.FollowRedirection(pipe.Redirection{Slot: 7, Server: "?:44"}).Name(), "the Layout has moved the slot")
		require.Equal(t, "b:2", s.FollowRedirection(pipe.Redirection{Slot: 12, Server: "?:2"}).Name())
		require.Equal(t, "b:2", f.at(12))
	})
}

func TestSendWaitsForTheFirstLayout(t *testing.T) {
	for name, test := range map[string]struct {
		what func(f *fixture, cancel context.CancelFunc)
		err  error
		took time.Duration
	}{
		"nothing is heard":   {func(*fixture, context.CancelFunc) {}, servers.ErrNoServer, dialTimeout},
		"it is an error":     {func(f *fixture, _ context.CancelFunc) { f.news <- topology.Layout{Err: errDown} }, errDown, timeout / 2},
		"it has a server":    {func(f *fixture, _ context.CancelFunc) { f.publishLayout("a") }, errDown, timeout / 2},
		"the caller leaves":  {func(_ *fixture, cancel context.CancelFunc) { cancel() }, servers.ErrNoServer, timeout / 2},
		"the user is closed": {func(f *fixture, _ context.CancelFunc) { close(f.closing) }, servers.ErrNoServer, timeout / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := new(fixture).build(t, true)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended, began := make(chan error), time.Now()
				go func() { ended <- f.ask(ctx, "any") }()
				time.Sleep(timeout / 2)
				test.what(f, cancel)
				require.ErrorIs(t, <-ended, test.err)
				require.Equal(t, test.took, time.Since(began))
				require.Equal(t, name == "it has a server", !errors.Is(f.ask(ctx, "any"), servers.ErrNoServer))
			})
		})
	}
}

// TestAServerIsOpenedOnce, however many callers ask for it. Callers of another server need not
// wait.
func TestAServerIsOpenedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		f := &fixture{opened: func(s *servers.Server) error {
			if s.Name() == "slow" {
				<-free
			}
			return nil
		}}
		f.build(t, true)
		found := make(chan *servers.Server, 8)
		for range cap(found) {
			go func() { found <- f.redirectOnce("slow") }()
		}
		synctest.Wait()
		require.Equal(t, "quick", f.redirectOnce("quick").Name())
		require.Empty(t, found)
		close(free)
		first := <-found
		require.NotNil(t, first.Attachment())
		for range cap(found) - 1 {
			require.Same(t, first, <-found)
		}
		require.Equal(t, []string{"opened slow", "opened quick"}, f.takeEvents())
	})
}

func TestCloseEndsAServerThatIsBeingOpened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free, closed := make(chan struct{}), make(chan struct{})
		f := &fixture{opened: func(*servers.Server) error { <-free; return nil }}
		f.build(t, true)
		var found *servers.Server
		go func() { found = f.redirectOnce("a") }()
		synctest.Wait()
		go func() { f.close(); close(closed) }()
		synctest.Wait()
		require.Equal(t, []string{"opened a"}, f.takeEvents())
		close(free)
		<-closed
		synctest.Wait()
		require.Equal(t, []string{"closed a"}, f.takeEvents())
		require.Equal(t, "a", found.Name())
		require.Nil(t, f.redirectOnce("b").Attachment(), "a Router that is closed opens none")
		require.Same(t, found, f.redirectOnce("a"))
		require.Empty(t, f.takeEvents())
		require.ErrorIs(t, f.ask(t.Context(), "any"), servers.ErrNoServer)
	})
}

// TestARequestThatWaitsForADialIsToldThatTheUserIsClosed: Close ends dials before it closes the connections.
func TestARequestThatWaitsForADialIsToldThatTheUserIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}}
		f.build(t, true)
		f.follow()
		f.publishLayout("a")
		told := make(chan error)
		go func() { told <- f.ask(t.Context(), keyOf(0)) }()
		synctest.Wait()
		f.close()
		err := <-told
		require.ErrorIs(t, err, errClosed)
		require.NotErrorIs(t, err, context.Canceled)
	})
}

// TestARequestWithoutAServerIsToldThatTheUserIsClosed: no Layout came before Close.
func TestARequestWithoutAServerIsToldThatTheUserIsClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := (&fixture{}).build(t, true)
		f.close()
		err := f.ask(t.Context(), keyOf(0))
		require.ErrorIs(t, err, servers.ErrNoServer)
		require.ErrorIs(t, err, errClosed)
	})
}

func TestAServerThatIsNotOpenedIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{opened: func(*servers.Server) error { return errClosed }}
		f.build(t, true)
		f.follow()
		f.publishLayout("a")
		require.Nil(t, f.redirectOnce("a").Attachment())
		require.ErrorIs(t, f.ask(t.Context(), "any"), servers.ErrNoServer)
		f.close()
		require.Equal(t, []string{"moved", "opened a"}, f.takeEvents())
	})
	_, err := servers.New((&fixture{opened: func(*servers.Server) error { return errClosed }}).config())
	require.ErrorIs(t, err, errClosed)
}

// TestNoLockIsHeldWhileTheUserIsTold: the functions of Config may use the Router.
func TestNoLockIsHeldWhileTheUserIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fixture{}
		use := func() {
			if f.router != nil {
				f.router.Server("any")
				require.Equal(t, "other", f.redirectOnce("other").Name())
			}
		}
		f.opened = func(s *servers.Server) error {
			if s.Name() != "other" {
				use()
			}
			return nil
		}
		f.moved = use
		f.idle = func(string) bool { use(); return true }
		f.build(t, true)
		f.follow()
		f.publishLayout("a", "b")
		f.redirectOnce("a")
		f.redirectOnce("b")
		f.publishLayout("a")
		time.Sleep(lease + time.Minute + 1)
		f.publishLayout("a")
		require.Equal(t, []string{"moved", "opened other", "opened a", "opened b", "moved", "retired b", "closed b"}, f.takeEvents())
	})
}

func TestAServerThatIsNoMoreIsClosedOnceNothingNeedsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		needed := true
		f := &fixture{idle: func(string) bool { return !needed }}
		f.build(t, true)
		f.follow()
		f.publishLayout("a", "b")
		b := f.redirectOnce("b")
		f.publishLayout("a", "")
		needed = false
		time.Sleep(lease + time.Minute + 1)
		f.takeEvents()
		f.publishLayout("a", "")
		require.Empty(t, f.takeEvents(), "it has a slot")
		needed = true
		f.publishLayout("a")
		f.publishLayout("a")
		require.Equal(t, []string{"moved"}, f.takeEvents(), "the user needs it")
		needed = false
		f.publishLayout("a")
		require.Equal(t, []string{"retired b", "closed b"}, f.takeEvents())
		require.NotSame(t, b, f.redirectOnce("b"))
		require.Equal(t, []string{"opened b"}, f.takeEvents())
		time.Sleep(lease + time.Minute + 1)
		f.publishLayout("a")
		f.publishLayout("a", "b")
		f.publishLayout("a")
		time.Sleep(lease + time.Minute)
		f.takeEvents()
		f.publishLayout("a")
		require.Empty(t, f.takeEvents(), "somebody may be on the way")
		time.Sleep(time.Nanosecond)
		f.publishLayout("a")
		require.Equal(t, []string{"retired b", "closed b"}, f.takeEvents())
	})
}

// TestALayoutWhoseSlotsHaveNoServerIsAnError: a Topology of the program's own may have left them at 0.
func TestALayoutWhoseSlotsHaveNoServerIsAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		f.news <- topology.Layout{Slots: make([]int, keys.Slots)}
		synctest.Wait()
		err := f.ask(t.Context(), "any")
		require.ErrorIs(t, err, servers.ErrNoServer)
		require.ErrorContains(t, err, "the Layout gives slot 0 to its server 0, and has 0 servers")
		f.publishLayout("a:6379", "b:6379")
		require.ErrorIs(t, f.ask(t.Context(), keyOf(0)), errDown, "the next one is used")
		f.news <- topology.Layout{Slots: make([]int, keys.Slots)}
		synctest.Wait()
		require.Equal(t, "a:6379", f.at(0), "the servers that are known stay")
	})
}

// TestServersThatNothingNeedsCostNoGoroutine. A Layout with more than a thousand servers is an error.
// If each Layout names other servers, too many of them together are an error as well.
func TestServersThatNothingNeedsCostNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		say := func(i, n int) {
			names := make([]string, n)
			for k := range names {
				names[k] = fmt.Sprintf("%d-%d:6379", i, k)
			}
			f.publishLayout(names...)
		}
		say(0, servers.MostServers+1)
		err := f.ask(t.Context(), "any")
		require.ErrorIs(t, err, servers.ErrNoServer)
		require.ErrorContains(t, err, "the Layout names 1001 servers")
		before := runtime.NumGoroutine()
		for i := range 5 {
			say(i, servers.MostServers)
		}
		require.Less(t, runtime.NumGoroutine(), before+servers.MostServers/2, "others of this process may come and go")
		require.LessOrEqual(t, len(f.router.Servers()), 2*servers.MostServers)
		require.NotContains(t, strings.Join(f.takeEvents(), " "), "opened")
		require.Equal(t, "1-0:6379", f.at(0))
		require.ErrorIs(t, f.ask(t.Context(), keyOf(0)), errDown)
		require.Equal(t, []string{"opened 1-0:6379"}, f.takeEvents())
		f.close()
		require.Equal(t, []string{"closed 1-0:6379"}, f.takeEvents())
		require.ErrorIs(t, f.ask(t.Context(), keyOf(1)), servers.ErrNoServer)
		require.Empty(t, f.takeEvents(), "a server that was not opened is not opened after Close")
	})
}

// TestServersThatNoLayoutNamesAreFew, whatever a server answers, because each costs goroutines and
// connections. Above the limit a slot stays with its server. A Layout that names them makes room.
func TestServersThatNoLayoutNamesAreFew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		f.publishLayout("a", "b")
		s := f.router.Server(keyOf(0))
		opened := map[string]bool{}
		for i := range 1000 {
			to := pipe.Redirection{Slot: 1, Server: fmt.Sprint("lie ", i), Ask: i%2 == 0}
			opened[s.FollowRedirection(to).Name()] = true
		}
		delete(opened, "") // of the unknown one
		require.Len(t, opened, servers.MostUnnamed)
		require.Len(t, f.router.Servers(), 2+servers.MostUnnamed)
		require.Equal(t, fmt.Sprint("lie ", servers.MostUnnamed-1), f.at(1), "the last one that there was room for")
		require.Equal(t, "lie 7", s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "lie 7"}).Name(), "one that is known")
		require.Equal(t, "b", s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "b"}).Name(), "one that a Layout named")

		f.publishLayout("a", "lie 7", "new")
		require.Equal(t, "lie 999", s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "lie 999"}).Name(), "there is room for one more")
		require.Empty(t, s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "lie 998"}).Name())
		time.Sleep(lease + time.Minute + 1)
		f.publishLayout("a", "lie 7", "new")
		time.Sleep(lease + time.Minute + 1)
		f.publishLayout("a", "lie 7", "new")
		require.Len(t, f.router.Servers(), 3, "b and the others are gone")
		require.Equal(t, "lie 998", s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "lie 998"}).Name())
	})
}

// TestAServerThatIsWantedWhileItIsToBeClosedIsKept: a redirection may lead to it
// while it is looked at.
func TestAServerThatIsWantedWhileItIsToBeClosedIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f *fixture
		var found *servers.Server
		f = &fixture{idle: func(name string) bool {
			if found == nil {
				found = f.redirectOnce(name)
			}
			return true
		}}
		f.build(t, true)
		f.follow()
		f.publishLayout("a", "b")
		b := f.redirectOnce("b")
		f.publishLayout("a")
		time.Sleep(lease + time.Minute + 1)
		f.takeEvents()
		f.publishLayout("a")
		require.Same(t, b, found)
		require.Empty(t, f.takeEvents())
		f.publishLayout("a")
		require.Empty(t, f.takeEvents(), "its time began anew")
		time.Sleep(lease + time.Minute + 1)
		f.publishLayout("a")
		require.Equal(t, []string{"retired b", "closed b"}, f.takeEvents())
	})
}

// TestAServerToWhichRedirectionsLeadIsKept: it may be the target of slots that move for long, and no Layout
// names it before the first of them has arrived.
func TestAServerToWhichRedirectionsLeadIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		f.publishLayout("a")
		b := f.redirectOnce("b")
		f.takeEvents()
		for i := range int((lease + 2*time.Minute) / time.Second) {
			require.True(t, b == f.redirectOnce("b"), "after %d s", i)
			if i%5 == 0 {
				f.publishLayout("a")
			}
			time.Sleep(time.Second)
		}
		require.Empty(t, f.takeEvents())
		f.publishLayout("a")
		time.Sleep(lease + time.Minute)
		f.publishLayout("a")
		require.Empty(t, f.takeEvents(), "a request may still be on the way to it")
		time.Sleep(time.Nanosecond)
		f.publishLayout("a")
		require.Equal(t, []string{"retired b", "closed b"}, f.takeEvents())
	})
}

func TestAnotherInstanceEndsTheEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisServer, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, redisServer.Stop()) }()
		dialled, free := make(chan struct{}), make(chan struct{})
		f := &fixture{dial: func(ctx context.Context, name string) (redis.Conn, error) {
			require.Empty(t, name)
			close(dialled)
			<-free
			return redisServer.DialContext(ctx)
		}}
		f.build(t, false)
		ended := make(chan error)
		go func() {
			_, epoch, err := f.router.Server("any").Dial(t.Context(), dialing.NewBound(1))
			require.Zero(t, epoch)
			ended <- err
		}()
		instance := func(name, instance string) {
			f.news <- topology.Layout{Servers: []topology.Server{{Name: name, Instance: instance}}}
			synctest.Wait()
		}
		instance("host1", "1")
		s := f.router.Server("any")
		require.Equal(t, "host1", s.Address())
		instance("host2", "1")
		require.Equal(t, "host2", s.Address())
		require.Equal(t, []string{"opened"}, f.takeEvents(), "it is the same server")
		<-dialled
		instance("host3", "2")
		require.Equal(t, uint32(1), s.Epoch())
		require.Equal(t, []string{"replaced"}, f.takeEvents())
		require.Contains(t, f.logged(), "old=host2 new=host3")
		close(free)
		require.ErrorIs(t, <-ended, pipe.ErrReplaced)
		require.Nil(t, s.FollowRedirection(pipe.Redirection{Slot: 1, Server: "b"}), "no other server is known")
	})
}

func TestRequestsGoToTheirServersAndBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisServers := map[string]*redistest.Server{}
		for _, name := range []string{"a", "b"} {
			s, err := redistest.StartVirtual(redistest.MiniOptions{})
			require.NoError(t, err)
			defer func() { require.NoError(t, s.Stop()) }()
			redisServers[name] = s
		}
		f := &fixture{dial: func(ctx context.Context, name string) (redis.Conn, error) {
			return redisServers[name].DialContext(ctx)
		}}
		f.traits.PubSub = topology.PubSubPlain // otherwise they are asked what they do not know
		f.build(t, true)
		defer f.close()
		go f.publishLayout("a", "b")
		for slot, name := range []string{"a", "b"} {
			key := keyOf(slot)
			require.NoError(t, f.ask(t.Context(), key))
			conn, err := redisServers[name].Dial()
			require.NoError(t, err)
			n, err := redis.Int(conn.Do("EXISTS", key))
			require.NoError(t, err)
			require.Equal(t, 1, n, "the script ran on %s", name)
			conn.Close()
		}
		f.close()
		require.ErrorIs(t, f.ask(t.Context(), keyOf(0)), errClosed)
		require.Empty(t, f.logged())
	})
}

func TestAServerThatCannotBeReachedIsToldOfOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		go f.publishLayout("a")
		for range 3 {
			require.ErrorIs(t, f.ask(t.Context(), "any"), errDown)
		}
		f.close()
		require.Regexp(t, `^[^\n]+ level=WARN msg="lock: no connection to Redis[^\n]+ server=a error="connection refused" advice="[^"]+"\n$`, f.logged())
	})
}

// TestADialThatFailsLaterThanAnotherHasConnectedIsNotToldOf: the server may have refused it
// before it was back.
func TestADialThatFailsLaterThanAnotherHasConnectedIsNotToldOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisServer, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, redisServer.Stop()) }()
		refused := make(chan struct{})
		var dials atomic.Int32
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			switch dials.Add(1) {
			case 1:
				return nil, errDown
			case 2:
				<-refused
				return nil, errDown
			}
			return redisServer.DialContext(ctx)
		}}
		f.build(t, false)
		go func() { f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}} }()
		dial := func() (redis.Conn, error) {
			dialed, err := f.router.Server("any").DialTimed(t.Context(), dialing.NewBound(1))
			return dialed.Conn, err
		}
		_, err = dial()
		require.ErrorIs(t, err, errDown)
		late := make(chan error)
		go func() {
			_, err := dial()
			late <- err
		}()
		synctest.Wait()
		conn, err := dial()
		require.NoError(t, err)
		close(refused)
		require.ErrorIs(t, <-late, errDown)
		require.NoError(t, conn.Close())
		require.Equal(t, 1, strings.Count(f.logged(), "no connection to Redis"), f.logged())
		require.Equal(t, 1, strings.Count(f.logged(), "connected to Redis again"), f.logged())
	})
}

func TestServersAreInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, true)
		f.follow()
		f.publishLayout("f", "b", "h", "d", "a", "g", "c", "e")
		var names []string
		for _, s := range f.router.Servers() {
			names = append(names, s.Name())
		}
		require.IsIncreasing(t, names)
		require.Len(t, names, 8)
	})
}
