package pubsub_test

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

var (
	both    = pubsub.SubscribeModes{Plain: true, Sharded: true}
	plain   = pubsub.SubscribeModes{Plain: true, Certain: true}
	sharded = pubsub.SubscribeModes{Sharded: true, Certain: true}
)

// shard begins the name of a plain channel that stands for a sharded one, because the server in
// memory has only plain channels.
const shard = "shard/"

// moved is a message that stands for the server's notice that the slot of a channel has moved.
const moved = "moved"

// shards is a connection to a server that has sharded channels, and may refuse them.
type shards struct {
	redis.ConnWithTimeout
	srv *shardServer
}

type shardServer struct {
	*server
	refuses atomic.Bool  // it refuses SSUBSCRIBE
	asked   atomic.Int32 // counts SSUBSCRIBE
	plain   atomic.Int32 // counts SUBSCRIBE
	ends    atomic.Bool  // it ends each sharded subscription at once
	ended   atomic.Int32 // counts the ends that lateEnd has delayed

	late    atomic.Pointer[chan struct{}] // until this channel is closed, no answer to SSUBSCRIBE comes; may be nil
	lateEnd atomic.Pointer[chan struct{}] // the same for SUNSUBSCRIBE
}

func (c shards) Send(command string, args ...any) error {
	switch command {
	case "SUBSCRIBE":
		c.srv.plain.Add(1)
	case "SSUBSCRIBE":
		if c.srv.asked.Add(1); c.srv.refuses.Load() {
			break // the server does not know it
		}
		fallthrough
	case "SUNSUBSCRIBE":
		if c.srv.refuses.Load() {
			break
		}
		named := make([]any, len(args))
		for i := range args {
			named[i] = shard + args[i].(string)
		}
		command, args = command[1:], named
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c shards) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if push, ok := reply.([]any); ok && len(push) > 1 {
		if channel, ok := strings.CutPrefix(string(push[1].([]byte)), shard); ok {
			kind := push[0].([]byte)
			if text, ok := push[2].([]byte); ok && string(text) == moved {
				kind = []byte("unsubscribe")
			}
			push[0], push[1] = append([]byte("s"), kind...), []byte(channel)
			if late := c.srv.late.Load(); late != nil && string(kind) == "subscribe" {
				<-*late
			}
			if late := c.srv.lateEnd.Load(); late != nil && string(kind) == "unsubscribe" {
				c.srv.ended.Add(1)
				<-*late
			}
			if string(kind) == "subscribe" && c.srv.ends.Load() {
				c.srv.do("PUBLISH", shard+channel, moved)
			}
		}
	}
	return reply, err
}

// sharding runs f with a Subscriber of a server that has sharded channels. deaf is Config.Deaf.
func sharding(t *testing.T, deaf func(srv *shardServer) bool, f func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber)) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memredis.Start(memredis.Config{})
		require.NoError(t, err)
		srv := &shardServer{server: &server{Server: mem, t: t}}
		ctx, cancel := context.WithCancel(context.Background())
		sub := pubsub.New(ctx, pubsub.Config{
			Timeout: time.Second, Modes: srv.heard, Epoch: srv.epoch.Load, Where: func() string { return "here" },
			Logger: record.New(slog.New(slog.NewTextHandler(srv, nil))), SSubscribeRefused: func(error) bool { return deaf(srv) },
			Dial: func(ctx context.Context) (redis.Conn, uint32, error) {
				srv.dials.Add(1)
				conn, err := mem.DialContext(ctx, redis.DialReadTimeout(0))
				if err != nil {
					return nil, 0, err
				}
				if srv.spoil != nil {
					if conn, err = srv.spoil(conn); err != nil {
						return nil, 0, err
					}
				}
				return shards{conn.(redis.ConnWithTimeout), srv}, srv.epoch.Load(), nil
			},
		})
		f(t, srv, sub)
		cancel()
		sub.Close()
		require.NoError(t, mem.Stop())
	})
}

func never(*shardServer) bool { return false }

// hear sets what Config.Modes returns from now on.
func (s *server) hear(h pubsub.SubscribeModes) { s.hears.Store(&h) }

func (s *server) do(command string, args ...any) any {
	conn, err := s.DialContext(context.Background())
	require.NoError(s.t, err)
	defer conn.Close()
	reply, err := conn.Do(command, args...)
	require.NoError(s.t, err)
	return reply
}

// published publishes a message in both ways, and returns which ones were heard.
func (s *shardServer) published(l *pubsub.Listener, channel string) (heard pubsub.SubscribeModes) {
	s.publish(channel)
	heard.Plain = woken(l)
	s.publish(shard + channel)
	heard.Sharded = woken(l)
	return heard
}

