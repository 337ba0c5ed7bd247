package pubsub_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// server is a server in memory. It also has the functions of a Subscriber's Config.
type server struct {
	*memredis.Server
	t     *testing.T
	epoch atomic.Uint32
	dials atomic.Int32
	hears atomic.Pointer[pubsub.SubscribeModes] // what Config.Modes returns; nil for plain messages alone

	spoil func(conn redis.Conn) (redis.Conn, error) // changes each connection that is dialled; nil for none

	answered atomic.Int32              // counts calls of Config.Answered
	commands atomic.Uint32             // connections for commands that were made
	proved   atomic.Pointer[time.Time] // what Config.MasterSeen returns; nil for the present time

	mu  sync.Mutex // guards log
	log strings.Builder
}

func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

// logged returns the log, when all is written.
func (s *server) logged() string {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func (s *server) heard() pubsub.SubscribeModes {
	if h := s.hears.Load(); h != nil {
		return *h
	}
	return pubsub.SubscribeModes{Plain: true, Certain: true}
}

func (s *server) provedAt() time.Time {
	if at := s.proved.Load(); at != nil {
		return *at
	}
	return time.Now()
}

// dial is Config.Dial.
func (s *server) dial(ctx context.Context) (redis.Conn, uint32, error) {
	s.dials.Add(1)
	epoch := s.epoch.Load()
	conn, err := s.DialContext(ctx, redis.DialReadTimeout(0))
	if err == nil && s.spoil != nil {
		conn, err = s.spoil(conn)
	}
	return conn, epoch, err
}

// bubble runs f with a server and a Subscriber of it.
func bubble(t *testing.T, f func(t *testing.T, srv *server, sub *pubsub.Subscriber)) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memredis.Start(memredis.Config{})
		require.NoError(t, err)
		srv := &server{Server: mem, t: t}
		ctx, cancel := context.WithCancel(context.Background())
		sub := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Modes: srv.heard, Epoch: srv.epoch.Load, Where: func() string { return "here" },
			Dials: srv.commands.Load, MasterSeen: srv.provedAt,
			Logger: record.New(slog.New(slog.NewTextHandler(srv, nil))),
			Dial:   srv.dial, Answered: func() { srv.answered.Add(1) },
		})
		f(t, srv, sub)
		cancel()
		sub.Close()
		require.NoError(t, mem.Stop())
	})
}

func (s *server) publish(channel string) { s.do("PUBLISH", channel, "0") }

// woken reports whether l was woken since the last call.
func woken(l *pubsub.Listener) bool {
	synctest.Wait()
	select {
	case <-l.Wake():
		return true
	default:
		return false
	}
}

func TestAListenerIsWokenByTheConfirmationAndByEachMessageOfItsChannel(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		require.Zero(t, l.News())
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		before := l.News()
		require.NotZero(t, before.Confirmed, "what came before the confirmation was not heard")
		srv.publish("b")
		require.False(t, woken(&l))
		require.Equal(t, before, l.News())
		srv.publish("a")
		require.True(t, woken(&l))
		require.Equal(t, before.Messages+1, l.News().Messages)
		require.Equal(t, before.Confirmed, l.News().Confirmed)
		n, now := sub.Heard("a")
		require.Equal(t, uint64(1), n)
		require.True(t, now)
		l.Leave()
		srv.publish("a")
		require.False(t, woken(&l))
	})
}

// TestTheFirstAnswerOfEachConnectionIsToldOf, and no other one. A connection that ends before it has none.
func TestTheFirstAnswerOfEachConnectionIsToldOf(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var closes atomic.Bool
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) {
			if closes.Load() {
				return conn, conn.Close()
			}
			return conn, nil
		}
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		for connections := int32(1); connections <= 3; connections++ {
			closes.Store(false)
			time.Sleep(10 * time.Second)
			srv.publish("a")
			require.True(t, woken(&l))
			require.Equal(t, connections, srv.answered.Load())
			closes.Store(true)
			sub.Drop()
			time.Sleep(10 * time.Second)
			require.Equal(t, connections, srv.answered.Load())
		}
		l.Leave()
	})
}

