package redistest_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/wheellock/wheellock/integration/redistest"
)

// envParent makes the test binary a program that starts a server, prints its
// process id, and waits to be killed.
const envParent = "REDISTEST_BE_PARENT"

func TestMain(m *testing.M) {
	if os.Getenv(envParent) != "" {
		beParent()
		return
	}
	goleak.VerifyTestMain(m)
}

func beParent() {
	srv, err := redistest.Start(context.Background(), redistest.Options{})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(srv.PID())
	_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
}

// start starts a server for the length of the test.
func start(t *testing.T, o redistest.Options) *redistest.Server {
	t.Helper()
	srv, err := redistest.Start(t.Context(), o)
	if errors.Is(err, redistest.ErrNoServer) && !redistest.Required() {
		t.Skip(err)
	}
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, srv.Stop()) })
	return srv
}

// dial connects for the length of the test.
func dial(t *testing.T, srv *redistest.Server, opts ...redis.DialOption) redis.Conn {
	t.Helper()
	c, err := srv.Dial(opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func do(t *testing.T, c redis.Conn, command string, args ...any) any {
	t.Helper()
	reply, err := c.Do(command, args...)
	require.NoError(t, err)
	return reply
}

func isTimeout(err error) bool {
	var timeout interface{ Timeout() bool }
	return errors.As(err, &timeout) && timeout.Timeout()
}
