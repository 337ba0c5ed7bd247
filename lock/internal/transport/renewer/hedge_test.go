package renewer

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/wheellock/wheellock/lock/internal/transport/dialing"
	"github.com/wheellock/wheellock/lock/internal/transport/pipe"
)

// TestASlowDialGivesWayToAConnectionThatIsIdle: a dial may take longer than a round trip. So a batch
// that waits for a dial gives the dial up when a connection becomes idle.
func TestASlowDialGivesWayToAConnectionThatIsIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lease = 30 * time.Second
		var dials atomic.Int32
		r := New(configOf(time.Second, func(error) {}, func(ctx context.Context, _ *dialing.Bound) (pipe.Connection, error) {
			if dials.Add(1) == 1 {
				return pipe.Connection{Conn: allHeld{}}, nil
			}
			<-ctx.Done()
			return pipe.Connection{}, ctx.Err()
		}))
		defer r.Close()
		c, _, err := r.takeConn(t.Context(), lease)
		require.NoError(t, err)
		began, ended := time.Now(), make(chan error, 1)
		go func() {
			_, _, err := r.takeConn(t.Context(), lease)
			ended <- err
		}()
		time.Sleep(3500 * time.Millisecond)
		synctest.Wait()
		require.Empty(t, ended)
		r.giveConnBack(c, true)
		require.Equal(t, errSuperseded, <-ended)
		require.Equal(t, 4*time.Second, time.Since(began))
		_, idled, err := r.takeConn(t.Context(), lease)
		require.NoError(t, err)
		require.True(t, idled)
	})
}
