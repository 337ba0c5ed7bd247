package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// slowly is a connection whose Close takes long once it has sent a command, as
// that of a TLS connection may. It can hold back the answer to the command.
type slowly struct {
	redis.ConnWithTimeout
	after    string        // the command
	sent     chan struct{} // of capacity 1: a token says that it was sent
	answered chan struct{} // closed when it may be answered
	closing  chan struct{} // of capacity 1: a token says that Close was called
	closed   chan struct{} // closed when Close may go on

	mu   sync.Mutex // guards what follows
	slow bool
}

func token(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

func (c *slowly) isSlow() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.slow
}

func (c *slowly) Send(cmd string, args ...any) error {
	if cmd == c.after {
		c.mu.Lock()
		c.slow = true
		c.mu.Unlock()
	}
	return c.ConnWithTimeout.Send(cmd, args...)
}

func (c *slowly) ReceiveWithTimeout(d time.Duration) (any, error) {
	reply, err := c.ConnWithTimeout.ReceiveWithTimeout(d)
	if c.isSlow() {
		token(c.sent)
		<-c.answered
	}
	return reply, err
}

func (c *slowly) Close() error {
	if c.isSlow() {
		token(c.closing)
		<-c.closed
	}
	return c.ConnWithTimeout.Close()
}

func TestNobodyWaitsForAConnectionToClose(t *testing.T) {
	t.Parallel()
	s := onRedis(t)
	closed := func() chan struct{} { c := make(chan struct{}); close(c); return c }()
	for _, test := range []struct {
		name     string
		after    string
		replicas int
		answered chan struct{}
	}{
		{"one in use, when the server is replaced", "WAIT", 1, closed},
		{"one just made, when the server is replaced", "INFO", 0, make(chan struct{})},
		{"one just made for replicas, when the server is replaced", "INFO", 1, make(chan struct{})},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			slow := slowly{
				after: test.after, sent: make(chan struct{}, 1), answered: test.answered,
				closing: make(chan struct{}, 1), closed: make(chan struct{}),
			}
			release := sync.OnceFunc(func() { close(slow.closed) })
			top := fixture.NewShifting(func(ctx context.Context) (redis.Conn, error) {
				conn, err := s.DialContext(ctx)
				if err != nil {
					return nil, err
				}
				return &slowly{
					ConnWithTimeout: conn.(redis.ConnWithTimeout),
					after:           slow.after, sent: slow.sent, answered: slow.answered, closing: slow.closing, closed: slow.closed,
				}, nil
			})
			c := fixture.Client(t, top, lock.Config{Replicas: test.replicas, Connections: 1, ReplicaTimeout: time.Duration(test.replicas) * time.Millisecond})
			defer release()
			first := make(chan struct{})
			go func() {
				defer close(first)
				_, _ = c.Mutex(t.Name() + "1").TryLock(bounded.Context(t))
			}()
			bounded.Receive(t, slow.sent)
			if test.answered == closed {
				bounded.Receive(t, first)
			}
			become := make(chan struct{})
			go func() {
				defer close(become)
				top.Become("second")
			}()
			if test.answered != closed {
				bounded.Receive(t, become)
				close(test.answered)
			}
			bounded.Receive(t, slow.closing)
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			defer cancel()
			second := make(chan error, 1)
			go func() {
				_, err := c.Mutex(t.Name() + "2").TryLock(ctx)
				second <- err
			}()
			select {
			case <-second: // whatever it says
			case <-time.After(time.Minute):
				release()
				t.Error("TryLock waits for a connection to close")
			}
			release()
			bounded.Receive(t, first)
			bounded.Receive(t, become)
		})
	}
}