func TestAListenerLearnsThatItMayHaveMissedAMessage(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		before := l.News()
		require.Zero(t, before.Upto, "no ping was answered yet")
		time.Sleep(time.Minute)
		synctest.Wait()
		require.LessOrEqual(t, time.Since(l.News().Upto), 4*time.Second, "one was")

		require.NoError(t, srv.Kill())
		synctest.Wait()
		require.Zero(t, l.News().Upto, "it hears nothing now")
		_, subscribed := sub.Heard("a")
		require.False(t, subscribed)
		require.NoError(t, srv.Restart(context.Background()))
		srv.publish("a") // nobody hears this one
		<-l.Wake()
		synctest.Wait()
		again := l.News()
		require.NotEqual(t, before.Confirmed, again.Confirmed)
		require.Equal(t, before.Messages, again.Messages)
		require.Zero(t, again.Upto, "no ping was answered on this connection")
		srv.publish("a")
		require.True(t, woken(&l))
		require.Equal(t, 1, strings.Count(srv.logged(), "pub/sub failed"))
		require.Equal(t, 1, strings.Count(srv.logged(), "pub/sub works again"))
		l.Leave()
	})
}

func TestASilentServerIsDialledAnew(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		time.Sleep(time.Hour)
		require.Equal(t, int32(1), srv.dials.Load(), "an idle connection lives")
		before := l.News()
		require.NoError(t, srv.Pause())
		time.Sleep(10 * time.Second)
		require.Zero(t, l.News().Upto)
		require.NoError(t, srv.Resume())
		<-l.Wake()
		require.NotEqual(t, before.Confirmed, l.News().Confirmed)
		time.Sleep(10 * time.Second)
		require.LessOrEqual(t, time.Since(l.News().Upto), 4*time.Second, "what the old connection left unanswered is forgotten")
		l.Leave()
	})
}

// TestAMessageThatIsTooLongEndsItsConnection, because the library's own messages are short.
func TestAMessageThatIsTooLongEndsItsConnection(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) {
			conn.Close()
			below, err := srv.DialNet(t.Context(), "", "")
			return resp.Over(resp.New(below)), err
		}
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		srv.do("PUBLISH", "a", strings.Repeat("x", 100_000))
		<-l.Wake()
		require.Equal(t, int32(2), srv.dials.Load())
		require.Contains(t, srv.logged(), "the answer was given up")
		l.Leave()
	})
}

// The pause between dials grows while they fail, and begins anew when a connection has worked.
func TestAConnectionThatHasWorkedIsDialledAnewAtOnce(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		require.NoError(t, srv.Kill())
		time.Sleep(time.Minute)
		require.NoError(t, srv.Restart(context.Background()))
		time.Sleep(time.Minute)
		require.True(t, woken(&l))
		sub.Drop()
		time.Sleep(100 * time.Millisecond)
		require.True(t, woken(&l))
		l.Leave()
	})
}

// TestVeryManyChannelsAreSubscribed, which are more than one SUBSCRIBE takes.
func TestVeryManyChannelsAreSubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		listeners := make([]pubsub.Listener, 2500)
		for i := range listeners {
			listeners[i] = pubsub.NewListener(make(chan struct{}, 1))
			listeners[i].Listen(sub, fmt.Sprint("a", i))
		}
		for range 2 {
			for i := range listeners {
				require.True(t, woken(&listeners[i]), i)
			}
			sub.Drop() // now all are subscribed together
			time.Sleep(time.Second)
		}
		for i := range listeners {
			listeners[i].Leave()
		}
	})
}

func TestAConnectionToAServerThatWasReplacedIsNotUsed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		before := l.News()
		srv.epoch.Add(1)
		sub.Drop()
		<-l.Wake()
		require.NotEqual(t, before.Confirmed, l.News().Confirmed)
		require.Equal(t, int32(2), srv.dials.Load())
		l.Leave()
	})
}

