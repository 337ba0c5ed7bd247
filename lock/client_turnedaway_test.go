package lock_test

import (
	"errors"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/integration/bounded"
	"github.com/wheellock/wheellock/integration/fixture"
	"github.com/wheellock/wheellock/lock"
)

// startDoorkeeper starts a server that turns each connection away with that text, as Redis does: it
// does not wait for a request.
func startDoorkeeper(t *testing.T, text string) (addr string, accepted *atomic.Int32) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	accepted = new(atomic.Int32)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			accepted.Add(1)
			_, _ = io.WriteString(conn, text+"\r\n")
			_ = conn.(*net.TCPConn).CloseWrite() // closing could lose the text, if a request is on its way
			go func() {
				_, _ = io.Copy(io.Discard, conn)
				conn.Close()
			}()
		}
	}()
	t.Cleanup(func() {
		require.NoError(t, l.Close())
		<-done
	})
	return l.Addr().String(), accepted
}

// TestAServerThatTurnsConnectionsAwaySaysWhy: its text is not the answer to TIME.
func TestAServerThatTurnsConnectionsAwaySaysWhy(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		text, says, advice string
		definite           bool
	}{
		{"-ERR max number of clients reached", "max number of clients reached", "raise maxclients", false},
		{"-DENIED Redis is running in protected mode because protected mode is enabled", "running in protected mode", "set protected-mode no", true},
	} {
		addr, accepted := startDoorkeeper(t, c.text)
		for _, url := range []string{"redis://" + addr, "redis://:pw@" + addr + "/2"} {
			var log fixture.Log
			client, err := lock.Open(url, lock.Config{Logger: log.Logger(), IOTimeout: 3 * time.Second})
			require.NoError(t, err)
			log.Flush = lock.FlushLog(client)
			before := accepted.Load()
			_, err = client.Mutex("m").TryLock(bounded.Context(t))
			require.ErrorContains(t, err, c.says)
			require.Equal(t, !c.definite, errors.Is(err, lock.ErrUnknown), "Redis said no, or may say yes soon")
			require.EqualValues(t, 1, accepted.Load()-before, "no request is sent to a connection that is over")
			require.Contains(t, log.String(), c.says)
			require.NotContains(t, log.String(), "TIME")
			err = client.Check(bounded.Context(t))
			require.ErrorContains(t, err, c.advice)
			fixture.CloseNow(client)
		}
	}
}
