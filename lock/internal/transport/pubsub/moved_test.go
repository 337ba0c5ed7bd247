package pubsub_test

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/record"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
)

// farConn is a connection on which each answer takes a millisecond.
type farConn struct{ redis.ConnWithTimeout }

func (c farConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	time.Sleep(time.Millisecond)
	return reply, err
}

// redirecting runs f with two Subscribers. Each is of a server with sharded channels that says, while
// it refuses, that the slot of each channel is on the other server. known is what Config.Redirect
// returns. place is the Subscriber of the server that was named last.
func redirecting(t *testing.T, known bool, f func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, place *atomic.Pointer[pubsub.Subscriber])) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		var servers [2]*shardServer
		var subs [2]*pubsub.Subscriber
		var place atomic.Pointer[pubsub.Subscriber]
		for i := range servers {
			mem, err := memredis.Start(memredis.Config{})
			require.NoError(t, err)
			srv := &shardServer{server: &server{Server: mem, t: t}}
			srv.refuses.Store(true)
			srv.hear(sharded)
			servers[i] = srv
			subs[i] = pubsub.New(ctx, pubsub.Config{
				Timeout: time.Second, Modes: srv.heard, Epoch: srv.epoch.Load, Where: func() string { return "here" },
				Logger: record.New(slog.New(slog.NewTextHandler(srv, nil))), Server: "host:1",
				Dial: func(ctx context.Context) (redis.Conn, uint32, error) {
					srv.dials.Add(1)
					conn, err := mem.DialContext(ctx, redis.DialReadTimeout(0))
					if err != nil {
						return nil, 0, err
					}
					return farConn{movedConn{shards{conn.(redis.ConnWithTimeout), srv}}}, 0, nil
				},
				Redirect: func(pipe.Redirection) bool {
					if known {
						place.Store(subs[1-i])
					}
					return known
				},
			})
		}
		place.Store(subs[0])
		f(t, servers, subs, &place)
		cancel()
		for i := range servers {
			subs[i].Close()
			require.NoError(t, servers[i].Stop())
		}
	})
}

// TestServersThatNameEachOtherAreAskedSeldom. If one of them takes the slot, it is found soon.
func TestServersThatNameEachOtherAreAskedSeldom(t *testing.T) {
	for accepts := range 2 {
		redirecting(t, true, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, place *atomic.Pointer[pubsub.Subscriber]) {
			var told told
			follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return place.Load(), name }, told.tell)
			defer run(follower)()
			follower.Follow("a")
			time.Sleep(10 * time.Second)
			synctest.Wait()
			asked := servers[0].asked.Load() + servers[1].asked.Load()
			require.Less(t, asked, int32(30))
			require.Greater(t, asked, int32(5), "they are asked again")
			servers[accepts].refuses.Store(false)
			told.take()
			time.Sleep(2100 * time.Millisecond) // the period of pings, and a little
			require.Equal(t, "a missed", told.take())
			_, subscribed := subs[accepts].Heard("a")
			require.True(t, subscribed)
			asked = servers[0].asked.Load() + servers[1].asked.Load()
			time.Sleep(time.Minute)
			synctest.Wait()
			require.Equal(t, asked, servers[0].asked.Load()+servers[1].asked.Load(), "it stays there")
			require.Equal(t, []int32{1, 1}, []int32{servers[0].dials.Load(), servers[1].dials.Load()})
		})
	}
}

// TestAServerThatEndsEachSubscriptionIsAskedSeldom. When it stops ending them, that is found soon.
func TestAServerThatEndsEachSubscriptionIsAskedSeldom(t *testing.T) {
	redirecting(t, true, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, place *atomic.Pointer[pubsub.Subscriber]) {
		servers[0].refuses.Store(false)
		servers[0].ends.Store(true)
		var told told
		follower := pubsub.NewFollower(func(name string) (*pubsub.Subscriber, string) { return place.Load(), name }, told.tell)
		defer run(follower)()
		follower.Follow("a")
		time.Sleep(10 * time.Second)
		synctest.Wait()
		require.Less(t, servers[0].asked.Load(), int32(15))
		require.Greater(t, servers[0].asked.Load(), int32(5), "it is asked again")
		servers[0].ends.Store(false)
		told.take()
		time.Sleep(2100 * time.Millisecond) // the period of pings, and a little
		require.Equal(t, "a missed", told.take())
		_, subscribed := subs[0].Heard("a")
		require.True(t, subscribed)
		servers[0].do("PUBLISH", shard+"a", moved) // moved in earnest
		servers[0].refuses.Store(true)
		servers[1].refuses.Store(false)
		place.Store(subs[1])
		time.Sleep(100 * time.Millisecond)
		_, subscribed = subs[1].Heard("a")
		require.True(t, subscribed)
		require.Equal(t, int32(1), servers[0].dials.Load())
	})
}