// TestAConnectionForCommandsIsFollowed, because it may have led to another server behind the name.
func TestAConnectionForCommandsIsFollowed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		srv.commands.Add(1)
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		time.Sleep(time.Hour)
		require.Equal(t, int32(1), srv.dials.Load(), "it was made before")
		before := l.News()
		srv.commands.Add(1)
		time.Sleep(3 * time.Second)
		require.True(t, woken(&l))
		require.NotEqual(t, before.Confirmed, l.News().Confirmed, "it may have missed messages")
		time.Sleep(time.Hour)
		require.Equal(t, int32(2), srv.dials.Load(), "once is enough")
		for range 6000 { // every 10 ms
			srv.commands.Add(1)
			time.Sleep(10 * time.Millisecond)
		}
		require.LessOrEqual(t, srv.dials.Load(), int32(2+30+1), "once for each ping")
		require.Empty(t, srv.logged())
		l.Leave()
	})
}

// TestASubscriptionIsTrustedNoLongerThanItsServerIsNoReplica: News.Upto is not later than Config.MasterSeen.
func TestASubscriptionIsTrustedNoLongerThanItsServerIsNoReplica(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		time.Sleep(time.Minute + time.Second)
		srv.proved.Store(&time.Time{})
		require.Zero(t, l.News().Upto)
		proved := time.Now()
		srv.proved.Store(&proved)
		heard := l.News().Upto
		require.True(t, heard.Before(proved), "the last ping is older")
		time.Sleep(time.Minute)
		require.Equal(t, proved, l.News().Upto)
		l.Leave()
	})
}

func TestAChannelThatNobodyListensToIsGivenUp(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		one, two := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
		one.Listen(sub, "a")
		require.True(t, woken(&one))
		two.Listen(sub, "a")
		require.False(t, woken(&two), "it was confirmed before")
		require.True(t, two.News().Listening)
		one.Leave()
		time.Sleep(time.Minute)
		srv.publish("a")
		require.True(t, woken(&two))
		two.Leave()
		time.Sleep(time.Minute)
		n, now := sub.Heard("a")
		require.Zero(t, n)
		require.False(t, now)
		one.Listen(sub, "a")
		require.True(t, woken(&one))
		one.Leave()
	})
}

// refusingConn is a connection to a server that refuses SUBSCRIBE of a channel, or of every one.
type refusingConn struct {
	redis.ConnWithTimeout
	channel *atomic.Value // the channel; nil for every one
	with    redis.Error   // the refusal; "" for that of the server in memory
	asked   *atomic.Int32 // counts SUBSCRIBE; may be nil
}

func (c refusingConn) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" {
		if c.asked != nil {
			c.asked.Add(1)
		}
		if c.channel == nil || slices.Contains(args, c.channel.Load()) {
			command, args = "NO-SUCH-COMMAND", nil
		}
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c refusingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if _, refused := err.(redis.Error); refused && c.with != "" {
		err = c.with
	}
	return reply, err
}

// TestAChannelThatIsRefusedConcernsNoOtherChannel, also if a new connection asks for all of them at once.
func TestAChannelThatIsRefusedConcernsNoOtherChannel(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		var channel atomic.Value
		var asked atomic.Int32
		channel.Store("c")
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) {
			return refusingConn{
				ConnWithTimeout: conn.(redis.ConnWithTimeout), channel: &channel, asked: &asked,
				with: "NOPERM User guest has no permissions to access one of the channels used as arguments",
			}, nil
		}
		listeners := map[string]*pubsub.Listener{}
		for _, name := range []string{"a", "b", "c", "d"} {
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(sub, name)
			listeners[name] = &l
			require.Equal(t, name != "c", woken(&l))
		}
		for dials := int32(1); dials <= 3; dials++ {
			time.Sleep(20 * time.Second)
			for name, l := range listeners {
				woken(l)
				srv.publish(name)
				require.Equal(t, name != "c", woken(l), name)
				require.Equal(t, name == "c", l.News().Confirmed == 0, name)
			}
			asked.Store(0)
			time.Sleep(10 * time.Minute)
			require.InDelta(t, 10, asked.Load(), 1)
			require.Equal(t, dials, srv.dials.Load())
			asked.Store(0)
			sub.Drop()
			time.Sleep(time.Second) // less than the period of pings
			synctest.Wait()
			require.Equal(t, int32(1+4), asked.Load(), "all together, and then each alone")
			require.NotZero(t, listeners["a"].News().Confirmed)
		}
		require.LessOrEqual(t, strings.Count(srv.logged(), "pub/sub failed"), 4, srv.logged())
		channel.Store("")
		<-listeners["c"].Wake()
		require.NotZero(t, listeners["c"].News().Confirmed)
		require.Equal(t, strings.Count(srv.logged(), "pub/sub failed"), strings.Count(srv.logged(), "pub/sub works again"))
		asked.Store(0)
		sub.Drop()
		time.Sleep(20 * time.Second)
		require.Equal(t, int32(1), asked.Load(), "all together")
		for _, l := range listeners {
			l.Leave()
		}
	})
}

