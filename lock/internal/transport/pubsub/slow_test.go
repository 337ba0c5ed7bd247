package pubsub_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pubsub"
)

// slowConn is a connection to a server that takes 0.6 ms to read a channel, and reads at most most channels.
type slowConn struct {
	redis.ConnWithTimeout
	most int

	read, unread int // channels; used only by the goroutine that writes
	closed       chan struct{}
	closeOnce    sync.Once
}

func newSlowConn(conn redis.Conn, most int) *slowConn {
	return &slowConn{ConnWithTimeout: conn.(redis.ConnWithTimeout), most: most, closed: make(chan struct{})}
}

func (c *slowConn) Send(command string, args ...any) error {
	c.unread += len(args)
	return c.ConnWithTimeout.Send(command, args...)
}

func (c *slowConn) Flush() error {
	takes := time.Duration(c.unread) * 600 * time.Microsecond
	if c.read, c.unread = c.read+c.unread, 0; c.read > c.most {
		takes = time.Hour
	}
	select {
	case <-time.After(takes):
	case <-c.closed:
	}
	return c.ConnWithTimeout.Flush()
}

func (c *slowConn) Close() error {
	c.closeOnce.Do(func() { close(c.closed) })
	return c.ConnWithTimeout.Close()
}

// listenToMany listens to 5,000 channels, which are more than one SUBSCRIBE takes.
func listenToMany(sub *pubsub.Subscriber) []pubsub.Listener {
	listeners := make([]pubsub.Listener, 5000)
	for i := range listeners {
		listeners[i] = pubsub.NewListener(make(chan struct{}, 1))
		listeners[i].Listen(sub, fmt.Sprint("a", i))
	}
	return listeners
}

// TestVeryManyChannelsAreSubscribedOverASlowLink: all parts together take longer than Config.Timeout, and
// each part takes less.
func TestVeryManyChannelsAreSubscribedOverASlowLink(t *testing.T) {
	test := func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) { return newSlowConn(conn, 1<<30), nil }
		listeners := listenToMany(sub)
		time.Sleep(time.Minute)
		for i := range listeners {
			require.True(t, woken(&listeners[i]), i)
			require.True(t, listeners[i].News().Listening, i)
			listeners[i].Leave()
		}
		time.Sleep(time.Minute)
		channels, _ := sub.Size()
		require.Zero(t, channels)
		require.Equal(t, int32(1), srv.dials.Load())
	}
	bubble(t, test)
	sharding(t, never, func(t *testing.T, srv *shardServer, sub *pubsub.Subscriber) {
		srv.hear(sharded)
		test(t, srv.server, sub)
	})
}

// TestAServerThatReadsNoMoreIsLeft within Config.Timeout, although it has read the first parts.
func TestAServerThatReadsNoMoreIsLeft(t *testing.T) {
	bubble(t, func(t *testing.T, srv *server, sub *pubsub.Subscriber) {
		srv.spoil = func(conn redis.Conn) (redis.Conn, error) { return newSlowConn(conn, 2500), nil }
		listeners := listenToMany(sub)
		time.Sleep(time.Minute)
		require.Greater(t, srv.dials.Load(), int32(5))
		for i := range listeners {
			listeners[i].Leave()
		}
	})
}
