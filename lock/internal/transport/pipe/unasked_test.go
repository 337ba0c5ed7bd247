package pipe_test

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// full is a connection to a server that has too many clients. The server sends its refusal without a
// request, here while a request is being written.
type full struct {
	redis.Conn // nil: nothing else of it is called
	writing    chan struct{}
	answered   chan struct{} // closed once the caller has its answer
	wrote      []any
	told       bool
}

func (c *full) Send(_ string, args ...any) error {
	close(c.writing)
	<-c.answered
	c.wrote = append(c.wrote, args...)
	return nil
}

func (c *full) Flush() error { return nil }
func (c *full) Close() error { return nil }

func (c *full) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, io.EOF }

func (c *full) ReceiveWithTimeout(time.Duration) (any, error) {
	<-c.writing
	if !c.told {
		c.told = true
		return nil, redis.Error("ERR max number of clients reached")
	}
	<-c.answered
	return nil, io.EOF
}

// TestARequestThatIsAnsweredUnaskedIsNotUsedAgainWhileItIsWritten: otherwise the
// writer would write the rest of another request.
func TestARequestThatIsAnsweredUnaskedIsNotUsedAgainWhileItIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &full{writing: make(chan struct{}), answered: make(chan struct{})}
		cfg := &pipe.Config{
			Timeout: time.Second, Epoch: func() uint32 { return 0 }, Failed: func(error) {}, Answered: func() {}, Unpublished: func(string) {},
			Dial: func(context.Context, *dialing.Bound) (pipe.Connection, error) { return pipe.Connection{Conn: c}, nil },
		}
		p := pipe.New(t.Context(), cfg)
		var requests pipe.Requests
		r := requests.New("m", script.Acquire, 1, nil, resp.ArgsOf("m", "client:1"))
		p.Put(r)
		require.ErrorContains(t, requests.Await(t.Context(), r).Err, "max number of clients")
		close(c.answered)
		synctest.Wait()
		require.Equal(t, []any{script.Acquire.SHA(), 1, []byte("m"), []byte("client:1"), int64(0)}, c.wrote)
		p.Close(errShut)
	})
}
