package servers_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
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
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/topology"
)

// TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen: each of a client's connections
// finds it out, and a virtual machine's clock may jump every minute.
func TestAClockThatIsSetAgainAndAgainIsToldOfNowAndThen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fixture).build(t, false)
		f.follow()
		f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: "1"}}}
		synctest.Wait() // the address is known
		s := f.router.Server("any")
		told := func() int { return strings.Count(f.logged(), "clock was set") }
		for range 60 {
			s.Timed(pipe.Clock{}, time.Hour)
			s.Timed(pipe.Clock{}, -time.Hour)
			time.Sleep(9 * time.Second)
		}
		require.Equal(t, 1, told())
		time.Sleep(time.Minute)
		s.Timed(pipe.Clock{}, time.Hour)
		require.Equal(t, 2, told())
		f.close()
	})
}

// clocked is a connection to a server whose clock is ahead.
type clocked struct {
	redis.ConnWithTimeout
	ahead time.Duration
	asked bool // the last command was TIME
}

func (c *clocked) Send(command string, args ...any) error {
	c.asked = command == "TIME"
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *clocked) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if now := time.Now().Add(c.ahead); c.asked && err == nil {
		reply = []any{[]byte(strconv.FormatInt(now.Unix(), 10)), []byte(strconv.Itoa(now.Nanosecond() / 1000))}
	}
	return reply, err
}

// TestANewConnectionKnowsTheClockOfNow, and not an earlier estimate of another connection. A request
// with a limit on an old clock may be carried out long after its caller has given it up.
func TestANewConnectionKnowsTheClockOfNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Stop()) }()
		var ahead time.Duration
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			conn, err := server.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return &clocked{ConnWithTimeout: conn.(redis.ConnWithTimeout), ahead: ahead}, nil
		}}
		f.build1(t)
		defer f.close()
		s := f.router.Server("any")
		for _, ahead = range []time.Duration{0, time.Hour, -time.Hour} {
			c, err := s.DialTimed(t.Context(), dialing.NewBound(1))
			require.NoError(t, err)
			got, _, ok := c.Clock.Offset()
			require.True(t, ok)
			require.InDelta(t, ahead, got, float64(time.Second))
			require.NoError(t, c.Conn.Close())
		}
	})
}

// proxy stands before a server. It counts the questions.
type proxy struct {
	refuses     atomic.Bool  // no connection can be made
	endsAll     atomic.Bool  // each command ends its connection
	forbidsTime atomic.Bool  // TIME is answered with an error
	slow        atomic.Int64 // how long each answer takes after the first one of a connection

	mu    sync.Mutex      // guards what follows
	ends  map[string]bool // the commands that end their connection, INFO with its argument
	asked map[string]int
}

// setEnds makes only these commands end their connections, and forgets what was asked.
func (p *proxy) setEnds(commands ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ends, p.asked = map[string]bool{}, map[string]int{}
	for _, command := range commands {
		p.ends[command] = true
	}
}

func (p *proxy) countAsked(command string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.asked[command]
}

// proxied is a connection through a proxy.
type proxied struct {
	redis.ConnWithTimeout
	proxy *proxy
	heard int // answers
}

func (c *proxied) Send(command string, args ...any) error {
	name := command
	if command == "INFO" {
		name += " " + args[0].(string)
	}
	c.proxy.mu.Lock()
	c.proxy.asked[name]++
	isEnded := c.proxy.ends[name] || c.proxy.endsAll.Load()
	c.proxy.mu.Unlock()
	if isEnded {
		return c.Close()
	}
	if command == "TIME" && c.proxy.forbidsTime.Load() {
		command = "FORBIDDEN"
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *proxied) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	if c.heard++; c.heard > 1 {
		time.Sleep(time.Duration(c.proxy.slow.Load()))
	}
	return c.ConnWithTimeout.ReceiveWithTimeout(timeout)
}

// proxying runs test with a Router of one server behind a proxy.
func proxying(t *testing.T, test func(t *testing.T, f *fixture, p *proxy)) {
	synctest.Test(t, func(t *testing.T) {
		server, err := redistest.StartVirtual(redistest.MiniOptions{})
		require.NoError(t, err)
		defer func() { require.NoError(t, server.Stop()) }()
		var p proxy
		p.setEnds()
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			if p.refuses.Load() {
				return nil, errDown
			}
			conn, err := server.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return &proxied{ConnWithTimeout: conn.(redis.ConnWithTimeout), proxy: &p}, nil
		}}
		f.build(t, true)
		defer f.close()
		f.follow()
		f.become("1")
		test(t, f, &p)
	})
}

