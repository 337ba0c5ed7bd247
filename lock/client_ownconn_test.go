package lock_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// TestADialFunctionOfTheProgramsMakesEveryConnection: the address leads nowhere without it.
func TestADialFunctionOfTheProgramsMakesEveryConnection(t *testing.T) {
	s := fixture.RedisOrMini(t)
	const nowhere = "192.0.2.1:1"
	for name, client := range map[string]func(dial func(ctx context.Context, network, address string) (net.Conn, error)) (*lock.Client, error){
		"the pool's Dial": func(dial func(context.Context, string, string) (net.Conn, error)) (*lock.Client, error) {
			return lock.New(&redis.Pool{
				Dial: func() (redis.Conn, error) {
					return redis.Dial("tcp", nowhere, redis.DialNetDial(func(network, address string) (net.Conn, error) {
						return dial(context.Background(), network, address)
					}))
				},
				TestOnBorrow: func(redis.Conn, time.Time) error { return errors.New("no connection of the pool is borrowed") },
			}, lock.Config{})
		},
		"lock.Dial": func(dial func(context.Context, string, string) (net.Conn, error)) (*lock.Client, error) {
			return lock.New(&redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
				return lock.Dial(ctx, "tcp", nowhere, redis.DialReadTimeout(0), redis.DialContextFunc(dial))
			}}, lock.Config{})
		},
		"an Endpoint": func(dial func(context.Context, string, string) (net.Conn, error)) (*lock.Client, error) {
			return lock.Endpoint{URL: "redis://" + nowhere, NetDial: dial}.Open(lock.Config{})
		},
	} {
		t.Run(name, func(t *testing.T) {
			var calls, open atomic.Int64
			c, err := client(func(ctx context.Context, network, address string) (net.Conn, error) {
				calls.Add(1)
				require.Equal(t, "tcp "+nowhere, network+" "+address)
				conn, err := new(net.Dialer).DialContext(ctx, s.Network(), s.Addr())
				if err != nil {
					return nil, err
				}
				open.Add(1)
				return &counted{Conn: conn, open: &open}, nil
			})
			require.NoError(t, err)
			held := fixture.Hold(t, c.Mutex(t.Name()).Lock)
			require.NoError(t, held.Unlock(bounded.Context(t)))
			require.Positive(t, calls.Load())
			require.NoError(t, c.Close(bounded.Context(t)))
			// A dial that cannot be ended may outlast Close, and is closed then.
			require.Eventually(t, func() bool { return open.Load() == 0 }, time.Minute, time.Millisecond, "Close closes what the function has made")
		})
	}
}

// counted is a connection that is counted while it is open.
type counted struct {
	net.Conn
	once sync.Once
	open *atomic.Int64
}

func (c *counted) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}

// traced is a connection of a program that traces what goes over it.
type traced struct {
	redis.ConnWithTimeout
	sent, received *atomic.Int64
}

func (c traced) Send(command string, args ...any) error {
	c.sent.Add(1)
	return c.ConnWithTimeout.Send(command, args...)
}

func (c traced) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	c.received.Add(1)
	return c.ConnWithTimeout.ReceiveWithTimeout(timeout)
}

// TestAConnectionThatAProgramWrapsIsNotBypassed, even if it wraps a connection of lock.Dial.
func TestAConnectionThatAProgramWrapsIsNotBypassed(t *testing.T) {
	s := fixture.RedisOrMini(t)
	var sent, received atomic.Int64
	c := fixture.Client(t, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		conn, err := lock.Dial(ctx, s.Network(), s.Addr())
		if err != nil {
			return nil, err
		}
		return traced{conn.(redis.ConnWithTimeout), &sent, &received}, nil
	}}, lock.Config{})
	fixture.Hold(t, c.Mutex(t.Name()).Lock)
	sent.Store(0)
	received.Store(0)
	held := fixture.Hold(t, c.Mutex(t.Name()+" too").Lock)
	require.NoError(t, held.Unlock(bounded.Context(t)))
	require.GreaterOrEqual(t, sent.Load(), int64(2))
	require.GreaterOrEqual(t, received.Load(), int64(2))
}
