package pipe_test

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// justInTime is a connection whose answer is read in the moment in which ctx ends.
type justInTime struct {
	redis.Conn // nil: nothing else of it is called
	end        func()
}

func (justInTime) Send(string, ...any) error { return nil }
func (justInTime) Flush() error              { return nil }
func (justInTime) Close() error              { return nil }

func (justInTime) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, nil }

func (c justInTime) ReceiveWithTimeout(time.Duration) (any, error) {
	c.end()
	return "PONG", nil
}

// TestARoundTripThatEndsWithItsContextFails, though there is an answer: the
// connection is being closed.
func TestARoundTripThatEndsWithItsContextFails(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	_, err := pipe.RoundTrip(ctx, justInTime{end: cancel}, "PING")
	require.ErrorIs(t, err, context.Canceled)
	reply, err := pipe.RoundTrip(context.Background(), justInTime{end: func() {}}, "PING")
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
}