// TestAChannelWhoseServerIsNotKnownIsAskedForAgain with each ping, however many listen.
func TestAChannelWhoseServerIsNotKnownIsAskedForAgain(t *testing.T) {
	redirecting(t, false, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, _ *atomic.Pointer[pubsub.Subscriber]) {
		l := pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(subs[0], "a")
		for range 100 {
			other := pubsub.NewListener(make(chan struct{}, 1))
			other.Listen(subs[0], "a")
			time.Sleep(100 * time.Millisecond)
			other.Leave()
		}
		synctest.Wait()
		require.False(t, woken(&l), "it need not look elsewhere")
		require.InDelta(t, 1+5, servers[0].asked.Load(), 1)
		servers[0].refuses.Store(false)
		time.Sleep(2100 * time.Millisecond)
		require.True(t, woken(&l))
		require.NotZero(t, l.News().Confirmed)
		l.Leave()
	})
}

// TestAChannelThatWasRedirectedAndLeftIsAskedForByTheNext listener.
func TestAChannelThatWasRedirectedAndLeftIsAskedForByTheNext(t *testing.T) {
	for pause := 500 * time.Millisecond; pause < 10*time.Second; pause += 500 * time.Millisecond {
		redirecting(t, false, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, _ *atomic.Pointer[pubsub.Subscriber]) {
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(subs[0], "a")
			time.Sleep(time.Second)
			l.Leave()
			time.Sleep(pause)
			servers[0].refuses.Store(false)
			l.Listen(subs[0], "a")
			time.Sleep(2100 * time.Millisecond)
			require.True(t, woken(&l), pause)
			require.Equal(t, int32(1), servers[0].dials.Load(), pause)
			l.Leave()
			time.Sleep(10 * time.Second)
			channels, listed := subs[0].Size()
			require.Zero(t, channels+listed)
		})
	}
}

// TestAServerWithoutTheSlotMayRefuseToUnsubscribe: it gives the slot away after the last listener has left.
func TestAServerWithoutTheSlotMayRefuseToUnsubscribe(t *testing.T) {
	redirecting(t, true, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, _ *atomic.Pointer[pubsub.Subscriber]) {
		servers[0].refuses.Store(false)
		l, other := pubsub.NewListener(make(chan struct{}, 1)), pubsub.NewListener(make(chan struct{}, 1))
		l.Listen(subs[0], "a")
		other.Listen(subs[0], "b")
		time.Sleep(time.Second)
		servers[0].refuses.Store(true)
		l.Leave()
		time.Sleep(10 * time.Second)
		_, subscribed := subs[0].Heard("a")
		require.False(t, subscribed)
		require.Equal(t, int32(1), servers[0].dials.Load())
		other.Leave()
	})
}

// TestARedirectedSubscriptionCostsWorkForItsChannelAlone, and so does one that is refused.
func TestARedirectedSubscriptionCostsWorkForItsChannelAlone(t *testing.T) {
	listen := func(sub *pubsub.Subscriber, n int) (leave func()) {
		listeners := make([]pubsub.Listener, n)
		for i := range listeners {
			listeners[i] = pubsub.NewListener(make(chan struct{}, 1))
			listeners[i].Listen(sub, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		return func() {
			for i := range listeners {
				listeners[i].Leave()
			}
		}
	}
	for _, n := range []int{1_000, 10_000} {
		redirecting(t, true, func(t *testing.T, servers [2]*shardServer, subs [2]*pubsub.Subscriber, _ *atomic.Pointer[pubsub.Subscriber]) {
			leave := listen(subs[0], n)
			require.LessOrEqual(t, subs[0].Looks(), 4*n, "redirected")
			leave()
		})
		sharding(t, func(srv *shardServer) bool { srv.hear(both); return true }, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
			srv.refuses.Store(true)
			srv.hear(sharded)
			leave := listen(sub, n)
			_, subscribed := sub.Heard("7")
			require.True(t, subscribed)
			require.LessOrEqual(t, sub.Looks(), 8*n, "refused")
			leave()
		})
	}
}