func TestAListenerHearsWhatItIsToHear(t *testing.T) {
	for _, h := range []pubsub.SubscribeModes{plain, sharded, both} {
		sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
			srv.hear(h)
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(sub, "a")
			require.True(t, woken(&l))
			require.Equal(t, pubsub.SubscribeModes{Plain: h.Plain, Sharded: h.Sharded}, srv.published(&l, "a"))
			require.Equal(t, pubsub.SubscribeModes{}, srv.published(&l, "b"))
			time.Sleep(time.Minute)
			require.Equal(t, h.Certain, !l.News().Upto.IsZero(), "who may be deaf to some does not say that it has heard all")
			require.NoError(t, srv.Kill())
			require.NoError(t, srv.Restart(t.Context()))
			<-l.Wake()
			synctest.Wait()
			require.Equal(t, pubsub.SubscribeModes{Plain: h.Plain, Sharded: h.Sharded}, srv.published(&l, "a"), "and so on the next connection")
			l.Leave()
		})
	}
}

// TestOneConfirmationIsForAllWays, because each confirmation makes a waiter ask Redis.
func TestOneConfirmationIsForAllWays(t *testing.T) {
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.hear(both)
		l, other := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
		other.Listen(sub, "b")
		require.True(t, woken(&other))
		first := other.News().Confirmed
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		require.Equal(t, first+1, l.News().Confirmed, "each confirmation has a number")
		l.Leave()
		other.Leave()
	})
}

func TestAListenerThatSleepsIsTunedAnew(t *testing.T) {
	for _, change := range [][2]pubsub.SubscribeModes{{plain, sharded}, {sharded, plain}} {
		sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
			srv.hear(change[0])
			l, gone := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(sub, "a")
			gone.Listen(sub, "gone")
			require.True(t, woken(&l))
			gone.Leave()
			before := l.News()
			srv.hear(both)
			sub.Retune()
			require.True(t, woken(&l), "what was published in the other way before was not heard")
			require.NotEqual(t, before.Confirmed, l.News().Confirmed)
			require.Equal(t, both, srv.published(&l, "a"))
			between := l.News()

			srv.hear(change[1]) // nobody says so: the time is over
			time.Sleep(time.Minute)
			require.False(t, woken(&l), "nothing was missed")
			require.Equal(t, between.Confirmed, l.News().Confirmed)
			require.False(t, l.News().Upto.IsZero())
			require.Equal(t, pubsub.SubscribeModes{Plain: change[1].Plain, Sharded: change[1].Sharded}, srv.published(&l, "a"))
			require.Equal(t, int32(1), srv.dials.Load())
			l.Leave()
		})
	}
}

// TestAWayThatIsGivenUpIsNotWaitedFor, even if its SUBSCRIBE is not answered yet.
func TestAWayThatIsGivenUpIsNotWaitedFor(t *testing.T) {
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		late := make(chan struct{})
		srv.late.Store(&late)
		srv.hear(both)
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.False(t, woken(&l), "it is not heard in both ways yet")
		srv.hear(plain)
		sub.Retune()
		require.True(t, woken(&l))
		confirmed := l.News().Confirmed
		close(late)
		time.Sleep(time.Minute)
		require.False(t, woken(&l))
		require.Equal(t, confirmed, l.News().Confirmed)
		require.False(t, l.News().Upto.IsZero())
		require.Equal(t, pubsub.SubscribeModes{Plain: true}, srv.published(&l, "a"))
		l.Leave()
	})
}

// TestWhoMayNotUseShardsHearsTheOthers. A user without the right to SSUBSCRIBE hears plain messages
// over the same connection.
func TestWhoMayNotUseShardsHearsTheOthers(t *testing.T) {
	told := 0
	sharding(t, func(srv *shardServer) bool { told++; srv.hear(both); return true }, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.refuses.Store(true)
		srv.hear(sharded)
		l, other := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		require.NotZero(t, l.News().Confirmed)
		require.Equal(t, 1, told)
		other.Listen(sub, "b")
		require.True(t, woken(&other))
		require.Equal(t, pubsub.SubscribeModes{Plain: true}, srv.published(&l, "a"))
		require.Equal(t, pubsub.SubscribeModes{Plain: true}, srv.published(&other, "b"))
		require.Equal(t, int32(1), srv.asked.Load(), "a server that refuses is not asked for each channel")
		require.Equal(t, int32(1), srv.dials.Load())
		time.Sleep(time.Minute)
		require.Zero(t, l.News().Upto)
		srv.refuses.Store(false)
		require.NoError(t, srv.Kill())
		require.NoError(t, srv.Restart(t.Context()))
		<-l.Wake()
		synctest.Wait()
		require.Equal(t, both, srv.published(&l, "a"), "a new connection may")
		l.Leave()
		other.Leave()
	})
}

