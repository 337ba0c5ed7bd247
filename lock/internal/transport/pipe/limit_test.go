package pipe

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/support/wait"
	"github.com/wheellock/wheellock/lock/internal/transport/resp"
	"github.com/wheellock/wheellock/lock/script"
)

// TestABatchThatIsWrittenLateHasALimit: this process may stand still after a Replicated has set the
// limit of a batch and before it writes the batch. The timer then runs while nothing is in flight.
func TestABatchThatIsWrittenLateHasALimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		defer server.Close()
		p := &Replicated{cfg: &Config{Timeout: time.Second, Epoch: func() uint32 { return 0 }, Failed: func(error) {}}}
		c := &replicaConn{
			Exchange: NewExchange(p.cfg, Connection{Conn: resp.Over(resp.New(still{client}))}), failed: make(chan struct{}),
		}
		c.limit = time.AfterFunc(p.cfg.Timeout, func() { p.checkAge(c) })
		c.setLimited(true)
		time.Sleep(p.cfg.Timeout)
		synctest.Wait()
		require.False(t, wait.Closed(c.failed), "nothing is in flight")
		go func() {
			_ = c.Write([]*Request{new(Requests).New("m", script.Acquire, 1, nil, resp.ArgsOf("m", "1"))})
		}()
		time.Sleep(p.cfg.Timeout + p.cfg.Timeout/16)
		synctest.Wait()
		require.True(t, wait.Closed(c.failed))
		require.Equal(t, ErrUnanswered, c.err)
	})
}

// TestAReplicatedLooksAtNoIdleConnection: the timer may run when the last answer comes.
func TestAReplicatedLooksAtNoIdleConnection(t *testing.T) {
	p := &Replicated{cfg: &Config{Timeout: time.Hour, Epoch: func() uint32 { return 0 }}}
	c := &replicaConn{Exchange: NewExchange(p.cfg, Connection{Conn: resp.Over(resp.New(still{}))})}
	c.limit = time.AfterFunc(p.cfg.Timeout, func() {})
	c.setLimited(true)
	p.checkAge(c)
	c.setLimited(false)
	require.False(t, c.limit.Stop(), "it does not run")
	p.checkAge(c)
	require.False(t, c.limit.Stop(), "it does not run again")
}