// become publishes that the one server has all slots and is this instance.
func (f *fixture) become(instance string) {
	f.news <- topology.Layout{Servers: []topology.Server{{Name: "a", Instance: instance}}, Slots: make([]int, keys.Slots)}
	synctest.Wait()
}

// dialTimed makes a connection, and closes it.
func (f *fixture) dialTimed() error {
	c, err := f.router.Server("any").DialTimed(f.t.Context(), dialing.NewBound(1))
	if err == nil {
		err = c.Conn.Close()
	}
	return err
}

// isTimed reports whether a new connection knows the server's clock.
func (f *fixture) isTimed() bool {
	c, err := f.router.Server("any").DialTimed(f.t.Context(), dialing.NewBound(1))
	require.NoError(f.t, err)
	require.NoError(f.t, c.Conn.Close())
	_, _, ok := c.Clock.Offset()
	return ok
}

// TestAConnectionAsksLaterIfTIMEGotNoAnswer, by a script, because TIME would end it. If TIME is refused, it
// never asks.
func TestAConnectionAsksLaterIfTIMEGotNoAnswer(t *testing.T) {
	for _, refused := range []bool{false, true} {
		proxying(t, func(t *testing.T, f *fixture, p *proxy) {
			if !refused {
				p.setEnds("TIME")
			}
			p.forbidsTime.Store(refused)
			for range 2 {
				c, err := f.router.Server("any").DialTimed(t.Context(), dialing.NewBound(1))
				require.NoError(t, err)
				require.Equal(t, !refused, c.Clock.Due(time.Now().Add(time.Second)))
				require.NoError(t, c.Conn.Close())
			}
		})
	}
}

// TestAServerThatReplacesAnotherIsAskedAnew what the other one did not answer.
func TestAServerThatReplacesAnotherIsAskedAnew(t *testing.T) {
	proxying(t, func(t *testing.T, f *fixture, p *proxy) {
		questions := []string{"TIME", "INFO memory", "INFO server"}
		p.setEnds(questions...)
		require.NoError(t, f.ask(t.Context(), "any"))
		require.False(t, f.isTimed())
		p.setEnds()
		require.False(t, f.isTimed())
		require.Zero(t, p.countAsked("TIME"), "it is not asked for a minute")
		f.become("2")
		require.NoError(t, f.ask(t.Context(), "any"))
		for _, q := range questions {
			require.Equal(t, 1, p.countAsked(q), q)
		}
		require.True(t, f.isTimed())
	})
}

// TestAServerThatWasGoneIsAskedForItsTime when it is back, although it had not told it before.
func TestAServerThatWasGoneIsAskedForItsTime(t *testing.T) {
	proxying(t, func(t *testing.T, f *fixture, p *proxy) {
		p.setEnds("TIME")
		require.False(t, f.isTimed())
		require.False(t, f.isTimed())
		require.Equal(t, 2, p.countAsked("TIME"))
		p.endsAll.Store(true)
		hint := <-f.hints
		for range 3 {
			require.Error(t, f.dialTimed())
			<-hint // the Topology is to look again
		}
		require.Equal(t, 2, p.countAsked("TIME"))
		p.endsAll.Store(false)
		p.setEnds()
		p.slow.Store(int64(timeout * 3 / 4)) // it is busy, and has the whole limit for TIME
		require.True(t, f.isTimed())
	})
}

// TestAServerThatEndsEachConnectionCannotBeReached, as one that refuses them. Any connection that brings an
// answer shows that it can be reached again.
func TestAServerThatEndsEachConnectionCannotBeReached(t *testing.T) {
	for _, byMessages := range []bool{false, true} {
		proxying(t, func(t *testing.T, f *fixture, p *proxy) {
			require.True(t, f.isTimed())
			requireLogged := func(lost, again int) {
				t.Helper()
				require.Equal(t, lost, strings.Count(f.logged(), "no connection to Redis"), f.logged())
				require.Equal(t, again, strings.Count(f.logged(), "connected to Redis again"), f.logged())
			}
			p.refuses.Store(true)
			require.ErrorIs(t, f.dialTimed(), errDown)
			p.refuses.Store(false)
			p.endsAll.Store(true)
			require.Error(t, f.dialTimed())
			requireLogged(1, 0)
			l := pubsub.NewListener(make(chan struct{}, 1))
			if byMessages {
				l.Listen(f.router.Server("any").Subscriber(), "channel")
			}
			time.Sleep(time.Minute)
			requireLogged(1, 0)
			p.endsAll.Store(false)
			if byMessages {
				<-l.Wake()
				l.Leave()
				synctest.Wait()
			} else {
				require.True(t, f.isTimed())
			}
			requireLogged(1, 1)
		})
	}
}