// TestARefusalWithoutAnotherWayIsForItsChannelAlone, and is asked for again: soon if it may pass, as while
// one slot has no server.
func TestARefusalWithoutAnotherWayIsForItsChannelAlone(t *testing.T) {
	for refusal, again := range map[redis.Error]time.Duration{
		"NOPERM User guest has no permissions to access one of the channels used as arguments": time.Minute,
		"CLUSTERDOWN Hash slot not served": 2 * time.Second,
	} {
		sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
			srv.spoil = func(conn redis.Conn) (redis.Conn, error) {
				return refusingConn{ConnWithTimeout: conn.(redis.ConnWithTimeout), channel: new(atomic.Value), with: refusal}, nil
			}
			srv.hear(sharded)
			heard, refused := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
			heard.Listen(sub, "a")
			require.True(t, woken(&heard))
			srv.refuses.Store(true)
			refused.Listen(sub, "b")
			time.Sleep(10 * time.Minute)
			synctest.Wait()
			require.InDelta(t, 2+10*time.Minute/again, srv.asked.Load(), 20)
			require.Zero(t, refused.News().Confirmed)
			require.Equal(t, pubsub.SubscribeModes{Sharded: true}, srv.published(&heard, "a"))
			require.Equal(t, int32(1), srv.dials.Load())
			require.Equal(t, 1, strings.Count(srv.logged(), "pub/sub failed"))
			srv.refuses.Store(false)
			began := time.Now()
			<-refused.Wake()
			require.NotZero(t, refused.News().Confirmed)
			require.LessOrEqual(t, time.Since(began), again+2*time.Second)
			require.Equal(t, 1, strings.Count(srv.logged(), "pub/sub works again"))
			heard.Leave()
			refused.Leave()
		})
	}
}

// TestARefusedWayThatIsNotNeededAnyMoreIsNotAskedFor.
func TestARefusedWayThatIsNotNeededAnyMoreIsNotAskedFor(t *testing.T) {
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.refuses.Store(true)
		srv.hear(both)
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.False(t, woken(&l), "messages of SPUBLISH are missed")
		require.Equal(t, pubsub.SubscribeModes{Plain: true}, srv.published(&l, "a"))
		time.Sleep(10*time.Minute + time.Second)
		require.InDelta(t, 11, srv.asked.Load(), 1)
		require.Equal(t, int32(1), srv.plain.Load(), "it is confirmed")
		srv.refuses.Store(false) // SUNSUBSCRIBE, too
		srv.hear(plain)
		sub.Retune()
		require.True(t, woken(&l))
		require.NotZero(t, l.News().Confirmed)
		asked, looks := srv.asked.Load(), sub.Looks()
		time.Sleep(10 * time.Minute)
		require.Equal(t, []int{int(asked), looks}, []int{int(srv.asked.Load()), sub.Looks()})
		require.Equal(t, int32(1), srv.dials.Load())
		l.Leave()
	})
}

// TestAChannelThatHasMovedIsHeardNoMore in either way, and again if it comes back.
func TestAChannelThatHasMovedIsHeardNoMore(t *testing.T) {
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.hear(both)
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		before := l.News().Confirmed
		srv.do("PUBLISH", shard+"a", moved)
		require.True(t, woken(&l), "it looks where its key is now")
		numsub, err := redis.Values(srv.do("PUBSUB", "NUMSUB", "a"), nil)
		require.NoError(t, err)
		require.Equal(t, int64(0), numsub[1], "the other way is given up, too")
		require.True(t, l.Listen(sub, "a"), "it was given up")
		require.True(t, woken(&l))
		require.Greater(t, l.News().Confirmed, before)
		require.Equal(t, both, srv.published(&l, "a"))
		l.Leave()
	})
}

// TestAChannelThatIsListenedToAgainBeforeItsEndIsAnsweredHasNotMoved. Its SUNSUBSCRIBE was sent at a ping, and
// a listener came before the answer.
func TestAChannelThatIsListenedToAgainBeforeItsEndIsAnsweredHasNotMoved(t *testing.T) {
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.hear(sharded)
		l, other := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
		other.Listen(sub, "b")
		l.Listen(sub, "a")
		require.True(t, woken(&l))
		before := l.News().Confirmed
		l.Leave()
		slow := make(chan struct{})
		srv.lateEnd.Store(&slow)
		for srv.ended.Load() == 0 { // until the ping at which it is unsubscribed
			time.Sleep(100 * time.Millisecond)
		}
		require.True(t, l.Listen(sub, "a"))
		synctest.Wait() // SSUBSCRIBE was sent
		close(slow)
		require.True(t, woken(&l))
		require.Greater(t, l.News().Confirmed, before)
		require.False(t, l.Listen(sub, "a"), "it was sent away")
		require.Equal(t, sharded.Sharded, srv.published(&l, "a").Sharded)
		require.EqualValues(t, 3, srv.asked.Load(), "for b, and twice for a")
		require.Equal(t, int32(1), srv.dials.Load())

		srv.do("PUBLISH", shard+"a", moved) // in earnest
		require.True(t, woken(&l))
		require.True(t, l.Listen(sub, "a"), "it looks where its key is now")
		require.True(t, woken(&l))
		l.Leave()
		other.Leave()
	})
}