// TestAConnectionThatIsNotLoggedInIsLeft, because the next one may have the new password.
func TestAConnectionThatIsNotLoggedInIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) {
			if srv.dials.Load() > 1 {
				return conn, nil
			}
			return refusingConn{ConnWithTimeout: conn.(redis.ConnWithTimeout), with: "NOAUTH Authentication required."}, nil
		}
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		time.Sleep(time.Second)
		require.True(t, woken(&l))
		l.Leave()
	})
}

// Nothing can be subscribed for a day, and waiters for more and more names come and go.
func TestWithoutASubscriptionNoChannelIsKeptForNobody(t *testing.T) {
	for what, spoil := range map[string]func(conn redis.Conn) (redis.Conn, error){
		"no connection": func(conn redis.Conn) (redis.Conn, error) { return nil, errors.Join(net.ErrClosed, conn.Close()) },
		"SUBSCRIBE is refused": func(conn redis.Conn) (redis.Conn, error) {
			return refusingConn{ConnWithTimeout: conn.(redis.ConnWithTimeout)}, nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
				srv.spoil = spoil
				stays := pubsub.NewListener(make(chan struct{}, 1))
				stays.Listen(sub, "stays")
				for i := range 2_000 {
					l := pubsub.NewListener(make(chan struct{}, 1))
					l.Listen(sub, fmt.Sprint(i))
					time.Sleep(8 * time.Second)
					l.Leave()
				}
				time.Sleep(10 * time.Second)
				channels, listed := sub.Size()
				require.Equal(t, 1, channels)
				require.LessOrEqual(t, listed, 1)
				stays.Leave()
				time.Sleep(10 * time.Second)
				channels, listed = sub.Size()
				require.Zero(t, channels+listed)
			})
		})
	}
}

// Waiters that come and go share one subscription. The time counts from the last that left.
func TestAChannelWhoseListenersComeAndGoStaysSubscribed(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		confirmed := l.News().Confirmed
		for i := range 50 {
			l.Leave()
			time.Sleep(time.Duration(100+i*30) * time.Millisecond) // less than 2 s
			l.Listen(sub, "a")
			require.Equal(t, confirmed, l.News().Confirmed)
			require.LessOrEqual(t, sub.Idle(), 1)
		}
		time.Sleep(10 * time.Second)
		require.Zero(t, sub.Idle())
		require.Equal(t, confirmed, l.News().Confirmed)
		l.Leave()
		time.Sleep(10 * time.Second)
		_, subscribed := sub.Heard("a")
		require.False(t, subscribed)
	})
}

// movedConn is a connection to a server that answers MOVED, with the slot of the channel a, to all
// that it would refuse.
type movedConn struct{ redis.ConnWithTimeout }

func (c movedConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if _, refused := err.(redis.Error); refused {
		err = redis.Error("MOVED 15495 :2")
	}
	return reply, err
}

// TestAMovedChannelWakesItsListeners: the answer MOVED to SSUBSCRIBE sends them away.
func TestAMovedChannelWakesItsListeners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memredis.Start(memredis.Config{}) // knows no SSUBSCRIBE
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		told := make(chan pipe.Redirection, 10)
		sub := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Server: "host:1", Modes: func() pubsub.SubscribeModes { return pubsub.SubscribeModes{Sharded: true, Certain: true} },
			Epoch: func() uint32 { return 0 }, Where: func() string { return "here" },
			Logger: record.New(slog.New(slog.DiscardHandler)),
			Dial: func(ctx context.Context) (redis.Conn, uint32, error) {
				conn, err := mem.DialContext(ctx, redis.DialReadTimeout(0))
				return movedConn{conn.(redis.ConnWithTimeout)}, 0, err
			},
			Redirect: func(to pipe.Redirection) bool {
				told <- to
				return to.Server != "?:2"
			},
		})
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l), "it looks where its key is now")
		require.Equal(t, pipe.Redirection{Slot: 15495, Server: "host:2"}, <-told)
		require.Empty(t, told)
		require.Zero(t, l.News().Confirmed)
		l.Leave()
		cancel()
		sub.Close()
		require.NoError(t, mem.Stop())
	})
}

