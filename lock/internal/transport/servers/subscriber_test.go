package servers_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/format/keys"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
	"github.com/wheellock/wheellock/lock/internal/transport/servers"
	"github.com/wheellock/wheellock/lock/locktest/memredis"
	"github.com/wheellock/wheellock/lock/topology"
)

// redirectingConn is a connection to a server that says, for each SSUBSCRIBE, that the slot is on
// another server.
type redirectingConn struct {
	redis.ConnWithTimeout
	asked *atomic.Int32 // counts SSUBSCRIBE
	to    string
}

func (c redirectingConn) Send(command string, args ...any) error {
	if command == "SSUBSCRIBE" {
		c.asked.Add(1)
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c redirectingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if _, refused := err.(redis.Error); refused {
		err = redis.Error(fmt.Sprint("MOVED ", keys.Slot("channel"), " ", c.to))
	}
	return reply, err
}

// TestASubscriptionIsNotSentToNoServer, nor back to the server that redirects it. It stays, and is asked
// for with each ping.
func TestASubscriptionIsNotSentToNoServer(t *testing.T) {
	for to, away := range map[string]bool{"a": false, "more": false, "b": true} {
		synctest.Test(t, func(t *testing.T) {
			mem, err := memredis.Start(memredis.Config{}) // knows no SSUBSCRIBE
			require.NoError(t, err)
			defer func() { require.NoError(t, mem.Stop()) }()
			var asked atomic.Int32
			f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
				conn, err := mem.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				return redirectingConn{conn.(redis.ConnWithTimeout), &asked, to}, nil
			}}
			f.traits.PubSub = topology.PubSubSharded
			f.build(t, true)
			f.follow()
			f.publishLayout("a", "b")
			s := f.router.Server(keyOf(0))
			require.Equal(t, "a", s.Name())
			for i := range servers.MostUnnamed {
				s.FollowRedirection(pipe.Redirection{Ask: true, Server: fmt.Sprint("lie ", i)})
			}
			l := pubsub.NewListener(make(chan struct{}, 1))
			l.Listen(s.Subscriber(), "channel")
			time.Sleep(10*time.Second + 1)
			synctest.Wait()
			require.Equal(t, away, len(l.Wake()) > 0, to)
			if !away {
				require.Equal(t, int32(6), asked.Load(), to)
			}
			l.Leave()
			f.close()
		})
	}
}

// shardingConn is a connection to a server that has SSUBSCRIBE.
type shardingConn struct{ redis.ConnWithTimeout }

func (c shardingConn) Send(command string, args ...any) error {
	if command == "SSUBSCRIBE" {
		command = "SUBSCRIBE"
	}
	return c.ConnWithTimeout.Send(command, args...)
}

func (c shardingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(timeout)
	if values, ok := reply.([]any); ok && len(values) > 0 {
		if kind, _ := redis.String(values[0], nil); kind == "subscribe" {
			values[0] = []byte("ssubscribe")
		}
	}
	return reply, err
}

// TestAnASKEndsTheCertaintyOfMessagesAtOnce, and until the ping that follows Config.Overlap.
func TestAnASKEndsTheCertaintyOfMessagesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem, err := memredis.Start(memredis.Config{})
		require.NoError(t, err)
		defer func() { require.NoError(t, mem.Stop()) }()
		f := &fixture{dial: func(ctx context.Context, _ string) (redis.Conn, error) {
			conn, err := mem.DialContext(ctx)
			if err != nil {
				return nil, err
			}
			return shardingConn{conn.(redis.ConnWithTimeout)}, nil
		}}
		f.traits.PubSub = topology.PubSubSharded
		f.overlap = 10 * time.Millisecond
		f.build(t, true)
		defer f.close()
		f.follow()
		f.publishLayout("a", "b")
		s := f.router.Server(keyOf(0))
		l := pubsub.NewListener(make(chan struct{}, 1))
		defer l.Leave()
		l.Listen(s.Subscriber(), "channel")
		isCertain := func() bool { return !l.News().Upto.IsZero() }
		time.Sleep(10*time.Second + 1)
		synctest.Wait()
		require.True(t, isCertain())
		for range 3 {
			s.FollowRedirection(pipe.Redirection{Slot: 0, Server: "b"})
			require.True(t, isCertain(), "the slot has moved")
			s.FollowRedirection(pipe.Redirection{Slot: 0, Server: "b", Ask: true})
			require.False(t, isCertain())
			time.Sleep(2 * time.Second)
			synctest.Wait()
			require.True(t, isCertain())
		}
	})
}