// writtenConn is a connection that records the channels of each SUBSCRIBE.
type writtenConn struct {
	redis.ConnWithTimeout
	channels *[]string
}

func (c writtenConn) Send(command string, args ...any) error {
	if command == "SUBSCRIBE" {
		for _, channel := range args {
			*c.channels = append(*c.channels, channel.(string))
		}
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func TestAfterALossChannelsAreSubscribedInOneOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memredis.Start(memredis.Config{})
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(context.Background())
		var last *[]string // of the last connection
		sub := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Modes: func() pubsub.SubscribeModes { return pubsub.SubscribeModes{Plain: true, Certain: true} },
			Epoch: func() uint32 { return 0 }, Where: func() string { return "here" },
			Logger: record.New(slog.New(slog.DiscardHandler)),
			Dial: func(ctx context.Context) (redis.Conn, uint32, error) {
				conn, err := mem.DialContext(ctx, redis.DialReadTimeout(0))
				last = new([]string)
				return writtenConn{conn.(redis.ConnWithTimeout), last}, 0, err
			},
		})
		for i := range 100 {
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(sub, fmt.Sprintf("%02d", (37*i)%100))
			defer l.Leave()
			synctest.Wait()
		}
		require.Equal(t, "37", (*last)[1], "as they came")
		sub.Drop()
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, *last, 100)
		require.IsIncreasing(t, *last)
		cancel()
		sub.Close()
		require.NoError(t, mem.Stop())
	})
}

// TestAPubSubThatFailsAgainAndAgainMakesFewRecords.
func TestAPubSubThatFailsAgainAndAgainMakesFewRecords(t *testing.T) {
	for _, n := range []int{1_000, 10_000} {
		bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(sub, "a")
			began := time.Now()
			for range n {
				time.Sleep(5100 * time.Millisecond) // so long that the next dial is soon
				require.NotZero(t, l.News().Confirmed)
				sub.Drop()
			}
			minutes := int(time.Since(began)/time.Minute) + 1
			failed := strings.Count(srv.logged(), "pub/sub failed")
			require.LessOrEqual(t, failed, 5*minutes, "of %d", n)
			require.InDelta(t, failed, strings.Count(srv.logged(), "pub/sub works again"), 1)

			time.Sleep(time.Minute)
			for range 6 { // one more than the log takes
				sub.Drop()
				time.Sleep(5100 * time.Millisecond)
			}
			require.NoError(t, srv.Kill())
			time.Sleep(2 * time.Minute)
			lines := strings.Split(srv.logged(), "\n")
			require.Contains(t, lines[len(lines)-2], "pub/sub failed", "it is told late, not never")
			require.NoError(t, srv.Restart(context.Background()))
		})
	}
}

// TestAServerThatSendsAndReadsNothingIsLeft: it is not silent, and a connection of a pool may have no
// limit for writes.
func TestAServerThatSendsAndReadsNothingIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int32
		ctx, cancel := context.WithCancel(context.Background())
		sub := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Where: func() string { return "here" }, Epoch: func() uint32 { return 0 },
			Modes:  func() pubsub.SubscribeModes { return pubsub.SubscribeModes{Plain: true} },
			Logger: record.New(slog.New(slog.DiscardHandler)),
			Dial: func(context.Context) (redis.Conn, uint32, error) {
				dials.Add(1)
				here, there := net.Pipe() // holds no bytes
				go func() {
					for {
						if _, err := io.WriteString(there, "*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nx\r\n"); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				}()
				return redis.NewConn(here, 0, 0), 0, nil
			},
		})
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "c")
		time.Sleep(time.Minute)
		cancel()
		sub.Close()
		require.Greater(t, dials.Load(), int32(5))
	})
}
